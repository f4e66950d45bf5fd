"""How many files the master may have open: one for each node, and one for each client.

The soft limit is often 1,024 and the hard one much higher, for the sake of programs that wait with select(). The master
does not, and raises its own; the jobs of its own machine get what it was.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress

MOST = 8192  # half of which the clients may take: each costs memory, too

_before: list[int] = []  # the last one counts: a limit is the whole process's


@contextmanager
def room() -> Iterator[None]:
    """As many as may be, up to MOST; afterwards as before."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(MOST, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        yield
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    _before.append(soft)
    try:
        yield
    finally:
        _before.pop()
        with suppress(ValueError):  # somebody has lowered the hard one meanwhile
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def as_before() -> str:
    """What a shell has to begin with, so that all that it runs has the limit that was."""
    return f"ulimit -S -n {_before[-1]}; " if _before else ""
