"""Signals by name and number, and the warning before a time limit that --signal asks for."""

from __future__ import annotations

import re

from mgpu.core.errors import RequestError

# those that mean the same on every kind of Linux machine
SIGNALS = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL",
    10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 18: "SIGCONT",
    19: "SIGSTOP", 20: "SIGTSTP", 24: "SIGXCPU",
}  # fmt: skip
_BY_NAME = {name.removeprefix("SIG"): number for number, name in SIGNALS.items()}
_WARNING = re.compile(r"(?P<first>B:)?(?:SIG)?(?P<name>[A-Z0-9]{1,9})(?:@(?P<seconds>\d{1,9}))?", re.ASCII)
DEFAULT_S = 60
RANK_0 = "R:"  # before a signal for a node: only to that of rank 0


def parse_warning(text: str) -> str:
    """`USR1@120`, `B:10` (then 60 seconds before) -> `[B:]NUMBER@SECONDS`. Raises RequestError."""
    found = _WARNING.fullmatch(text.strip().upper())
    number = _number(found["name"]) if found else None
    if found is None or number is None:
        raise RequestError(
            f"--signal '{text[:40]}' cannot be read: write [B:]SIGNAL@SECONDS, as in USR1@120 or B:TERM@60"
        )
    return f"{found['first'] or ''}{number}@{int(found['seconds'] or DEFAULT_S)}"


def parse_signal(text: str) -> int:
    """`USR1`, `SIGUSR1`, `usr1`, `10` -> its number. Raises RequestError."""
    number = _number(text.strip().upper().removeprefix("SIG"))
    if number is None:
        known = ", ".join(name.removeprefix("SIG") for name in SIGNALS.values())
        raise RequestError(f"there is no signal '{text[:40]}'", f"one of {known}, or a number from 1 to 64")
    return number


def _number(word: str) -> int | None:
    if word.isascii() and word.isdigit() and len(word) < 4:
        return int(word) if 1 <= int(word) <= 64 else None
    return _BY_NAME.get(word)


def signal_name(number: int) -> str:
    return SIGNALS.get(number, f"signal {number}")
