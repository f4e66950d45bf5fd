"""Jobs that are to end when nobody stays with them any more (`srun --kill-on-disconnect`).

The limit is stored with the job. Who is there is known to this process alone: after a restart of the master all clients
come back by themselves, and their absence counts from its beginning. One client is enough, whichever it is: srun, or an
attach from elsewhere. Who only looks on (`logs -f`) does not count.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

from mgpu.clock import Clock
from mgpu.core import lifecycle
from mgpu.core.lifecycle.milestones import WHO
from mgpu.core.model import Audit, Job, JobId, JobState
from mgpu.store.spool import Spool
from mgpu.store.store import Store

LONGEST_PAUSE_S = 3600.0


class Attendance:
    """Any thread may tell; `end_abandoned` belongs to the pass."""

    def __init__(self, store: Store, spool: Spool, clock: Clock, wake: Callable[[], None]) -> None:
        self._store = store
        self._spool = spool
        self._clock = clock
        self._wake = wake
        self._lock = threading.Lock()
        self._limits: dict[JobId, float] = {}
        self._present: Counter[JobId] = Counter()
        self._alone_since: dict[JobId, float] = {}

    def load(self) -> None:
        """What a master before this one was to look after."""
        with self._store.read() as reader:
            jobs = reader.attended()
        for job in jobs:
            self.expect(job)

    def expect(self, job: Job) -> None:
        """Somebody will be with it, from now on."""
        limit = job.spec.client_absence_s
        if limit is None or job.state.final:
            return
        with self._lock:
            self._limits[job.job_id] = limit
            self._alone_since.setdefault(job.job_id, self._clock.monotonic())
        self._wake()

    def attend(self, job_id: JobId, on: bool) -> None:
        """Somebody is with it now, or is no longer (counted)."""
        with self._lock:
            self._present[job_id] += 1 if on else -1
            if self._present[job_id] > 0:
                return
            del self._present[job_id]
            if job_id not in self._limits:
                return
            self._alone_since[job_id] = self._clock.monotonic()
        self._wake()

    def end_abandoned(self) -> float:
        """Ends those that were alone for too long; seconds until the next one may be. Raises StoreError."""
        now, soonest = self._clock.monotonic(), LONGEST_PAUSE_S
        for job_id, limit, since in self._alone():
            left = since + limit - now
            if left > 0:
                soonest = min(soonest, left)
            else:
                self._end(job_id, limit)
        return soonest

    def _alone(self) -> list[tuple[JobId, float, float]]:
        with self._lock:
            return [
                (job_id, limit, self._alone_since[job_id])
                for job_id, limit in self._limits.items()
                if job_id not in self._present
            ]

    def _end(self, job_id: JobId, limit: float) -> None:
        with self._store.write() as writer:
            job = writer.job(job_id)
            if job is not None and not job.state.final:
                now = self._clock.now()
                by = f"mgpu: no client was connected for {limit:g} s (--kill-on-disconnect)"
                waits = job.state is JobState.PENDING
                ended = lifecycle.withdraw(job, by, now) if waits else lifecycle.want_stop(job, f"CANCEL by {by}")
                writer.audit(Audit(now, WHO, "cancel", job_id=job_id, detail=by))
                writer.save_job(ended, job)
        with self._lock:
            del self._limits[job_id]
            self._alone_since.pop(job_id, None)
        self._spool.notify(job_id)
