"""The head's half of ssh://: a connection of a client elsewhere, byte for byte, to the master's socket here.

To the master it is a local command of the user who logged in; nothing more has to be proved or sent. Each direction is
a thread that reads and then writes: what the other end does not take is not read, so nothing piles up here.
"""

from __future__ import annotations

import _socket
import _thread
import os
import time

from mgpu.client.http import Connection
from mgpu.lean.context import suppress
from mgpu.lean.typing import Callable

PIECE_B = 1 << 18
LOOK_S = 5.0


def relay(connection: Connection, source: int = 0, sink: int = 1, lives: Callable[[], bool] = lambda: True) -> None:
    """Returns when the master has said all, or the client no longer `lives`. The master is told the end of `source`;
    what it answers then is still passed on."""
    _thread.start_new_thread(_send, (connection, source))
    _thread.start_new_thread(_watch, (connection, lives))
    with suppress(OSError):  # nobody reads any more
        while data := connection.recv(PIECE_B):
            _write(sink, data)


def _send(connection: Connection, source: int) -> None:
    with suppress(OSError):  # the master is gone: the other direction tells
        while data := os.read(source, PIECE_B):
            connection.sendall(data)
    with suppress(OSError):
        connection.shutdown(_socket.SHUT_WR)


def _watch(connection: Connection, lives: Callable[[], bool]) -> None:
    while lives():
        time.sleep(LOOK_S)
    with suppress(OSError):
        connection.shutdown(_socket.SHUT_RDWR)


def _write(sink: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(sink, left) :]
