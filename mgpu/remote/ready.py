"""Waiting for a descriptor of any number: select() knows those below 1024 alone, and a master may have more open."""

from __future__ import annotations

import math
import select

_MOST_S = 2_000_000  # that poll() can count in milliseconds


def ready(descriptor: int, timeout_s: float | None, to_write: bool = False) -> bool:
    """Whether it can be read (or written), or has failed: then the try tells. None = however long that takes; there is
    no limit that is too long."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT if to_write else select.POLLIN)
    return bool(poll.poll(None if timeout_s is None else math.ceil(1000 * min(timeout_s, _MOST_S))))
