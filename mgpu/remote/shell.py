"""A serve loop (node/) at the other end of a channel: one request, one answer, a timeout on everything.

After a timeout or a lost link nobody knows where the stream stands, so the shell is broken for good: `RemoteError`, and
the caller takes another one. A request whose answer is missing may still be carried out; node/ is made for that.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from mgpu import clock
from mgpu.numeral import numeral
from mgpu.remote import wire
from mgpu.remote.channel import CHUNK, Channel, Connection
from mgpu.remote.errors import RemoteError, Trouble

REQUEST_TIMEOUT_S = 20.0
FOR_EVER_S = 1e8
_MAX_REPLY = 16 * 1024 * 1024  # a node that answers without end is cut off
MUCH, ENOUGH, GATHER_S = 16 << 10, 1 << 20, 0.001
_MAX_EVENT = 1 << 16  # a longer line of the events file is none of ours


Offsets = tuple[int | None, int | None]  # of stdout and stderr


@dataclass(frozen=True, slots=True)
class Reply:
    """`status` "ok", "failed", ...; `words` what followed it; `body` the raw bytes before."""

    status: str
    words: tuple[str, ...]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    def word(self, index: int) -> str:
        if index >= len(self.words):
            raise self._unreadable()
        return self.words[index]

    def number(self, index: int) -> int:
        """A size or a status."""
        found = numeral(self.word(index))
        if found is None:
            raise self._unreadable()
        return found

    def _unreadable(self) -> RemoteError:
        said = " ".join((self.status, *self.words))[:200]
        return RemoteError(f"the node's answer cannot be read: {said}")


class NodeShell:
    def __init__(self, connection: Connection, login_timeout_s: float, sudo_user: str = "") -> None:
        self.connection = connection
        self.broken = False
        self._sudo = bool(sudo_user)
        self._mark = secrets.token_hex(16)
        self._ids = itertools.count(1)
        self._buffer = bytearray()
        self._channel: Channel = connection.open_channel(wire.login_command(self._mark, sudo_user))
        try:
            with contextlib.suppress(RemoteError, TimeoutError):
                # an account that runs no commands may be gone before it has taken all; what it said is the answer
                self._channel.send(wire.program(), login_timeout_s)
            hello = self._answer("hello", login_timeout_s)
            self.boot_id, self.hostname = hello.word(0), hello.word(1)
        except RemoteError:
            self.close()
            raise
        missing = " ".join(hello.words[2:])
        if missing:
            self.close()
            raise RemoteError(
                f"the node has no {missing.replace(',', ', ')} in PATH: install coreutils, util-linux, findutils, grep",
                Trouble.NO_COMMANDS,
            )

    def request(self, operation: str, *words: str, texts: bytes = b"", timeout_s: float = REQUEST_TIMEOUT_S) -> Reply:
        """Words must be encoded already; `texts` follow them, see wire.encode_text. Raises RemoteError."""
        request_id = str(next(self._ids))
        self._send(f"{request_id} {operation} {' '.join(words)}\n", timeout_s, texts)
        return self._answer(request_id, timeout_s)

    def request_with(self, pieces: Iterable[bytes], operation: str, *words: str, timeout_s: float) -> Reply:
        """As `request`, with bytes behind it that are too many to be held at once. What `pieces` raises breaks it."""
        request_id = str(next(self._ids))
        self.broken = True  # until the last of them is sent
        self._send(f"{request_id} {operation} {' '.join(words)}\n", timeout_s)
        for piece in pieces:
            self._send("", timeout_s, piece)
        self.broken = False
        return self._answer(request_id, timeout_s)

    def _send(self, line: str, timeout_s: float, texts: bytes = b"") -> None:
        try:
            self._channel.send(line.encode("ascii") + texts, timeout_s)
        except (TimeoutError, RemoteError) as error:
            raise self._break(f"the node does not take requests: {error or 'timed out'}") from error

    def _answer(self, request_id: str, timeout_s: float) -> Reply:
        """Everything up to `MARK ID end STATUS WORD...`."""
        needle = f"\n{self._mark} {request_id} end ".encode()
        deadline = clock.monotonic() + timeout_s
        searched = 0
        while True:
            at = self._buffer.find(needle, max(0, searched - len(needle)))
            stop = self._buffer.find(b"\n", at + len(needle)) if at >= 0 else -1
            if stop >= 0:
                status, *words = self._buffer[at + len(needle) : stop].decode("utf-8", "replace").split(" ")
                body = bytes(self._buffer[:at])
                del self._buffer[: stop + 1]
                return Reply(status, tuple(words), body)
            searched = len(self._buffer) if at < 0 else at
            self._fill(deadline, request_id)

    def _fill(self, deadline: float, request_id: str) -> None:
        try:
            data = self._channel.receive(max(0.0, deadline - clock.monotonic()))
        except TimeoutError as error:
            raise self._break("the node did not answer in time") from error
        except (OSError, EOFError) as error:
            raise self._break(f"connection lost: {error}") from error
        if not data:
            raise self._ended(request_id)
        self._buffer += data
        if len(self._buffer) > _MAX_REPLY:
            raise self._break("the node's answer has no end")

    def _ended(self, request_id: str) -> RemoteError:
        if request_id != "hello":
            return self._break("connection lost")
        said = self._buffer.decode("utf-8", "replace").strip()
        if self._sudo or not said:
            said = self._first_error() or said
        lines = said.splitlines() or [""]
        line = next((line for line in lines if self._sudo and "sudo" in line), lines[0])[:200]
        self.broken = True
        if not self.connection.alive:
            return RemoteError("connection lost while logging in")
        return RemoteError(f"account cannot run commands; it said: {line or '(nothing)'}", Trouble.NO_COMMANDS)

    def _first_error(self) -> str:
        with contextlib.suppress(OSError, EOFError):
            return self._channel.receive_error(1.0).decode("utf-8", "replace").strip()
        return ""

    def _break(self, why: str) -> RemoteError:
        self.broken = True
        return RemoteError(why)

    def close(self) -> None:
        self.broken = True
        self._channel.close()

    def sections(self, reply: Reply) -> dict[str, tuple[str, str]]:
        """A body cut at its `MARK ID section NAME WORD...` lines: name -> (words, the text below)."""
        found: dict[str, tuple[str, str]] = {}
        for chunk in reply.text.split(f"\n{self._mark} ")[1:]:
            head, _, text = chunk.partition("\n")
            _, _, title = head.partition(" section ")
            name, _, words = title.partition(" ")
            found[name] = (words, text)
        return found

    # --- streams --------------------------------------------------------------------------------------------------

    def events(self) -> Iterator[str]:
        """Lines of the events file as they come; ends (RemoteError) only with the link, or by `close`."""
        request_id = str(next(self._ids))
        self._send(f"{request_id} events\n", REQUEST_TIMEOUT_S)
        begin = f"{self._mark} {request_id} begin"
        seen = False
        while True:
            while (at := self._buffer.find(b"\n")) >= 0:
                line = self._buffer[:at].decode("utf-8", "replace")
                del self._buffer[: at + 1]
                if seen:
                    yield line
                elif line == begin:
                    seen = True
                    yield ""  # from here on nothing is missed
            try:
                data = self._channel.receive(None if seen else REQUEST_TIMEOUT_S)
            except (OSError, EOFError) as error:
                raise self._break(f"connection lost: {error}") from error
            if not data:
                raise self._break("connection lost")
            self._buffer += data
            if len(self._buffer) > _MAX_EVENT and b"\n" not in self._buffer:
                self._buffer[:] = b"?"  # the rest of that line is still to come

    def begin(self, operation: str, *words: str) -> Talk:
        """A request that goes on: further lines, each with an answer, until the end."""
        request_id = str(next(self._ids))
        self._send(f"{request_id} {operation} {' '.join(words)}\n", REQUEST_TIMEOUT_S)
        return Talk(self, request_id)

    def follow(
        self, key: str, offsets: Offsets, sinks: tuple[Callable[[bytes], None], Callable[[bytes], None]]
    ) -> Follow:
        """Both output files of `KEY` live, from byte offsets (stdout, stderr; None = not that one); each sink is
        called from a thread."""
        request_id = str(next(self._ids))
        words = " ".join("-" if offset is None else str(offset) for offset in offsets)
        self._send(f"{request_id} follow {key} {words}\n", REQUEST_TIMEOUT_S)
        first = bytes(self._buffer)
        self._buffer.clear()
        return Follow(self, self._channel, f"{self._mark} {request_id}", first, sinks)


class Talk:
    """A request that has begun; see NodeShell.begin."""

    def __init__(self, shell: NodeShell, request_id: str) -> None:
        self._shell = shell
        self._id = request_id
        self._ended = False

    def say(self, line: str, text: bytes = b"") -> None:
        """Where a window is full, it waits as long as it takes: a dead link is noticed all the same."""
        self._shell._send(f"{line}\n", FOR_EVER_S if text else REQUEST_TIMEOUT_S, text)

    def hear(self, timeout_s: float) -> list[str]:
        """The words of the next line that is an answer."""
        shell, tag = self._shell, f"{self._shell._mark} {self._id} "
        deadline = clock.monotonic() + timeout_s
        while True:
            while (at := shell._buffer.find(b"\n")) < 0:
                shell._fill(deadline, self._id)
            line = shell._buffer[:at].decode("utf-8", "replace")
            del shell._buffer[: at + 1]
            if line.startswith(tag):
                words = line.removeprefix(tag).split(" ")
                self._ended = words[0] == "end"  # it was refused, or broken off over there
                return words

    def end(self) -> None:
        """Raises nothing: a shell that does not come back is marked broken."""
        if self._ended:
            return
        try:
            self.say("stop")
            self._shell._answer(self._id, REQUEST_TIMEOUT_S)
        except RemoteError:
            self._shell.broken = True


class Follow:
    """Two reader threads; `stop` ends the tails and gives the shell back for further requests."""

    def __init__(
        self,
        shell: NodeShell,
        channel: Channel,
        tag: str,
        first: bytes,
        sinks: tuple[Callable[[bytes], None], Callable[[bytes], None]],
    ) -> None:
        self._shell = shell
        self._channel = channel
        self._end = f"{tag} end ok\n".encode()
        self._begin = f"\n{tag} begin\n".encode()
        self._threads = [
            threading.Thread(target=self._pump, args=(channel.receive, sinks[0], first, None), daemon=True),
            threading.Thread(target=self._pump, args=(channel.receive_error, sinks[1], b"", self._begin), daemon=True),
        ]
        try:
            for thread in self._threads:
                thread.start()
        except RuntimeError as error:  # there may be no more of these
            raise shell._break(f"its output cannot be followed: {error}") from error

    def _pump(
        self,
        receive: Callable[[float | None], bytes],
        sink: Callable[[bytes], None],
        held: bytes,
        begin: bytes | None,
    ) -> None:
        whole = False
        try:
            whole = self._pass_on(receive, sink, held, begin)
        finally:
            if not whole:  # also where a sink fails: what comes next is no answer to anything
                self._shell.broken = True

    def _pass_on(
        self,
        receive: Callable[[float | None], bytes],
        sink: Callable[[bytes], None],
        held: bytes,
        begin: bytes | None,
    ) -> bool:
        """Bytes, but for a tail that could be the start of the end mark. Whether that came."""
        while True:
            try:
                data = receive(None)
            except (OSError, EOFError):
                data = b""
            if not data:
                return False
            held += data if len(data) < MUCH else _more(receive, data)
            if begin is not None:
                at = held.find(begin)
                if at < 0:
                    held = held[-len(begin) :]
                    continue
                held, begin = held[at + len(begin) :], None
            at = held.find(self._end)
            if at >= 0:
                if at:
                    sink(held[:at])
                return True
            keep = _overlap(held, self._end)
            if len(held) > keep:
                sink(held[: len(held) - keep])
                held = held[len(held) - keep :]

    @property
    def ended(self) -> bool:
        return not all(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        """Raises nothing: a shell that does not come back is marked broken."""
        try:
            self._channel.send(b"stop\n", REQUEST_TIMEOUT_S)
        except (TimeoutError, RemoteError):
            self._shell.broken = True
        for thread in self._threads:
            thread.join(REQUEST_TIMEOUT_S if not self._shell.broken else 0.1)
        if any(thread.is_alive() for thread in self._threads):
            self._shell.broken = True


def _more(receive: Callable[[float | None], bytes], piece: bytes) -> bytes:
    """With what follows `piece` at once: each costs its sink the same. What is typed, and shown on a terminal, is never
    that much."""
    found = bytearray(piece)
    with contextlib.suppress(OSError, EOFError):  # the next one is told of that
        while piece and len(found) < ENOUGH:
            if len(piece) < CHUNK:  # all that was there
                time.sleep(GATHER_S)
            piece = receive(0.0)
            found += piece
    return bytes(found)


def _overlap(data: bytes, mark: bytes) -> int:
    """Length of the longest end of `data` that is a beginning of `mark`."""
    longest = min(len(data), len(mark) - 1)
    for size in range(longest, 0, -1):
        if data[-size:] == mark[:size]:
            return size
    return 0
