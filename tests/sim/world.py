"""Virtual time: what happens when, drawn from one seed, so that a run can be had again.

`lag` is how long the call under way has taken so far: calls into a node take virtual time, although they are carried
out at once. The clock that the master reads shows it.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from random import Random

EPOCH = 1_700_000_000.0
TRACE_LINES = 4000


class Violation(AssertionError):
    """What must never be, was seen."""


class Crash(BaseException):
    """The master dies here. Not an Exception: nothing of the master's may catch it."""


class World:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.time = 0.0
        self.lag = 0.0
        self.trace: deque[str] = deque(maxlen=TRACE_LINES)
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0

    # --- the clock that the master is given -------------------------------------------------------------------------

    def now(self) -> float:
        return EPOCH + self.time + self.lag

    def monotonic(self) -> float:
        return self.time + self.lag

    # --- what will happen -------------------------------------------------------------------------------------------

    def after(self, delay: float, action: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._heap, (self.time + delay, self._number, action))

    def next_at(self) -> float:
        return self._heap[0][0] if self._heap else float("inf")

    def step(self) -> None:
        """The next thing happens."""
        self.time, _, action = heapq.heappop(self._heap)
        action()

    # --- chance -----------------------------------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        return probability > 0 and self.random.random() < probability

    def between(self, low: float, high: float) -> float:
        return self.random.uniform(low, high)

    def pause(self, usual: float, rare: float, probability: float = 0.03) -> float:
        """Mostly up to `usual` seconds, now and then up to `rare`."""
        return self.between(0, rare if self.chance(probability) else usual)

    def note(self, text: str) -> None:
        self.trace.append(f"{self.time + self.lag:9.2f} {text}")
