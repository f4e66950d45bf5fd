"""All shells to one node under one account, within the SSH budget: they are kept and lent out again; when a connection
is full, or refuses, a further one is made."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from mgpu.meters import Contact
from mgpu.remote import wire
from mgpu.remote.channel import Connection
from mgpu.remote.connections import Connections
from mgpu.remote.errors import RemoteError, Trouble
from mgpu.remote.shell import NodeShell, Reply
from mgpu.remote.wire import encode_text

SPARE_SHELLS = 3  # kept warm when nobody needs them, unless it is said otherwise


class _Kept:
    """A shell for one request after the other."""

    def __init__(self) -> None:
        self.shell: NodeShell | None = None
        self.lock = threading.Lock()


class NodeSession:
    """Thread-safe. `connect` logs in, or raises RemoteError; or the connections are those of another session, which
    closes them. `timeout_s`: for the answer to a request. `sudo_user`: whom each shell becomes at once, "" = nobody.
    `spare`: so many are kept warm. `quick`: the node's perl is used where it has one."""

    def __init__(
        self,
        connect: Callable[[], Connection] | Connections,
        root_words: tuple[str, ...],
        login_timeout_s: float,
        timeout_s: float = 60.0,
        sudo_user: str = "",
        spare: int = SPARE_SHELLS,
        quick: bool = True,
    ) -> None:
        self._spare = spare
        self._shared = isinstance(connect, Connections)
        self.connections = connect if isinstance(connect, Connections) else Connections(connect, login_timeout_s)
        self._root_words = root_words
        self._login_timeout_s = login_timeout_s
        self.timeout_s = timeout_s
        self._sudo_user = sudo_user
        self._lock = threading.Lock()
        self._shells: set[NodeShell] = set()
        self._idle: list[NodeShell] = []
        self._control = _Kept()
        self._quick = _Kept()
        self._quick_wanted = quick
        self._closed = False

    @property
    def contact(self) -> Contact:
        return Contact() if self._shared else self.connections.contact

    @property
    def address(self) -> str:
        return self.connections.address

    # --- requests ---------------------------------------------------------------------------------------------------

    def control(self, operation: str, *words: str, texts: bytes = b"") -> Reply:
        """Quick requests, one after the other, on a shell kept for them. Tried twice: once more on a fresh shell where
        the first was found dead (all requests are idempotent)."""
        return self._ask(self._control, self._open_shell, operation, words, texts)

    def quick(self, operation: str, *words: str, texts: bytes = b"") -> Reply:
        """As `control`, by the node's perl if it has one and this is among what that does."""
        if self._quick_wanted:
            reply = self._ask(self._quick, self._open_quick, operation, words, texts)
            if not self._quick_wanted:
                self._let_go(self._quick)
            if reply.status != "declined":
                return reply
        return self.control(operation, *words, texts=texts)

    def _open_quick(self) -> NodeShell:
        """Where there is no perl, or none that answers, it is a shell like any other, which does the same. Made anew:
        one that was kept may be as dead as the one that it is to stand for."""
        shell = self._open_shell()
        word, text = encode_text(wire.quick())
        try:
            if shell.request("quick", word, texts=text, timeout_s=self._login_timeout_s).status == "ok":
                return shell
        except RemoteError:
            self._drop(shell)
            if not shell.connection.alive:
                raise
            shell = self._open_shell()
        self._quick_wanted = False
        return shell

    def _ask(
        self, kept: _Kept, make: Callable[[], NodeShell], operation: str, words: tuple[str, ...], texts: bytes
    ) -> Reply:
        with kept.lock:
            for last in (False, True):
                fresh = kept.shell is None or kept.shell.broken
                if fresh:
                    try:
                        kept.shell = make()
                    except RemoteError as error:
                        error.sent = last
                        raise
                assert kept.shell is not None  # just made
                try:
                    return kept.shell.request(operation, *words, texts=texts, timeout_s=self.timeout_s)
                except RemoteError:
                    self._drop(kept.shell)
                    kept.shell = None
                    if fresh or last:
                        raise
        raise AssertionError("unreachable")

    def _let_go(self, kept: _Kept) -> None:
        """It serves like any other from now on."""
        with kept.lock:
            shell, kept.shell = kept.shell, None
        if shell is not None:
            self._give_back(shell)

    @contextlib.contextmanager
    def shell(self) -> Iterator[NodeShell]:
        """A shell of one's own for as long as the block lasts (a probe, a stream, bulk reading)."""
        shell = self._borrow()
        try:
            yield shell
        finally:
            self._give_back(shell)

    def enter(self) -> None:
        """Whether the account can be entered now, whatever is open already; it leaves nothing. Raises RemoteError."""
        if self._shared:
            self._drop(self._open_shell())
            return
        with self.connections.opening:
            connection = self.connections.login()
            try:
                self._begin(connection).close()
            finally:
                self.connections.discard(connection)

    def _borrow(self) -> NodeShell:
        while True:
            with self._lock:
                shell = self._idle.pop() if self._idle else None
            if shell is None:
                return self._open_shell()
            if not shell.broken and shell.connection.alive:
                return shell
            self._drop(shell)

    def _give_back(self, shell: NodeShell) -> None:
        with self._lock:
            if not shell.broken and not self._closed and len(self._idle) < self._spare:
                self._idle.append(shell)
                return
        self._drop(shell)

    def warm(self) -> None:
        """Have the spare shells ready, so that nobody has to wait for one. Raises RemoteError."""
        while True:
            with self._lock:
                if self._closed or len(self._idle) >= self._spare:
                    return
            self._give_back(self._open_shell())

    # --- shells -----------------------------------------------------------------------------------------------------

    def _open_shell(self) -> NodeShell:
        there = self.connections
        with there.opening:
            refused: set[Connection] = set()
            while True:
                if self._closed:
                    raise RemoteError("the master is stopping")
                connection = there.with_room(refused)
                fresh = connection is None
                connection = connection or there.login()
                try:
                    shell = self._begin(connection)
                except RemoteError as error:
                    if error.trouble is Trouble.REFUSED and not fresh:
                        # full, or shells that we closed have not ended there yet
                        refused.add(connection)
                        continue
                    # what an account may do is decided at its login: once that is mended, only a new one shows it
                    useless = error.trouble is Trouble.NO_COMMANDS and not there.used(connection)
                    if not connection.alive or error.trouble is Trouble.REFUSED or useless:
                        there.discard(connection)
                    raise
                there.opened(connection)
                with self._lock:
                    self._shells.add(shell)
                return shell

    def _begin(self, connection: Connection) -> NodeShell:
        shell = NodeShell(connection, self._login_timeout_s, self._sudo_user)
        try:
            reply = shell.request("root", *self._root_words, timeout_s=self._login_timeout_s)
            if reply.status != "ok":
                raise RemoteError(f"the node's program does not start: {reply.text[:200]}", Trouble.NO_COMMANDS)
        except RemoteError:
            shell.close()
            raise
        return shell

    def _drop(self, shell: NodeShell) -> None:
        shell.close()
        with self._lock:
            known = shell in self._shells
            self._shells.discard(shell)
        if known:
            self.connections.closed(shell.connection)
        if not shell.connection.alive:
            self.connections.discard(shell.connection)

    def reset(self) -> None:
        """Throw away every connection; the next request logs in afresh."""
        with self._lock:
            idle, self._idle = self._idle, []
        for shell in idle:
            self._drop(shell)
        self.connections.reset()

    def close(self) -> None:
        self._closed = True
        if not self._shared:
            self.reset()
        for kept in (self._control, self._quick):
            if (shell := kept.shell) is not None:
                shell.close()
        if self._shared:
            with self._lock:
                shells = list(self._shells)
            for shell in shells:
                self._drop(shell)
