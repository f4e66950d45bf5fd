"""How many tasks of arrays may still start in a plan: an array is one entry in the queue, with a number of tasks.

A plan starts no more than so many of one array, and the next one goes on: a hundred thousand that all fit (they need no
GPU) must not hold up everybody else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from mgpu.core.model import JobId
from mgpu.core.plan import PendingJob, Wait

AT_A_TIME = 200


class Turns:
    """`running`: tasks by array that run when the plan begins."""

    def __init__(self, running: Mapping[JobId, int]) -> None:
        self._running = Counter(running)
        self._started: Counter[JobId] = Counter()  # by array
        self._of_entry: Counter[JobId] = Counter()
        self.waits: dict[JobId, Wait] = {}
        self.more = False  # could start at once, and the next plan will

    def full(self, job: PendingJob) -> bool:
        """So many of its array run that this one has to wait, whatever is free."""
        if job.array is None:
            return False
        if self._started[job.array] >= AT_A_TIME:
            self.more = True
            self.waits[job.job_id] = Wait("Priority", "other tasks of its array start first")
            return True
        if not job.at_once or self._running[job.array] < job.at_once:
            return False
        runs = f"{job.at_once} of its tasks run" if job.at_once > 1 else "one of its tasks runs"
        self.waits[job.job_id] = Wait("JobArrayTaskLimit", f"{runs}, and no more may at once")
        return True

    def took(self, job: PendingJob) -> bool:
        """One has started; whether it was the last that stands behind this entry."""
        if job.array is not None:
            self._running[job.array] += 1
            self._started[job.array] += 1
        self._of_entry[job.job_id] += 1
        return self._of_entry[job.job_id] >= job.tasks
