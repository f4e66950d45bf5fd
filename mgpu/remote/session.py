"""All shells to one node under one account, within the SSH budget.

sshd gives a connection 10 sessions and frees one only when its command ends. So shells are kept and lent out
again; when a connection is full, or refuses, a further one is made. Nothing here waits for another node.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator

from mgpu import clock
from mgpu.meters import Contact
from mgpu.remote.channel import Connection
from mgpu.remote.errors import RemoteError, Trouble
from mgpu.remote.shell import NodeShell, Reply

MAX_SHELLS = 8  # of a connection
SPARE_SHELLS = 3  # kept warm when nobody needs them

_LOGINS = threading.BoundedSemaphore(16)  # at once, over all nodes


class NodeSession:
    """Thread-safe. `connect` logs in, or raises RemoteError. `timeout_s`: for the answer to a request."""

    def __init__(
        self,
        connect: Callable[[], Connection],
        root_words: tuple[str, ...],
        login_timeout_s: float,
        timeout_s: float = 60.0,
    ) -> None:
        self._connect = connect
        self._root_words = root_words
        self._login_timeout_s = login_timeout_s
        self.timeout_s = timeout_s
        self._lock = threading.Lock()
        self._opening = threading.Lock()  # one login at a time to a node: MaxStartups
        self._connections: dict[Connection, int] = {}  # -> shells open on it
        self._idle: list[NodeShell] = []
        self._control: NodeShell | None = None
        self._control_lock = threading.Lock()
        self._logins = 0
        self._closed = False

    @property
    def contact(self) -> Contact:
        with self._lock:
            alive = [shells for connection, shells in self._connections.items() if connection.alive]
            return Contact(len(alive), sum(alive), self._logins)

    @property
    def address(self) -> str:
        with self._lock:
            return next((connection.address for connection in self._connections), "")

    # --- requests ---------------------------------------------------------------------------------------------------

    def control(self, operation: str, *words: str, texts: bytes = b"") -> Reply:
        """Quick requests, one after the other, on a shell kept for them. Tried twice: once more on a fresh shell where
        the first was found dead (all requests are idempotent)."""
        with self._control_lock:
            for last in (False, True):
                fresh = self._control is None or self._control.broken
                if fresh:
                    self._control = self._open_shell()
                assert self._control is not None  # just made
                try:
                    return self._control.request(operation, *words, texts=texts, timeout_s=self.timeout_s)
                except RemoteError:
                    self._drop(self._control)
                    self._control = None
                    if fresh or last:
                        raise
        raise AssertionError("unreachable")

    @contextlib.contextmanager
    def shell(self) -> Iterator[NodeShell]:
        """A shell of one's own for as long as the block lasts (a probe, a stream, bulk reading)."""
        shell = self._borrow()
        try:
            yield shell
        finally:
            self._give_back(shell)

    def _borrow(self) -> NodeShell:
        with self._lock:
            while self._idle:
                shell = self._idle.pop()
                if not shell.broken and shell.connection.alive:
                    return shell
                self._forget(shell)
        return self._open_shell()

    def _give_back(self, shell: NodeShell) -> None:
        with self._lock:
            if not shell.broken and not self._closed and len(self._idle) < SPARE_SHELLS:
                self._idle.append(shell)
                return
        self._drop(shell)

    def warm(self) -> None:
        """Have the spare shells ready, so that nobody has to wait for one. Raises RemoteError."""
        while True:
            with self._lock:
                if self._closed or len(self._idle) >= SPARE_SHELLS:
                    return
            self._give_back(self._open_shell())

    # --- connections ------------------------------------------------------------------------------------------------

    def _open_shell(self) -> NodeShell:
        with self._opening:
            refused: set[Connection] = set()
            while True:
                if self._closed:
                    raise RemoteError("the master is stopping")
                connection = self._with_room(refused)
                fresh = connection is None
                connection = connection or self._login()
                try:
                    shell = NodeShell(connection, self._login_timeout_s)
                    reply = shell.request("root", *self._root_words, timeout_s=self._login_timeout_s)
                    if reply.status != "ok":
                        text = f"the node's program does not start: {reply.text[:200]}"
                        raise RemoteError(text, Trouble.NO_COMMANDS)
                except RemoteError as error:
                    if error.trouble is Trouble.REFUSED and not fresh:
                        # full, or shells that we closed have not ended there yet
                        refused.add(connection)
                        continue
                    # what an account may do is decided at its login: once that is mended, only a new one shows it
                    useless = error.trouble is Trouble.NO_COMMANDS and not self._connections.get(connection)
                    if not connection.alive or error.trouble is Trouble.REFUSED or useless:
                        self._discard(connection)
                    raise
                with self._lock:
                    self._connections[connection] = self._connections.get(connection, 0) + 1
                return shell

    def _with_room(self, refused: set[Connection]) -> Connection | None:
        with self._lock:
            for connection, count in list(self._connections.items()):
                if not connection.alive:
                    del self._connections[connection]
                elif count < MAX_SHELLS and connection not in refused:
                    return connection
        return None

    def _login(self) -> Connection:
        deadline = clock.monotonic() + self._login_timeout_s
        while True:
            with _LOGINS:
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
            self._connections[connection] = 0
            self._logins += 1
        return connection

    def _forget(self, shell: NodeShell) -> None:
        """Under the lock."""
        if shell.connection in self._connections:
            self._connections[shell.connection] -= 1

    def _drop(self, shell: NodeShell) -> None:
        shell.close()
        with self._lock:
            self._forget(shell)
        if not shell.connection.alive:
            self._discard(shell.connection)

    def _discard(self, connection: Connection) -> None:
        with self._lock:
            self._connections.pop(connection, None)
        connection.close()

    def reset(self) -> None:
        """Throw away every connection; the next request logs in afresh."""
        with self._lock:
            connections = list(self._connections)
            self._connections.clear()
            idle, self._idle = self._idle, []
        for shell in idle:
            shell.close()
        for connection in connections:
            connection.close()

    def close(self) -> None:
        self._closed = True
        self.reset()
        control = self._control
        if control is not None:
            control.close()
