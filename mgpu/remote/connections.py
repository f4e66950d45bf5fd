"""The connections to one node: how many shells are open on each, and a further one where all are full.

sshd gives a connection 10 sessions and frees one only when its command ends. Nothing here waits for another node.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Container

from mgpu import clock
from mgpu.meters import Contact
from mgpu.remote.channel import Connection
from mgpu.remote.errors import RemoteError

MAX_SHELLS = 8  # of a connection


class Connections:
    """Thread-safe. `connect` logs in, or raises RemoteError."""

    def __init__(self, connect: Callable[[], Connection], login_timeout_s: float) -> None:
        self._connect = connect
        self._login_timeout_s = login_timeout_s
        self._lock = threading.Lock()
        self._shells: dict[Connection, int] = {}  # open on it
        self._logins = 0
        self.opening = threading.Lock()  # one login at a time to a node: MaxStartups

    @property
    def contact(self) -> Contact:
        with self._lock:
            alive = [shells for connection, shells in self._shells.items() if connection.alive]
            return Contact(len(alive), sum(alive), self._logins)

    @property
    def address(self) -> str:
        with self._lock:
            return next((connection.address for connection in self._shells), "")

    def with_room(self, refused: Container[Connection]) -> Connection | None:
        with self._lock:
            there = list(self._shells.items())
        for connection, count in there:
            if not connection.alive:
                self.discard(connection)
            elif count < MAX_SHELLS and connection not in refused:
                return connection
        return None

    def login(self) -> Connection:
        deadline = clock.monotonic() + self._login_timeout_s
        while True:
            try:
                connection = self._connect()
                break
            except RemoteError as error:
                # MaxStartups drops some logins at random; that says nothing about the node
                dropped = "banner" in error.message or "reset" in error.message
                if not dropped or clock.monotonic() > deadline:
                    raise
            threading.Event().wait(random.uniform(0.1, 0.6))
        with self._lock:
            self._shells[connection] = 0
            self._logins += 1
        return connection

    def used(self, connection: Connection) -> int:
        """How many shells there are on it."""
        with self._lock:
            return self._shells.get(connection, 0)

    def opened(self, connection: Connection) -> None:
        with self._lock:
            self._shells[connection] = self._shells.get(connection, 0) + 1

    def closed(self, connection: Connection) -> None:
        with self._lock:
            if connection in self._shells:
                self._shells[connection] -= 1

    def discard(self, connection: Connection) -> None:
        with self._lock:
            self._shells.pop(connection, None)
        connection.close()

    def reset(self) -> None:
        """Throw away every one; the next request logs in afresh."""
        with self._lock:
            connections = list(self._shells)
            self._shells.clear()
        for connection in connections:
            connection.close()
