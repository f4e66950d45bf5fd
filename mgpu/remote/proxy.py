"""A ProxyCommand: a program of the user's own that is the way to a host.

paramiko has a class for that as well. It waits with select(), which knows no descriptor from 1024 on; where the program
ends it tries to read on for ever; and who ends it leaves a zombie. Through a pair of sockets it is a connection like
any other.
"""

from __future__ import annotations

import shlex
import socket
import subprocess

from mgpu.remote.errors import RemoteError


class Proxy:
    """Runs. Raises RemoteError where it cannot be run; `close` ends it. `sock` is ours to talk through."""

    def __init__(self, command: str) -> None:
        self.sock, theirs = socket.socketpair()
        try:
            with theirs:
                end, words = theirs.fileno(), shlex.split(command)
                self._process = subprocess.Popen(words, stdin=end, stdout=end, stderr=subprocess.DEVNULL)
        except (OSError, ValueError, IndexError) as error:
            self.sock.close()
            raise RemoteError(f"the ProxyCommand cannot be run: {error}") from error

    def close(self) -> None:
        self.sock.close()
        self._process.kill()
        self._process.wait()
