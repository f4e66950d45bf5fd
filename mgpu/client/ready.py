"""Waiting for descriptors of any number. select() knows those below 1024 alone, and a program that uses us may have
more open; poll() knows all, but on some systems no terminals."""

from __future__ import annotations

import select

from mgpu.lean.typing import Iterable

FD_SETSIZE = 1024
MOST_S = 2_000_000  # that poll() can count in milliseconds


def ready(
    reading: Iterable[int], writing: Iterable[int] = (), timeout_s: float | None = None
) -> tuple[list[int], list[int]]:
    """Those that can be read and those that can be written, or have failed: then the try tells. None = however long
    that takes."""
    reading, writing = list(reading), list(writing)
    if all(descriptor < FD_SETSIZE for descriptor in (*reading, *writing)):
        return select.select(reading, writing, [], timeout_s)[:2]
    wanted = dict.fromkeys(reading, select.POLLIN)
    for descriptor in writing:
        wanted[descriptor] = wanted.get(descriptor, 0) | select.POLLOUT
    poll = select.poll()
    for descriptor, events in wanted.items():
        poll.register(descriptor, events)
    told = dict(poll.poll(None if timeout_s is None else int(1000 * min(timeout_s, MOST_S) + 0.999)))
    return (
        [descriptor for descriptor in reading if told.get(descriptor, 0) & ~select.POLLOUT],
        [descriptor for descriptor in writing if told.get(descriptor, 0) & ~select.POLLIN],
    )
