"""What is kept of jobs that ended and of what GPUs did, and for how long: it goes in small pieces, beside the passes.

An hour's look begins with all folders of the spool; then piece follows piece, with pauses in which others write.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from math import inf

from mgpu.clock import Clock
from mgpu.config.model import Config
from mgpu.core.errors import StoreError
from mgpu.core.lifecycle.milestones import WHO
from mgpu.core.model import Audit, JobId
from mgpu.core.usage import COARSE_S, FINE_KEPT_S, FINE_S
from mgpu.master.use import REMEMBERED
from mgpu.master.worker import Threads
from mgpu.ops.output import REMOVED
from mgpu.store import pruning, samples
from mgpu.store.spool import Spool
from mgpu.store.store import Store

log = logging.getLogger(__name__)

PERIOD_S = 3600.0
PAUSE_S = 0.5
PIECE = 100  # jobs
BUCKETS = 1000  # likewise, of samples


class Retention:
    """`tend` belongs to the master's thread."""

    def __init__(
        self, store: Store, spool: Spool, config: Config, threads: Threads, clock: Clock, wake: Callable[[], None]
    ) -> None:
        """`wake`: there is more to do soon."""
        self._store = store
        self._spool = spool
        self._jobs_s, self._output_s = config.keep_jobs_s, config.keep_output_s
        # what is counted of the use of GPUs is read from these rows when a master begins
        rules = config.fair_share
        hours = config.bounds is not None and any(one.gpu_hours is not None for one in config.bounds.all)
        half_life = rules.half_life_s or (type(rules)().half_life_s if hours else None)
        self._counts_s = REMEMBERED * half_life if half_life else 0.0
        self._threads = threads
        self._clock = clock
        self._wake = wake
        self._of_jobs = min(self._jobs_s, self._output_s) < inf
        self._buckets_s = {FINE_S: FINE_KEPT_S, COARSE_S: config.keep_samples_s}
        self._due = clock.monotonic() + PAUSE_S
        self._busy = False
        self._folders: list[JobId] = []
        self._removed = 0

    def tend(self, monotonic: float) -> float:
        """Seconds until there is something to do again."""
        if monotonic >= self._due and not self._busy:
            self._busy, self._due = True, monotonic + PERIOD_S
            self._threads.spawn("retention", self._look)
        return max(PAUSE_S, self._due - monotonic)

    def _look(self) -> None:
        more = False
        try:
            more = self.piece()
        except StoreError as error:
            log.warning("what is over cannot be removed: %s; %s", error.message, error.hint)
        finally:
            self._busy = False
            if more:
                self._due = self._clock.monotonic() + PAUSE_S
                self._wake()

    def piece(self) -> bool:
        """Whether there is more. Raises StoreError."""
        more = self._jobs_s < inf and self._remove_jobs()
        if not more and self._of_jobs:
            more = self._remove_output()
        more = more or self._remove_samples()
        if not more and self._removed:
            log.info("retention: %d jobs that ended long ago were removed", self._removed)
            self._removed = 0
        return more

    def _remove_jobs(self) -> bool:
        now = self._clock.now()
        before, counts = now - self._jobs_s, now - self._counts_s if self._counts_s else inf
        with self._store.read() as reader:
            if not pruning.over(reader, before, counts, 1):
                return False
        removed: list[JobId] = []
        with self._store.write() as writer:
            for job_id in pruning.over(writer, before, counts, PIECE):  # again: one may have been queued anew
                removed += pruning.remove(writer, job_id, PIECE - len(removed))
                if len(removed) >= PIECE:
                    break
        self._removed += len(removed)
        for job_id in removed:
            self._spool.forget(job_id)
        return True

    def _remove_samples(self) -> bool:
        now = self._clock.now()
        with self._store.read() as reader:
            gone = samples.outdated(reader, now, self._buckets_s, BUCKETS)
        if not gone:
            return False
        with self._store.write() as writer:
            samples.remove(writer, gone)
            samples.forget_devices(writer, now - max(self._buckets_s.values()) - samples.DAY_S)
        return len(gone) == BUCKETS

    def _remove_output(self) -> bool:
        """Also that of jobs which are gone, should we have ended in between."""
        self._folders = self._folders or self._spool.jobs()
        piece, self._folders = self._folders[:PIECE], self._folders[PIECE:]
        now = self._clock.now()
        with self._store.read() as reader:
            gone = pruning.gone(reader, piece)
            silent = pruning.silent(reader, piece, now - self._output_s) if self._output_s < inf else []
        if silent:
            with self._store.write() as writer:
                silent = pruning.silent(writer, silent, now - self._output_s)
                for job_id in silent:
                    writer.audit(Audit(now, WHO, REMOVED, job_id))
        for job_id in (*gone, *silent):
            self._spool.forget(job_id)
        return bool(self._folders)
