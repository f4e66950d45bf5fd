"""A command on a node with its three streams: through an SSH channel, or as a local process. Nothing above this file
knows which."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, Protocol

import paramiko

from mgpu.descriptors import as_before
from mgpu.remote.errors import RemoteError, Trouble
from mgpu.remote.ready import ready
from mgpu.remote.scope import scope_words

CHUNK = 256 * 1024  # read much at a time: recv(4096) costs 5 times the CPU


class Channel(Protocol):
    """All may raise TimeoutError, `send` RemoteError. Reads return b"" at the end of the stream, which never means that
    a job ended. Those with 0.0 give what is here; as those without a limit they may be used of both streams at once."""

    def send(self, data: bytes, timeout_s: float) -> None: ...
    def receive(self, timeout_s: float | None) -> bytes: ...
    def receive_error(self, timeout_s: float | None) -> bytes: ...
    def close(self) -> None: ...


class Connection(Protocol):
    """Something that channels are opened on. Raises RemoteError; trouble REFUSED = no session left here."""

    address: str

    def open_channel(self, command: str) -> Channel: ...
    @property
    def alive(self) -> bool: ...
    def close(self) -> None: ...


class SshChannel:
    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel

    def send(self, data: bytes, timeout_s: float) -> None:
        self._channel.settimeout(timeout_s)
        try:
            self._channel.sendall(data)
        except TimeoutError:
            raise
        except (OSError, EOFError) as error:
            raise RemoteError(f"connection lost while sending: {error or 'closed'}") from error

    def receive(self, timeout_s: float | None) -> bytes:
        self._limit(timeout_s, self._channel.recv_ready)
        return self._channel.recv(CHUNK)

    def receive_error(self, timeout_s: float | None) -> bytes:
        self._limit(timeout_s, self._channel.recv_stderr_ready)
        return self._channel.recv_stderr(CHUNK)

    def _limit(self, timeout_s: float | None, is_here: Callable[[], bool]) -> None:
        """The channel has one time limit for all: who wants to wait for nothing must not set it for those who wait."""
        if timeout_s != 0.0:
            self._channel.settimeout(timeout_s)
        elif not is_here():
            raise TimeoutError

    def close(self) -> None:
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.close()


@dataclass(frozen=True, slots=True)
class Login:
    """`host_key`: type and fingerprint of what was shown; `key`: fingerprint of ours that was accepted."""

    host_key: str
    key: str


class SshConnection:
    """A paramiko transport that is logged in. `address` is the peer's numeric address, or the name if unknown;
    `logins` has one for each hop, the node's own last; `release` is called when it is closed."""

    def __init__(
        self,
        transport: paramiko.Transport,
        address: str,
        sock: socket.socket | None,
        timeout_s: float,
        logins: tuple[Login, ...] = (),
        release: Callable[[], None] = lambda: None,
    ) -> None:
        self._release = release
        self._timeout_s = timeout_s
        self._transport = transport
        self._sock = sock
        self.address = address
        self.logins = logins

    @property
    def alive(self) -> bool:
        return self._transport.is_active()

    def open_channel(self, command: str) -> Channel:
        try:
            channel = self._transport.open_session(timeout=self._timeout_s)
            channel.settimeout(self._timeout_s)
            channel.exec_command(command)
        except paramiko.ChannelException as error:
            raise RemoteError(f"the node refuses another session: {error.text}", Trouble.REFUSED) from error
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise RemoteError(f"no session on the connection: {error or 'closed'}") from error
        return SshChannel(channel)

    def count_sessions(self, most: int) -> int:
        """How many it takes at once beside those that are open, at most so many. Nothing runs in them."""
        opened: list[paramiko.Channel] = []
        try:
            while len(opened) < most:
                opened.append(self._transport.open_session(timeout=self._timeout_s))
        except paramiko.ChannelException:
            pass  # refused: that is the answer
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise RemoteError(f"no session on the connection: {error or 'closed'}") from error
        finally:
            for channel in opened:
                channel.close()
        return len(opened)

    def close(self) -> None:
        """Drop it hard, so that requests still on their way are thrown away rather than delivered later."""
        if self._sock is not None:
            with contextlib.suppress(OSError):
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        wake_reader(self._sock)
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._transport.close()
        self._release()


def wake_reader(sock: socket.socket | None) -> None:
    """The thread that waits for data there is told that none comes: until it stops waiting, the kernel keeps a socket
    that we have closed."""
    if sock is not None:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RD)


class LocalChannel:
    def __init__(self, command: str, environ: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [*scope_words(), "/bin/sh", "-c", as_before() + command],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
            cwd="/",
        )

    def send(self, data: bytes, timeout_s: float) -> None:
        stream = self._stream(self._process.stdin)
        try:
            while data:
                if not ready(stream.fileno(), timeout_s, to_write=True):
                    raise TimeoutError
                data = data[os.write(stream.fileno(), data[:4096]) :]
        except (OSError, ValueError) as error:
            raise RemoteError(f"the local shell is gone: {error}") from error

    def receive(self, timeout_s: float | None) -> bytes:
        return self._read(self._stream(self._process.stdout), timeout_s)

    def receive_error(self, timeout_s: float | None) -> bytes:
        return self._read(self._stream(self._process.stderr), timeout_s)

    @staticmethod
    def _stream(stream: IO[bytes] | None) -> IO[bytes]:
        assert stream is not None  # all three were asked for
        return stream

    @staticmethod
    def _read(stream: IO[bytes], timeout_s: float | None) -> bytes:
        try:
            if not ready(stream.fileno(), timeout_s):
                raise TimeoutError
            return os.read(stream.fileno(), CHUNK)
        except ValueError:  # closed by another thread
            return b""

    def close(self) -> None:
        """End of stdin ends the shell; it is reaped, its streams are closed."""
        stdin = self._stream(self._process.stdin)
        with contextlib.suppress(OSError):
            stdin.close()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            self._stream(stream).close()


class LocalConnection:
    """This machine itself: the same program, without SSH. `environ` None = our own, but for what a scheduler said about
    the job that we may run in ourselves."""

    address = "127.0.0.1"
    alive = True

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = environ

    def open_channel(self, command: str) -> Channel:
        environ = self._environ
        if environ is None:
            environ = {name: value for name, value in os.environ.items() if not name.startswith(("MGPU_", "SLURM_"))}
        try:
            return LocalChannel(command, environ)
        except OSError as error:  # no more processes, descriptors or memory
            raise RemoteError(f"no shell can be run on this machine: {error.strerror or error}") from error

    def close(self) -> None:
        """Nothing to close: each channel is a process of its own."""
