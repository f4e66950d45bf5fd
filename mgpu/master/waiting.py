"""The queue, kept from pass to pass: reading thousands of rows that are what they were would cost more than all else.

It is still what is stored, and nothing else: rows of jobs are written through the store of this process alone (there is
one master), which tells which ones they were; these are read again, the others cannot have changed. Whoever doubts what
happened forgets, and all of it is read anew.
"""

from __future__ import annotations

from collections.abc import Callable

from mgpu.core.model import Job, JobState
from mgpu.core.plan import PendingJob
from mgpu.core.queue import Queue
from mgpu.store.store import Store


class Waiting:
    def __init__(self, store: Store, span_s: Callable[[Job], float] = lambda job: 0.0) -> None:
        self._store = store
        self._span_s = span_s
        self._queue: Queue | None = None

    def forget(self) -> None:
        self._queue = None

    def read(self) -> Queue:
        """As it is stored now."""
        touched = self._store.take_touched()
        queue, self._queue = self._queue, None  # not to be trusted if reading fails
        if queue is None:
            with self._store.read() as reader:
                queue = Queue(self._pending(job) for job in reader.pending())
        elif touched:
            with self._store.read() as reader:
                jobs = reader.jobs_of(touched)
            for job_id in touched:
                queue.drop(job_id)
            for job in jobs:
                if job.state is JobState.PENDING:
                    queue.put(self._pending(job))
        self._queue = queue
        return queue

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
            job.attempt,
            span_s,
            unlimited=span_s > 0 and job.spec.time_limit_s is None,
        )
