"""Connections to a master on this machine that were answered whole on and are asked again: for a program that asks
often. A command asks once or twice, and makes a new one each time."""

from __future__ import annotations

import os

from mgpu.client.http import Connection
from mgpu.client.ready import ready

MOST = 16  # idle at a time; more than ask at once in a busy program


class Kept:
    """Any number of threads may use it. A process that was forked from ours begins with none: two that read from one
    connection would take each other's answers."""

    def __init__(self) -> None:
        self._idle: list[Connection] = []
        self._pid = os.getpid()

    def take(self) -> Connection | None:
        if self._pid != os.getpid():
            self.close()
            self._pid = os.getpid()
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if not ready([connection.fileno()], timeout_s=0)[0]:
                return connection
            connection.close()  # the other side has closed it

    def keep(self, connection: Connection) -> None:
        if len(self._idle) < MOST and self._pid == os.getpid():
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        """Ends what was kept; in a process that was forked, its hold on what is its parent's."""
        while self._idle:
            self._idle.pop().close()

    def __del__(self) -> None:
        self.close()
