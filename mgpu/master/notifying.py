"""`notify:` the site's command is told of what happens, from rows of the audit: none is missed while the master is
away, and one may be told twice (the `id` is the same then).

All of this is beside the passes: a thread reads on in the audit, a few others run the command. What is to be told
waits in the database; how far it is told stands there too.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack

from mgpu import clock
from mgpu.config.model import Notify
from mgpu.core import notices
from mgpu.core.errors import StoreError
from mgpu.core.lifecycle.milestones import WHO
from mgpu.core.model import Audit, Job
from mgpu.logbook import about
from mgpu.master import outside
from mgpu.master.troubles import Troubles
from mgpu.ops.context import Context
from mgpu.ops.notice import document
from mgpu.store import notified

log = logging.getLogger(__name__)

LANES = 4  # commands at once; those of a job or node one after the other, in one of them
WAITING = 16  # that may be on their way to a lane
PIECE = 100  # rows that are read at a time
FARTHEST = 20_000  # rows: who is behind by more misses the oldest
SAVE_S = 1.0
LOOK_S = 10.0  # at time limits
AGAIN_S = 1.0  # before the first further try, then five times as long each time
DRAIN_S = 5.0  # for what is left when the master ends


class Notifier:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store
        self._news = threading.Event()
        self._ends = threading.Event()  # no further row is begun once all are told, or after a while
        self._stop = threading.Event()
        self._room = threading.BoundedSemaphore(WAITING)
        self._lock = threading.Lock()
        self._open: set[int] = set()  # rows that are being told
        self._read = self._saved = 0  # rows that were looked at; up to where it is stored that they were told
        self._said: set[tuple[int, int, int]] = set()  # (job, attempt, share) of time limits
        self._troubles = Troubles()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """What happens under a master without `notify:` is told by none that comes later, however that one ends."""
        wanted = self._context.config.notify
        with self._store.read() as reader:
            cursor, newest = notified.cursor(reader), notified.newest(reader)
        begins = newest if cursor == notified.NOBODY else cursor
        self._read = self._saved = notified.NOBODY if wanted is None else begins
        if self._saved != cursor:
            try:
                with self._store.write() as writer:
                    notified.advance(writer, self._saved)
            except StoreError as error:  # a full disk keeps no master from its work
                log.warning("notify: from where on is to be told cannot be stored: %s", error.message)
        if wanted is None:
            return
        self._context.control.meters.troubles = self._troubles.lines
        self._store.listen(lambda _happening: self._news.set())
        self._thread = threading.Thread(target=self._work, args=(wanted,), name="notify", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Waits a moment for what is left; the rest is told by the next master."""
        if self._thread is not None:
            self._ends.set()
            self._news.set()
            self._thread.join(DRAIN_S)
            self._stop.set()
            self._thread.join()

    # --- reading on -------------------------------------------------------------------------------------------------

    def _work(self, wanted: Notify) -> None:
        look_at = save_at = 0.0
        with ExitStack() as stack:
            lanes = [stack.enter_context(ThreadPoolExecutor(1, f"notify-{number}")) for number in range(LANES)]
            while not self._stop.is_set():
                self._news.clear()
                now = clock.monotonic()
                try:
                    if now >= look_at:
                        look_at = now + LOOK_S
                        self._look_at_limits()
                    rows = self._next()
                    for number, row in rows:
                        if not self._tell(wanted, lanes, number, row):
                            break
                    if now >= save_at or not rows:
                        save_at = now + SAVE_S
                        self._save()
                except StoreError as error:
                    self._trouble(f"notify: {error.message}")
                    self._stop.wait(AGAIN_S)
                    continue
                except Exception as error:  # whatever it was, what comes later is told of
                    log.exception("notify: reading on in the audit failed")
                    self._trouble(f"notify: internal error: {type(error).__name__}: {error}")
                    self._stop.wait(AGAIN_S)
                    continue
                if not rows:
                    if self._ends.is_set() and not self._open:
                        break
                    self._news.wait(0.1 if self._ends.is_set() or self._open else LOOK_S)
        try:
            self._save()
        except StoreError as error:
            log.warning("notify: how far was told cannot be stored: %s", error.message)

    def _next(self) -> Sequence[tuple[int, Audit]]:
        with self._store.read() as reader:
            behind = notified.newest(reader) - self._read
            if behind > FARTHEST:
                skipped = behind - FARTHEST
                self._read += skipped
                self._trouble(f"notify: {skipped} rows of the audit were passed over: the command is too slow for them")
            return notified.rows_after(reader, self._read, PIECE)

    def _save(self) -> None:
        """Up to the first that is still being told."""
        with self._lock:
            told = min(self._open, default=self._read + 1) - 1
        if told > self._saved:
            with self._store.write() as writer:
                notified.advance(writer, told)
            self._saved = told

    # --- telling ----------------------------------------------------------------------------------------------------

    def _tell(self, wanted: Notify, lanes: Sequence[Executor], number: int, row: Audit) -> bool:
        """False = the master ends before there is a turn for it."""
        found = self._document(wanted, number, row)
        if found is not None:
            while not self._room.acquire(timeout=0.2):
                if self._stop.is_set():
                    return False
            with self._lock:
                self._open.add(number)
            try:
                lanes[hash(row.job_id or row.node) % LANES].submit(self._run, wanted, number, found)
            except RuntimeError:  # there is no room for its thread
                self._told(number)
                raise
        with self._lock:
            self._read = number
        return True

    def _document(self, wanted: Notify, number: int, row: Audit) -> dict[str, object] | None:
        try:
            return document(self._context, wanted, number, row)
        except StoreError:
            raise
        except Exception:  # a fault of ours: one row is not told, and those behind it are
            log.exception("notify: row %d of the audit cannot be told", number)
            return None

    def _run(self, wanted: Notify, number: int, found: dict[str, object]) -> None:
        failure = "the master ended"
        text = json.dumps(found).encode() + b"\n"
        pause_s = AGAIN_S
        try:
            for left in range(wanted.retries, -1, -1):
                if self._stop.is_set():
                    break
                failure = outside.run(wanted.command, text, wanted.timeout_s, self._stop.is_set)
                if not failure:
                    break
                if left:
                    self._stop.wait(pause_s)
                    pause_s *= 5
            else:
                self._trouble(f"notify: {failure}", row=number)
                self._context.control.meters.noticed(told=False)
            if not failure:
                self._context.control.meters.noticed(told=True)
        finally:
            self._told(number, self._stop.is_set() and bool(failure))

    def _told(self, number: int, again: bool = False) -> None:
        """Or not, and then perhaps by the next master."""
        if not again:
            with self._lock:
                self._open.discard(number)
        self._room.release()

    def _trouble(self, text: str, row: int | None = None) -> None:
        with self._lock:
            worth = self._troubles.add(text, clock.now())
        if worth:
            log.warning("%s", text if row is None else f"{text} (id {row})", extra=about(event="notify"))

    # --- time limits ------------------------------------------------------------------------------------------------

    def _look_at_limits(self) -> None:
        """Where a job wants a word before its time is up, that becomes a row like any other."""
        with self._store.read() as reader:
            jobs = notified.with_limits(reader)
        due = [(job, share) for job in jobs for share in _due(job, clock.now())]
        fresh = [(job, share) for job, share in due if (job.job_id, job.attempt, share) not in self._said]
        self._said = {(job.job_id, job.attempt, share) for job, share in due}
        if not fresh:
            return
        with self._store.write() as writer:
            for job, share in fresh:
                what, began = notices.PERCENT.format(share), job.start_time or 0.0
                if not any(row.at >= began for row in writer.audits(job_id=job.job_id, what=what)):
                    writer.audit(Audit(clock.now(), WHO, what, job.job_id, None, f"attempt {job.attempt}"), job)


def _due(job: Job, now: float) -> list[int]:
    limit, began = job.spec.time_limit_s, job.start_time
    if limit is None or began is None:
        return []
    return [share for share in notices.shares_asked(job) if now >= began + share / 100 * limit]
