"""A job log through the planner that runs in production, on a virtual clock.

At each instant at which something happens, all ends come first, then all submissions, then one plan is made ("one pass
per instant"; a simulator that plans after each event decides a little differently where several fall together).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from mgpu.core.fairshare import FIFO, FairShare, Ledger
from mgpu.core.memory import Memory
from mgpu.core.model import JobId, NodeName, Request
from mgpu.core.occupancy import given_back, spots_of
from mgpu.core.plan import Backfill, NodeView, Owner, PendingJob, Running, Snapshot, Start
from mgpu.core.policies import POLICIES, Policy
from mgpu.core.queue import Queue
from mgpu.core.schedule import starts_of


class LoggedJob(NamedTuple):
    """One line of a job log; times in seconds. `requested_s`: the limit its user gave; None = the log does not say, and
    the planner is told the true duration. `name`: its number in the log, any word, perhaps not alone with it."""

    job_id: JobId
    submit: float
    duration_s: float
    request: Request
    user: str = ""
    requested_s: float | None = None
    queue: str = ""  # partition, virtual cluster
    name: str = ""

    @property
    def ran(self) -> bool:
        """For some time and on something: else there is nothing to replay."""
        return self.duration_s > 0 and bool(self.request.gpus)

    @property
    def span_s(self) -> float:
        return self.duration_s if self.requested_s is None else max(self.requested_s, self.duration_s)


class Ran(NamedTuple):
    """What became of a job."""

    job: LoggedJob
    start: float
    gpus: int

    @property
    def end(self) -> float:
        return self.start + self.job.duration_s

    @property
    def wait_s(self) -> float:
        return self.start - self.job.submit


@dataclass(frozen=True, slots=True)
class Rules:
    """`priority`: the higher the sooner; equal ones as `fair` says."""

    priority: Callable[[LoggedJob], float] = lambda job: 0.0
    backfill: Backfill = Backfill.EASY
    policy: str = "fill_first"
    fair: FairShare = FIFO


def replay(
    jobs: Sequence[LoggedJob], nodes: Sequence[NodeView], rules: Rules, policies: Mapping[str, Policy] = POLICIES
) -> Iterator[Ran]:
    """Each job as it starts; one that can never start is left out. `jobs` by submission, `nodes` with nothing there."""
    return _Replay(nodes, rules, policies).run(jobs)


class _Replay:
    def __init__(self, nodes: Sequence[NodeView], rules: Rules, policies: Mapping[str, Policy]) -> None:
        self._idle = {node.name: node for node in nodes}
        self._views: dict[NodeName, NodeView] = dict(self._idle)
        self._spots = {node.name: spots_of(node) for node in nodes}
        self._rules = rules
        self._policies = policies
        self._memory = Memory()
        self._queue = Queue()
        self._ledger = Ledger(rules.fair, 0.0)
        self._free = sum([len(node.devices) for node in nodes])
        self._running: dict[JobId, Running] = {}
        self._ends: list[tuple[float, JobId, Owner, int]] = []
        self._jobs: dict[JobId, LoggedJob] = {}

    def run(self, jobs: Sequence[LoggedJob]) -> Iterator[Ran]:
        at = 0
        while at < len(jobs) or self._ends:
            coming = jobs[at].submit if at < len(jobs) else float("inf")
            now = min(coming, self._ends[0][0] if self._ends else float("inf"))
            while self._ends and self._ends[0][0] <= now:
                self._end(*heappop(self._ends)[1:], now)
            while at < len(jobs) and jobs[at].submit <= now:
                self._submit(jobs[at])
                at += 1
            yield from self._pass(now)

    def _submit(self, job: LoggedJob) -> None:
        self._jobs[job.job_id] = job
        priority = self._rules.priority(job)
        # equal requests are one batch where nobody asks how long they run, or whose they are
        span_s = job.span_s if self._rules.fair.asks_span or self._rules.backfill is Backfill.EASY else 0.0
        owner = Owner(job.user) if self._rules.fair.asks_owner else None
        self._queue.put(PendingJob(job.job_id, job.user, job.request, priority, job.submit, span_s=span_s, owner=owner))

    def _pass(self, now: float) -> Iterator[Ran]:
        if not len(self._queue):
            return
        batches, later = self._queue.at(now)
        if self._free < min([batch.gpus for batch in batches]):
            return  # whatever the order, none of them fits
        seen = Snapshot(
            now,
            tuple(self._views.values()),
            batches,
            later,
            self._rules.policy,
            tuple(self._running.values()),
            self._rules.backfill,
            order=self._ledger.order({batch.owner for batch in batches}, now),
        )
        starts, after = starts_of(seen, self._policies, self._memory)
        if starts:
            self._views = {node.name: node for node in after}
        for start in starts:
            yield self._start(start, now)

    def _start(self, start: Start, now: float) -> Ran:
        job = self._jobs.pop(start.job_id)
        self._queue.drop(start.job_id)
        held = tuple((part.node, part.uuids) for part in start.parts)
        self._running[job.job_id] = Running(job.job_id, now + job.span_s, held)
        owner, gpus = Owner(job.user), sum([len(part.uuids) for part in start.parts])
        self._ledger.change(owner, gpus, now)
        self._free -= gpus
        heappush(self._ends, (now + job.duration_s, job.job_id, owner, gpus))
        return Ran(job, now, gpus)

    def _end(self, job_id: JobId, owner: Owner, gpus: int, now: float) -> None:
        self._ledger.change(owner, -gpus, now)
        self._free += gpus
        for name, uuids in self._running.pop(job_id).parts:
            spots, idle = self._spots[name], self._idle[name]
            self._views[name] = given_back(self._views[name], spots, uuids, (job_id,), idle)
