"""How the C library gives memory to a program of many threads."""

from __future__ import annotations

import ctypes
from contextlib import suppress

_M_ARENA_MAX = -8  # mallopt(3)
_ARENAS = 2


def few_arenas() -> None:
    """One stock of free memory for all threads, or nearly so: glibc has up to eight for each core, and what is free in
    one is of no use to the others. Other C libraries have no such thing."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS)
