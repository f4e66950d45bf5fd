"""Clocks that stand still until a test moves them."""

from __future__ import annotations


class HandClock:
    """`now` in seconds since the epoch, `monotonic` the same unless said otherwise; both go on by `passed`."""

    def __init__(self, now: float, monotonic: float | None = None) -> None:
        self.passed = 0.0
        self._now = now
        self._monotonic = now if monotonic is None else monotonic

    def now(self) -> float:
        return self._now + self.passed

    def monotonic(self) -> float:
        return self._monotonic + self.passed
