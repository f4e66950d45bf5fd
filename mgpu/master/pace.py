"""How much of what others write is taken in: so many at once, and so many a second then.

The events file of a node lies where its jobs can write. Its lines are hints: what is passed over, the next look finds.
"""

from __future__ import annotations

import threading

MOST_EXPECTED = 500


class Pace:
    def __init__(self, at_once: int, a_second: float) -> None:
        self._apart_s = 1 / a_second
        self._ahead_s = (at_once - 0.5) * self._apart_s
        self._next = float("-inf")  # when it would come if they came evenly

    def takes(self, monotonic: float) -> bool:
        """One that comes now."""
        if self._next - monotonic > self._ahead_s:
            return False
        self._next = max(self._next, monotonic) + self._apart_s
        return True


class Hearing:
    """Which lines of an events file are taken in: of each attempt that was started there its start and its end, however
    many there are; of all else as many as the pace allows. Lines come in one thread, what is expected in another."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._lock = threading.Lock()
        self._expected: dict[str, set[str]] = {}  # by run directory: the words that are still to come

    def expect(self, name: str) -> None:
        with self._lock:
            self._expected[name] = {"ready", "started", "ended"}
            if len(self._expected) > MOST_EXPECTED:  # their ends were not heard
                del self._expected[next(iter(self._expected))]

    def takes(self, line: str, monotonic: float) -> bool:
        """One that comes now."""
        name, word, *_ = [*line.split(" ", 2), ""]
        with self._lock:
            words = self._expected.get(name)
            if words is None or word not in words:
                return self._pace.takes(monotonic)
            words.discard(word)
            if word == "ended":
                del self._expected[name]
            return True
