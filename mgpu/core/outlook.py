"""When and where each waiting job is expected to start.

The planner itself is asked, again and again, with the nodes as they will be when running jobs have ended, each when its
limit or its planning time says. So this is what happens if nobody comes and nobody ends early.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush, nsmallest
from itertools import count, islice
from operator import itemgetter
from typing import Any

from mgpu.core import maintenance
from mgpu.core.limits import charge
from mgpu.core.memory import Memory
from mgpu.core.model import JobId
from mgpu.core.occupancy import given_back, spots_of
from mgpu.core.plan import (
    Barred,
    Batch,
    Bounds,
    Closed,
    Dependent,
    PendingJob,
    Place,
    PlacedPart,
    Precedence,
    Running,
    Scope,
    Snapshot,
    Start,
    Used,
)
from mgpu.core.policies import POLICIES, Policy
from mgpu.core.queue import Queue
from mgpu.core.schedule import starts_of

MOST_JOBS = 100  # looked at, of those that are next in line
MOST_TASKS = 25  # of each array
MOST_PASSES = 500  # fewer where there are many nodes: a pass takes the longer, and the master shares its core
PASSES_OF_A_NODE = 10_000  # passes times nodes
_TASKS = 1 << 61  # numbers that no job has


@dataclass(frozen=True, slots=True)
class Expected:
    """`at` in seconds since the epoch."""

    at: float
    parts: tuple[PlacedPart, ...]


def expected_starts(
    snapshot: Snapshot, policies: Mapping[str, Policy] = POLICIES, most: int = MOST_JOBS
) -> dict[JobId, Expected]:
    """Of the `most` jobs that are next in line, those of which it can be told: of none where nobody asks how long they
    run. Of an array its next task."""
    jobs = [job for _, job in nsmallest(most, _in_line(snapshot), key=itemgetter(0))]
    if not all(job.span_s for job in (*jobs, *(one.job for one in snapshot.dependents))):
        return {}
    tasks = dict(islice(_one_by_one(jobs), most))
    found: dict[JobId, Expected] = {}
    for job, expected in _Future(snapshot, policies, [task for task, _ in tasks.values()]).run():
        found.setdefault(tasks[job][1] if job in tasks else job, expected)
    return found


def _one_by_one(jobs: Iterable[PendingJob]) -> Iterator[tuple[JobId, tuple[PendingJob, JobId]]]:
    """Tasks of arrays with numbers of their own, and whose they are."""
    numbers = map(JobId, count(_TASKS))
    for job in jobs:
        for at in range(min(job.tasks, MOST_TASKS)):
            number = next(numbers) if at else job.job_id
            yield number, (job._replace(job_id=number, tasks=1), job.job_id)


def _in_line(snapshot: Snapshot) -> Iterator[tuple[Place, PendingJob]]:
    """Those that may not start yet have not waited for their turn."""
    order = snapshot.order or Precedence(snapshot.now)
    for batch in snapshot.batches:
        yield from ((order.place(batch, job), job) for job in batch.jobs)
    yield from (((-job.priority, 0.0, job.submit_time, job.job_id), job) for job in snapshot.later)


def in_line(snapshot: Snapshot) -> list[JobId]:
    """Those that wait for their turn or for their time, the next one first."""
    return [job.job_id for _, job in sorted(_in_line(snapshot), key=itemgetter(0))]


def ahead_of(snapshot: Snapshot, job_id: JobId) -> int | None:
    """How many stand before it in the queue, of those that may want the same nodes; an array counts as one. None = it
    does not wait for its turn."""
    not_yet = {job.job_id for job in snapshot.later}
    places = {job.job_id: (place, job) for place, job in _in_line(snapshot) if job.job_id not in not_yet}
    if job_id not in places:
        return None
    own, job = places[job_id]
    wanted = set(job.request.partition.split(","))
    return sum(
        place < own and not wanted.isdisjoint(one.request.partition.split(",")) for place, one in places.values()
    )


def pending(snapshot: Snapshot) -> Iterator[PendingJob]:
    for batch in snapshot.batches:
        yield from batch.jobs
    yield from snapshot.later


def _to_logins(batch: Batch) -> Closed:
    """The nodes where the owner's account cannot be entered."""
    return tuple([entry for entry in batch.closed if entry[1].barred is Barred.LOGIN])


class _Future:
    def __init__(self, snapshot: Snapshot, policies: Mapping[str, Policy], jobs: Sequence[PendingJob]) -> None:
        self._snapshot = snapshot
        self._policies = policies
        self._memory = Memory()
        self._queue = Queue(jobs)
        self._jobs = {job.job_id: job for job in jobs}
        self._views = {view.name: view for view in snapshot.nodes}
        self._running = {one.job_id: one for one in snapshot.running}
        self._shut = {batch.owner: shut for batch in snapshot.batches if (shut := _to_logins(batch))}
        self._dependents = [one for one in snapshot.dependents if one.waits_for]
        self._begun = set(self._running)
        self._over: set[JobId] = set()
        self._moments = [one.until for one in snapshot.running]
        self._moments += [job.not_before for job in jobs if job.not_before > snapshot.now]
        heapify(self._moments)

    def run(self) -> Iterator[tuple[JobId, Expected]]:
        now = self._snapshot.now
        passes = min(MOST_PASSES, max(10, PASSES_OF_A_NODE // max(1, len(self._views))))
        for done in range(passes):
            while starts := self._pass(now):
                for start in starts:
                    yield start.job_id, Expected(now, start.parts)
                if not self._release():
                    break
            if not (len(self._queue) or self._dependents) or not self._moments:
                return
            # with more ends to come than passes are left, several are taken as one: a start is told a little too late
            for _ in range(max(1, len(self._moments) // (passes - done))):
                now = max(now, heappop(self._moments))
            while self._moments and self._moments[0] <= now:
                heappop(self._moments)
            for one in [one for one in self._running.values() if one.until <= now]:
                self._end(one)
            self._release()

    def _release(self) -> bool:
        """Whoever waits for no other any more joins the queue; whether somebody does."""
        free = [one for one in self._dependents if self._is_met(one)]
        for one in free:
            self._dependents.remove(one)
            job = one.job._replace(tasks=1)
            self._jobs[job.job_id] = job
            self._queue.put(job)
            if job.not_before > self._snapshot.now:
                heappush(self._moments, job.not_before)
        return bool(free)

    def _is_met(self, one: Dependent) -> bool:
        met = [job in (self._begun if begins else self._over) for job, begins in one.waits_for]
        return any(met) if one.either else all(met)

    def _pass(self, now: float) -> Sequence[Start]:
        batches, later = self._queue.at(now)
        nodes, running = tuple(self._views.values()), tuple(self._running.values())
        batches = maintenance.closing(batches, nodes, now)
        if self._shut:  # for as long as anybody can tell
            shut = self._shut
            batches = tuple([one._replace(closed=(*one.closed, *shut.get(one.owner, ()))) for one in batches])
        tasks = Counter(one.array for one in running if one.array is not None)
        order = replace(self._snapshot.order, now=now) if self._snapshot.order else None
        changes: dict[str, Any] = {"batches": batches, "later": later, "tasks": tasks, "order": order}
        seen = replace(self._snapshot, now=now, nodes=nodes, running=running, bounds=self._bounds(), **changes)
        starts, after = starts_of(seen, self._policies, self._memory)
        self._views = {view.name: view for view in after}
        for start in starts:
            self._begin(start, now)
        return starts

    def _bounds(self) -> Bounds | None:
        """What is in use of limits by those who run then."""
        bounds = self._snapshot.bounds
        if bounds is None:
            return None
        before, after = self._charged(self._snapshot.running, bounds), self._charged(self._running.values(), bounds)
        used = dict(bounds.used)
        for scope in before.keys() | after.keys():
            now, ended, begun = (each.get(scope, Used()) for each in (used, before, after))
            used[scope] = Used(now.gpus - ended.gpus + begun.gpus, now.jobs - ended.jobs + begun.jobs, now.gpu_hours)
        return replace(bounds, used=used)

    def _charged(self, running: Iterable[Running], bounds: Bounds) -> dict[Scope, Used]:
        charged: dict[Scope, Used] = {}
        for one in running:
            held = [(self._views[name].partitions, len(uuids)) for name, uuids in one.parts]
            if one.owner is not None:
                charge(charged, one.owner, one.partition, held, bounds)
        return charged

    def _begin(self, start: Start, now: float) -> None:
        job = self._jobs[start.job_id]
        self._begun.add(start.job_id)
        self._queue.drop(start.job_id)
        until = now + job.span_s
        held = tuple((part.node, part.uuids) for part in start.parts)
        self._running[job.job_id] = Running(job.job_id, until, held, job.array, job.owner, job.request.partition)
        heappush(self._moments, until)

    def _end(self, one: Running) -> None:
        del self._running[one.job_id]
        if one.job_id != one.array:  # an array's end is that of its last task, which is not looked for
            self._over.add(one.job_id)
        for name, uuids in one.parts:
            view = self._views[name]
            self._views[name] = given_back(view, spots_of(view), uuids, (one.job_id,))
