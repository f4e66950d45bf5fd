"""The pending jobs as the planner takes them: equal requests in one batch, so that a plan costs what differs in them.

A container that is kept from plan to plan. What it says follows from the jobs that are in it alone, whatever the order
in which they came.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

from mgpu.core.fairshare import pace
from mgpu.core.model import JobId, NodeName, Request
from mgpu.core.plan import Batch, Owner, PendingJob
from mgpu.core.shape import shape_of

_Group = tuple[Request, tuple[NodeName, ...], float, bool, Owner | None]


def _group(job: PendingJob) -> _Group:
    return job.request, job.avoid, job.span_s, job.unlimited, job.owner


def _rank(job: PendingJob) -> tuple[float, float, JobId]:
    return job.rank


def _due(job: PendingJob) -> tuple[float, JobId]:
    return job.not_before, job.job_id


class _Lane:
    """The jobs of a group by rank, and the batch that they make, until they change."""

    __slots__ = ("_batch", "_gpus", "_pace", "group", "jobs")

    def __init__(self, group: _Group) -> None:
        self.group = group
        self._gpus = shape_of(group[0]).total
        self._pace = pace(group[2], self._gpus)
        self._batch: Batch | None = None
        self.jobs: list[PendingJob] = []

    def enter(self, job: PendingJob) -> None:
        insort(self.jobs, job, key=_rank)
        self._batch = None

    def leave(self, job: PendingJob) -> None:
        del self.jobs[bisect_left(self.jobs, job.rank, key=_rank)]
        self._batch = None

    def batch(self) -> Batch:
        if self._batch is None:
            self._batch = Batch(*self.group, tuple(self.jobs), self._gpus, self._pace)
        return self._batch


def alone(job: PendingJob) -> Batch:
    """A batch of this one."""
    lane = _Lane(_group(job))
    lane.enter(job)
    return lane.batch()


class Queue:
    def __init__(self, jobs: Iterable[PendingJob] = ()) -> None:
        self._jobs: dict[JobId, PendingJob] = {}
        self._lanes: dict[_Group, _Lane] = {}
        self._lane_of: dict[JobId, _Lane] = {}
        self._timed: list[PendingJob] = []  # those that may not have started from the beginning, by when they may
        self._came = 0  # how many of these are in the lanes: their time had come
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
        if job.not_before <= 0:
            self._enter(job)
            return
        at = bisect_left(self._timed, _due(job), key=_due)
        self._timed.insert(at, job)
        if at < self._came:
            self._came += 1
            self._enter(job)

    def drop(self, job_id: JobId) -> None:
        """It pends no longer, or never did."""
        job = self._jobs.pop(job_id, None)
        if job is None:
            return
        if job.not_before > 0:
            at = bisect_left(self._timed, _due(job), key=_due)
            del self._timed[at]
            if at >= self._came:
                return
            self._came -= 1
        self._leave(job)

    def at(self, now: float) -> tuple[tuple[Batch, ...], tuple[PendingJob, ...]]:
        """The batches of those that may start now, and those that may not yet."""
        while self._came < len(self._timed) and self._timed[self._came].not_before <= now:
            self._enter(self._timed[self._came])
            self._came += 1
        while self._came and self._timed[self._came - 1].not_before > now:  # clocks are set back
            self._came -= 1
            self._leave(self._timed[self._came])
        return tuple([lane.batch() for lane in self._lanes.values()]), tuple(self._timed[self._came :])

    def _enter(self, job: PendingJob) -> None:
        group = _group(job)
        lane = self._lanes.get(group)
        if lane is None:
            lane = self._lanes[group] = _Lane(group)
        lane.enter(job)
        self._lane_of[job.job_id] = lane

    def _leave(self, job: PendingJob) -> None:
        lane = self._lane_of.pop(job.job_id)
        lane.leave(job)
        if not lane.jobs:
            del self._lanes[lane.group]
