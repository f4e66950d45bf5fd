"""The only door to the clocks, so that everything else takes `now` as an argument."""

import time


def now() -> float:
    """Seconds since the epoch (UTC)."""
    return time.time()


def monotonic() -> float:
    """Seconds on a clock that never jumps; only differences mean anything."""
    return time.monotonic()
