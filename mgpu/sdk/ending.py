"""Jobs that are waited for: those that have ended, and until when."""

from __future__ import annotations

from datetime import timedelta
from math import isnan
from numbers import Real

from mgpu import clock
from mgpu.client.waiting import Waiting
from mgpu.sdk.values import Job, read

Seconds = float | timedelta


def seconds_of(value: Seconds | None) -> float | None:
    """Raises TypeError."""
    if value is None:
        return None
    if isinstance(value, timedelta):
        return value.total_seconds()
    if not isinstance(value, Real) or isnan(value):
        raise TypeError(f"{value!r}: seconds are meant, or a timedelta")
    return float(value)


def ended_of(waiting: Waiting) -> list[Job]:
    """Those that have ended since the last look. Raises MasterError."""
    return read(lambda ended: [Job.of(job) for job in ended()], waiting.look)


class Limit:
    """`seconds` None = as long as it takes."""

    def __init__(self, seconds: float | None) -> None:
        self._deadline = None if seconds is None else clock.monotonic() + seconds

    def within(self, waiting: Waiting) -> float:
        """Seconds until the next look. Raises TimeoutError when there is no time left."""
        if self._deadline is None:
            return waiting.pause_s()
        left_s = self._deadline - clock.monotonic()
        if left_s <= 0:
            shown = ", ".join(map(str, waiting.left[:5])) + (" and others" if len(waiting.left) > 5 else "")
            raise TimeoutError(f"not ended yet: job {shown}")
        return min(waiting.pause_s(), left_s)
