"""The pending jobs as the planner takes them: equal requests in one batch, so that a plan costs what differs in them.

A container that is kept from plan to plan. What it says follows from the jobs that are in it alone, whatever the order
in which they came.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping

from mgpu.core.model import JobId, NodeName, Request
from mgpu.core.plan import Batch, PendingJob

_Group = tuple[Request, tuple[NodeName, ...], float, bool]


def _group(job: PendingJob) -> _Group:
    return job.request, job.avoid, job.span_s, job.unlimited


def _rank(job: PendingJob) -> tuple[float, float, JobId]:
    return job.rank


class Queue:
    def __init__(self, jobs: Iterable[PendingJob] = ()) -> None:
        self._jobs: dict[JobId, PendingJob] = {}
        self._batches: dict[_Group, list[PendingJob]] = {}
        self._timed: dict[JobId, PendingJob] = {}  # those that may not have started from the beginning
        for job in jobs:
            self.put(job)

    def __len__(self) -> int:
        return len(self._jobs)

    def get(self, job_id: JobId) -> PendingJob | None:
        return self._jobs.get(job_id)

    def put(self, job: PendingJob) -> None:
        """New, or changed."""
        self.drop(job.job_id)
        self._jobs[job.job_id] = job
        if job.not_before > 0:
            self._timed[job.job_id] = job
        else:
            _insert(self._batches, job)

    def drop(self, job_id: JobId) -> None:
        """It pends no longer, or never did."""
        job = self._jobs.pop(job_id, None)
        if job is None or self._timed.pop(job_id, None) is not None:
            return
        group = _group(job)
        jobs = self._batches[group]
        del jobs[bisect_left(jobs, job.rank, key=_rank)]
        if not jobs:
            del self._batches[group]

    def at(self, now: float) -> tuple[tuple[Batch, ...], tuple[PendingJob, ...]]:
        """The batches of those that may start now, and those that may not yet."""
        later = tuple(job for job in self._timed.values() if job.not_before > now)
        batches = self._batches
        if len(later) < len(self._timed):
            batches = _with(batches, (job for job in self._timed.values() if job.not_before <= now))
        return tuple(Batch(*group, tuple(jobs)) for group, jobs in batches.items()), later


def _insert(batches: dict[_Group, list[PendingJob]], job: PendingJob) -> None:
    insort(batches.setdefault(_group(job), []), job, key=_rank)


def _with(batches: Mapping[_Group, list[PendingJob]], jobs: Iterable[PendingJob]) -> dict[_Group, list[PendingJob]]:
    found = dict(batches)
    for job in jobs:
        group = _group(job)
        found[group] = [*found.get(group, ()), job]
        found[group].sort(key=_rank)
    return found
