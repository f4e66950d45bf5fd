"""A file on its way to the master, as the body of a PUT: in pieces, however large it is."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

from mgpu.client import http
from mgpu.client.master import TRIES, Master
from mgpu.lean_typing import Any

PIECE_B = 1 << 18
STALL_S = 60.0  # without a byte that was taken


def put(master: Master, path: str, file: Any, told: Callable[[int, int], None]) -> None:
    """All of `file`, from its beginning. `told` is called with how many bytes are gone, of how many. Raises
    MasterError."""
    size = os.fstat(file.fileno()).st_size
    for last in (*[False] * (TRIES - 1), True):
        file.seek(0)
        try:
            answer = _put(master.location.endpoint, path, file, size, told)
        except http.NoMaster:
            if last:
                raise
            master.start()
        else:
            http.raise_for_error(answer)
            return


def _put(endpoint: http.Endpoint, path: str, file: Any, size: int, told: Callable[[int, int], None]) -> http.Response:
    headers = {"Content-Type": "application/gzip", "Content-Length": str(size)}
    head = http.request_head(endpoint, "PUT", path, "1.0", headers)
    with http.connect(endpoint) as connection:
        connection.settimeout(STALL_S)
        try:
            connection.sendall(head, socket.MSG_NOSIGNAL)
            sent = 0
            while data := file.read(PIECE_B):
                connection.sendall(data, socket.MSG_NOSIGNAL)
                sent += len(data)
                told(sent, size)
        except TimeoutError as error:
            raise http.NoMaster("the master takes no more of what is shipped") from error
        except OSError:
            pass  # refused before it was read whole: the answer says why
        connection.settimeout(http.ANSWER_TIMEOUT_S)
        try:
            return http.read_response(connection)
        except OSError as error:
            raise http.NoMaster(f"the master did not answer ({error})") from error
