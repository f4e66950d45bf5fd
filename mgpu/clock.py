"""The only door to the clocks, so that everything else takes `now` as an argument or a clock that can be another."""

import time

from mgpu.lean.typing import Protocol


class Clock(Protocol):
    """This module itself is one."""

    def now(self) -> float:
        """Seconds since the epoch (UTC)."""

    def monotonic(self) -> float:
        """Seconds on a clock that never jumps; only differences mean anything."""


def now() -> float:
    """Seconds since the epoch (UTC)."""
    return time.time()


def monotonic() -> float:
    """Seconds on a clock that never jumps; only differences mean anything."""
    return time.monotonic()
