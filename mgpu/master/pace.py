"""How much of what others write is taken in: so many at once, and so many a second then.

The events file of a node lies where its jobs can write. Its lines are hints: what is passed over, the next look finds.
"""

from __future__ import annotations


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
