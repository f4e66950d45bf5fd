"""The queue, kept from pass to pass: reading thousands of rows that are what they were would cost more than all else.

It is still what is stored, and nothing else: rows of jobs are written through the store of this process alone (there is
one master), which tells which ones they were; these are read again, the others cannot have changed. Whoever doubts what
happened forgets, and all of it is read anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from itertools import islice

from mgpu.core.array import array_of, count, to_come
from mgpu.core.dependency import NOTHING_WAITED_FOR, Verdict, still_open
from mgpu.core.model import Job, JobId
from mgpu.core.outlook import MOST_JOBS
from mgpu.core.plan import Dependent, Owner, PendingJob, Wait
from mgpu.core.queue import Queue
from mgpu.core.waits import held, waits_for_others
from mgpu.master.dependents import Dependents
from mgpu.store.reading import Reader
from mgpu.store.store import Store

BEHIND_S = 0.001  # tasks of an array that are jobs of their own, to be tried again, go before those that never began


class Waiting:
    def __init__(
        self,
        store: Store,
        span_s: Callable[[Job], float] = lambda job: 0.0,
        owner: Callable[[Job], Owner | None] = lambda job: None,
    ) -> None:
        self._store = store
        self._span_s = span_s
        self._owner = owner
        self._queue: Queue | None = None
        self._barred: dict[JobId, Wait] = {}
        self._dependents = Dependents()

    @property
    def barred(self) -> Mapping[JobId, Wait]:
        """Pending jobs that are not in the queue, as read last: whatever is free, they do not start."""
        return self._barred

    def get(self, job_id: JobId) -> PendingJob | None:
        """As it stands in the queue that was read last."""
        queue = self._queue
        return queue.get(job_id) if queue else None

    def forget(self) -> None:
        self._queue = None

    def read(self) -> Queue:
        """As it is stored now."""
        touched = self._store.take_touched()
        queue, self._queue = self._queue, None  # not to be trusted if reading fails
        if queue is None:
            queue, self._barred, self._dependents = Queue(), {}, Dependents()
            with self._store.read() as reader:
                self._take(reader, queue, reader.pending(), None)
        elif touched:
            with self._store.read() as reader:
                for job_id in touched:
                    self._drop(queue, job_id)
                self._take(reader, queue, reader.pending_of(touched), touched)
        self._queue = queue
        return queue

    def end_lost(self, now: float) -> list[JobId]:
        """Ends those that wait for what can never be; the queue has to be read again then."""
        if not self._dependents.lost:
            return []
        self._queue = None
        with self._store.write() as writer:
            return self._dependents.end_lost(writer, now)

    def still(self, job: Job) -> bool:
        """Whether it is in the queue that was read last, and asks for the same now."""
        queued = self._queue.get(job.job_id) if self._queue is not None else None
        if queued is None or job.held or queued.not_before < job.not_before:
            return False
        known = self._dependents.get(job.job_id)
        if job.spec.dependency != (known.spec.dependency if known else None):
            return False
        return queued.request == job.spec.request and queued.avoid == job.avoid

    def _take(self, reader: Reader, queue: Queue, jobs: Iterable[Job], touched: Set[JobId] | None) -> None:
        """`jobs` wait, `touched` have changed; None = there was nothing before."""
        for job in jobs:
            if job.spec.dependency is None:
                self._put(queue, job)
            else:
                self._dependents.put(job)
        every = self._dependents.all if touched is None else self._dependents.affected(touched, reader)
        for job_id, verdict in self._dependents.look(reader, every).items():
            found = self._dependents.get(job_id)
            if found is not None:
                self._put(queue, found, verdict)

    def _put(self, queue: Queue, job: Job, verdict: Verdict = NOTHING_WAITED_FOR) -> None:
        self._barred.pop(job.job_id, None)
        if job.held:
            self._barred[job.job_id] = held(job)
        elif verdict.at is None:
            self._barred[job.job_id] = waits_for_others(job, verdict)
        else:
            queue.put(self.pending(job, verdict.at))
            return
        queue.drop(job.job_id)

    def _drop(self, queue: Queue, job_id: JobId) -> None:
        queue.drop(job_id)
        self._barred.pop(job_id, None)
        self._dependents.drop(job_id)

    def dependents(self, reader: Reader) -> tuple[Dependent, ...]:
        """Those that wait for others, as many as anybody looks at. May be called from any thread."""
        jobs = (job for job_id in list(self._dependents.all) if (job := self._dependents.get(job_id)))
        waiting = ((job, job.spec.dependency) for job in jobs if job.spec.dependency is not None and not job.held)
        asked = list(islice(waiting, MOST_JOBS))
        facts = reader.facts({other for _, dependency in asked for other in dependency.job_ids})
        return tuple(
            Dependent(self.pending(job, 0.0), still_open(dependency, facts), dependency.either)
            for job, dependency in asked
        )

    def pending(self, job: Job, not_before: float) -> PendingJob:
        """As the planner is told of it."""
        span_s = self._span_s(job)
        behind_s = BEHIND_S if job.is_array else 0.0
        return PendingJob(
            job.job_id,
            job.user,
            job.spec.request,
            job.spec.standing,
            (job.submit_time if job.reason else max(job.submit_time, job.not_before)) + behind_s,
            max(job.not_before, not_before),
            job.avoid,
            job.attempt if job.reason else 0,  # else somebody's word has set `not_before`
            span_s,
            unlimited=span_s > 0 and job.spec.time_limit_s is None,
            array=job.job_id if job.is_array else job.array_id,
            tasks=count(to_come(job)) if job.is_array else 1,
            at_once=array_of(job.spec.array).cap if job.spec.array else 0,
            owner=self._owner(job),
        )
