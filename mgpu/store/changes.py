"""Which jobs have changed since somebody looked last: for one who keeps what was read of them.

A job is told of before its change is committed, and until it has been told of once more afterwards: who takes first and
reads then, and once more while something is still coming, has all that was there when they began.
"""

from __future__ import annotations

import threading
from collections.abc import Set

from mgpu.core.model import JobId

MOST = 20_000  # of those that nobody has taken yet; beyond it all is read anew


class Changes:
    """Any thread may tell, and one takes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._came: set[JobId] = set()
        self._coming: dict[int, Set[JobId]] = {}
        self._all = True

    @property
    def waiting(self) -> bool:
        """Something has changed, or is about to."""
        return self._all or bool(self._came) or bool(self._coming)

    def take(self) -> set[JobId] | None:
        """None = all of them may have."""
        with self._lock:
            came, self._came = self._came.union(*self._coming.values()), set()
            everything, self._all = self._all, False
        return None if everything else came

    def coming(self, turn: int, job_ids: Set[JobId]) -> None:
        if job_ids:
            with self._lock:
                self._coming[turn] = job_ids

    def over(self, turn: int) -> None:
        """It is committed, or has failed."""
        with self._lock:
            self._came |= self._coming.pop(turn, set())
            if len(self._came) > MOST:
                self._came, self._all = set(), True
