"""The queue, kept from pass to pass: reading thousands of rows that are what they were would cost more than all else.

It is still what is stored, and nothing else: rows of jobs are written through the store of this process alone (there is
one master), which tells which ones they were; these are read again, the others cannot have changed. Whoever doubts what
happened forgets, and all of it is read anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mgpu.core.model import Job, JobId, JobState
from mgpu.core.plan import PendingJob, Wait
from mgpu.core.queue import Queue
from mgpu.core.waits import held
from mgpu.store.store import Store


class Waiting:
    def __init__(self, store: Store, span_s: Callable[[Job], float] = lambda job: 0.0) -> None:
        self._store = store
        self._span_s = span_s
        self._queue: Queue | None = None
        self._barred: dict[JobId, Wait] = {}

    @property
    def barred(self) -> Mapping[JobId, Wait]:
        """Pending jobs that are not in the queue, as read last: whatever is free, they do not start."""
        return self._barred

    def forget(self) -> None:
        self._queue = None

    def read(self) -> Queue:
        """As it is stored now."""
        touched = self._store.take_touched()
        queue, self._queue = self._queue, None  # not to be trusted if reading fails
        if queue is None:
            queue, self._barred = Queue(), {}
            with self._store.read() as reader:
                for job in reader.pending():
                    self._put(queue, job)
        elif touched:
            with self._store.read() as reader:
                jobs = reader.jobs_of(touched)
            for job_id in touched:
                queue.drop(job_id)
                self._barred.pop(job_id, None)
            for job in jobs:
                if job.state is JobState.PENDING:
                    self._put(queue, job)
        self._queue = queue
        return queue

    def still(self, job: Job) -> bool:
        """Whether it is in the queue that was read last, and asks for the same now."""
        queued = self._queue.get(job.job_id) if self._queue is not None else None
        if queued is None or job.held or queued.not_before < job.not_before:
            return False
        return queued.request == job.spec.request and queued.avoid == job.avoid

    def _put(self, queue: Queue, job: Job) -> None:
        if job.held:
            self._barred[job.job_id] = held(job)
        else:
            queue.put(self._pending(job))

    def _pending(self, job: Job) -> PendingJob:
        span_s = self._span_s(job)
        return PendingJob(
            job.job_id,
            job.user,
            job.spec.request,
            job.spec.priority,
            job.submit_time,
            job.not_before,
            job.avoid,
            job.attempt if job.reason else 0,  # else somebody's word has set `not_before`
            span_s,
            unlimited=span_s > 0 and job.spec.time_limit_s is None,
        )
