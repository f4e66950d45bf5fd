"""What systemd is told by the service that we may be: that it is ready, lives, ends. A datagram to the socket that a
variable names; where it names none, nothing is said.

The variables are taken out of our environment: what we start (jobs of this machine among it) is not that service.
"""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping
from contextlib import suppress
from pathlib import Path

PATIENCE_S = 5.0  # it may be busy

# of the service that we are
_OURS = (
    "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID",
    "MANAGERPID", "MANAGERPIDFDID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "FDSTORE", "MEMORY_PRESSURE_WATCH",
    "MEMORY_PRESSURE_WRITE", "STATE_DIRECTORY",
)  # fmt: skip


def is_confined() -> bool:
    """What we start can gain no privileges: no sudo, no setuid program works in it."""
    try:
        return "NoNewPrivs:\t1\n" in Path("/proc/self/status").read_text("latin-1")
    except OSError:
        return False


class Systemd:
    """`watchdog_s`: how often it wants to hear that we live, infinite = never. `variables`: what was taken out."""

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        self.variables = {name: environ.pop(name) for name in _OURS if name in environ}
        self._address = self.variables.get("NOTIFY_SOCKET", "")
        period_us = self.variables.get("WATCHDOG_USEC", "")
        ours = self.variables.get("WATCHDOG_PID", "") in ("", str(os.getpid()))
        self.watchdog_s = int(period_us) / 4e6 if self._address and period_us.isdigit() and ours else float("inf")
        self._due = 0.0

    def tell(self, *lines: str, patience_s: float = PATIENCE_S) -> None:
        """`READY=1`, `WATCHDOG=1`, ... Who does not listen is not waited for longer than that."""
        if self._address.startswith(("/", "@")):
            address = self._address.replace("@", "\0", 1) if self._address[0] == "@" else self._address
            with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.settimeout(patience_s)
                sender.sendto("\n".join(lines).encode(), address)

    def alive(self, monotonic: float) -> None:
        """To be called by what must not hang, as often as one likes."""
        if self.watchdog_s < float("inf") and monotonic >= self._due:
            self._due = monotonic + self.watchdog_s / 2
            self.tell("WATCHDOG=1", patience_s=0)

    def has_our_stderr(self) -> bool:
        """The journal writes down what we say there, and when."""
        try:
            facts = os.fstat(2)
        except OSError:
            return False
        return self.variables.get("JOURNAL_STREAM", "") == f"{facts.st_dev}:{facts.st_ino}"
