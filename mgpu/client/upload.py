"""What goes to the master beside a job: its tree, unless that is there; a file as the body of a PUT, in pieces."""

from __future__ import annotations

import os

from mgpu.client import http, ship
from mgpu.client.master import Master
from mgpu.lean.typing import TYPE_CHECKING, Any, Iterator

PIECE_B = 1 << 18

if TYPE_CHECKING:
    from collections.abc import Callable

    Told = Callable[[int, int], None]


def not_told(sent: int, size: int) -> None:
    """Nobody wants to know how far it is."""


def send_tree(master: Master, found: ship.Shipment, told: Told = not_told) -> dict[str, Any]:
    """Sees to it that the master has it; what the submission says of it. `told`: as in `put`. Raises MasterError."""
    ship.check_size(found, int(master.call("GET", "/v1/trees")["max_size"]))
    file, digest = ship.pack(found)
    with file:
        if not _is_there(master, digest):
            put(master, f"/v1/trees/{digest}", file, told)
    return {
        "digest": digest,
        "place": found.place,
        "commit": found.commit,
        "dirty": found.dirty,
        "size": found.size,
        "files": found.files,
    }


def _is_there(master: Master, digest: str) -> bool:
    try:
        master.call("GET", f"/v1/trees/{digest}")
    except http.MasterError as error:
        if error.code != "not_found":
            raise
        return False
    return True


def put(master: Master, path: str, file: Any, told: Told) -> None:
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
