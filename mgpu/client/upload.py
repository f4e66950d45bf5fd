"""A file on its way to the master, as the body of a PUT: in pieces, however large it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from mgpu.client import http
from mgpu.client.master import Master
from mgpu.lean_typing import Any

PIECE_B = 1 << 18


def put(master: Master, path: str, file: Any, told: Callable[[int, int], None]) -> None:
    """All of `file`, from its beginning. `told` is called with how many bytes are gone, of how many. Raises
    MasterError."""
    endpoint = master.location.endpoint
    size = os.fstat(file.fileno()).st_size
    headers = {"Content-Type": "application/gzip", "Content-Length": str(size)}
    head = http.request_head(endpoint, "PUT", path, "1.1" if endpoint.dialer else "1.0", headers)

    def pieces() -> Iterator[bytes]:
        yield head
        file.seek(0)
        sent = 0
        while data := file.read(PIECE_B):
            yield data
            sent += len(data)
            told(sent, size)

    http.raise_for_error(master.insist(lambda: http.exchange(endpoint, pieces())))
