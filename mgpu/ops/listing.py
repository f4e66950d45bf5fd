"""The queue as text, kept from one question to the next: many ask for all of it all the time, and little has changed.

What is told is what is stored when somebody asks, never older. Rows of jobs are written through the store of this
process alone, which tells which ones have changed: these are read and rendered again, the others cannot have. Why jobs
wait changes with every plan, and for many alike: their rows keep what is before it and behind it, and among those who
ask all the time a plan's words may be two seconds old, but for jobs that no plan had spoken of yet.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterable, Mapping
from functools import partial
from operator import attrgetter
from typing import NamedTuple

from mgpu import clock
from mgpu.core.model import JobId
from mgpu.core.plan import Wait
from mgpu.ops import render
from mgpu.ops.context import Caller, Context
from mgpu.ops.named import call_by_name
from mgpu.ops.packing import Packer
from mgpu.ops.privacy import Sight, sight_of
from mgpu.ops.row import Row, Said, rendered
from mgpu.store.filters import JobFilter
from mgpu.store.tables import written_out

WORDS_S = 1.0
_AT_ONCE = 1250  # rows that get new words for one who asks; many more, and all who ask meanwhile would wait
_BEFORE, _BETWEEN, _AFTER = b'{"jobs": [', b", ", b"]}"
_TOGETHER = 8  # bits of a job's number: rows that are packed together differ in these alone
_MOST_CHANGED = 10_000
_MOST_ANSWERS = 16  # kept until something changes


class Asked(NamedTuple):
    """`packed`: it may be; `brief`: of each what a table of the queue shows, no more."""

    sight: Sight
    wanted: JobFilter
    packed: bool = False
    brief: bool = False


class Listing:
    """Of the jobs that have not ended. Any thread may ask."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._rows: dict[JobId, Row] = {}
        self._plan: Mapping[JobId, Wait] | None = None  # that was asked last
        self._unsaid: set[JobId] = set()  # of those that wait, it was not asked of these or did not speak of them
        self._plan_of_all: Mapping[JobId, Wait] | None = None
        self._to_ask: list[JobId] = []  # of whom a plan is to be asked anew, some at a time
        self._all_said_at = -math.inf
        self._turn = 0  # goes on with each change
        self._true = False  # what is kept, but for what the store and the plan tell since
        self._changed: set[JobId] | None = None  # since somebody took them; None = all may have
        self._answers: dict[Asked, bytes] = {}
        self._packers: dict[Asked, Packer] = {}

    def asked(self, caller: Caller, wanted: JobFilter, packed: bool, brief: bool = False) -> Asked | None:
        """None = it is for the store to find."""
        if wanted.scope != "active" or wanted.named or wanted.ids or wanted.gone:
            return None
        if wanted.since is not None or wanted.until is not None:
            return None
        return Asked(sight_of(self._context, caller), wanted, packed, brief)

    def kept(self, asked: Asked) -> bytes | None:
        """The answer, if it was made already and is true now. At once."""
        if self._context.store.changes.waiting or not self._true:  # in this order: see _catch_up
            return None
        return None if self._news() else self._answers.get(asked)

    def answer(self, asked: Asked) -> bytes:
        """As it is now."""
        with self._lock:
            self._catch_up()
            found = self._answers.get(asked)
            if found is None:
                if len(self._answers) >= _MOST_ANSWERS:
                    self._answers.clear()
                found = self._answers[asked] = self._body(asked)
            return found

    def rows(self) -> tuple[int, list[Row]]:
        """As they are now, and a number that is another after any job has changed, or what is said of it."""
        with self._lock:
            self._catch_up()
            return self._turn, list(self._rows.values())

    def take_changed(self) -> set[JobId] | None:
        """Those that have changed from one time that `rows` was asked, before this was, to another; None = all may."""
        with self._lock:
            taken, self._changed = self._changed, set()
        return taken

    def texts(self, rows: Iterable[Row], sight: Sight) -> list[bytes]:
        """What is told of each."""
        with self._lock:
            return [row.text("full" if sight.sees(row.uid) else sight.privacy) for row in rows]

    # --- what is kept -----------------------------------------------------------------------------------------------

    def _news(self) -> bool:
        """The planner has some that cannot wait."""
        plan = self._context.control.waits()
        return bool(self._to_ask) or (plan is not self._plan and bool(self._unsaid)) or self._due(plan)

    def _due(self, plan: Mapping[JobId, Wait]) -> bool:
        """It should be asked of all."""
        return plan is not self._plan_of_all and clock.monotonic() - self._all_said_at > WORDS_S

    def _catch_up(self) -> None:
        known, self._true = self._true, False  # before they are taken: what is kept knows nothing of them
        changed = self._context.store.changes.take()
        if not known:  # the last time it failed half way
            changed = None
        if changed is None or self._changed is None or len(self._changed) > _MOST_CHANGED:  # nobody takes so many
            self._changed = None
        else:
            self._changed |= changed
        fresh = changed is None or bool(changed)
        if fresh:
            self._read(changed)
        if fresh or self._news():
            fresh = self._say() or fresh
        if fresh:
            self._answers = {}
            self._turn += 1
        self._true = True

    def _read(self, changed: set[JobId] | None) -> None:
        """These anew; None = all."""
        wanted = JobFilter() if changed is None else JobFilter(ids=tuple(changed))
        rows: dict[JobId, Row] = {}
        with self._context.store.read() as r:
            for some in r.jobs_in_turn(r.ids(wanted)):
                jobs = [job for job in some if job.rest is None or job.rest]
                parts = r.parts_of_jobs(job.job_id for job in jobs)
                told = [rendered(job, parts.get(job.job_id, ())) for job in jobs]
                call_by_name(self._context, told, "detail")
                rows |= {job.job_id: Row(job, row) for job, row in zip(jobs, told, strict=True)}
        if changed is None:
            self._rows, self._unsaid, self._to_ask = {}, set(), []
            self._plan_of_all = None
        gone = (changed or set()) - rows.keys()
        for job_id in gone:
            self._rows.pop(job_id, None)
        self._unsaid -= gone
        self._unsaid |= {job_id for job_id, row in rows.items() if row.waits}
        last = next(reversed(self._rows), JobId(0))
        in_order = all(job_id > last or job_id in self._rows for job_id in rows)
        self._rows.update(rows)
        if not in_order:
            self._rows = dict(sorted(self._rows.items()))

    def _due_now(self, plan: Mapping[JobId, Wait]) -> set[JobId]:
        """Of whom the plan is to be asked: of those that no plan has spoken of, and where it is time for all of them,
        of some for each who asks; of all at once for who comes after a while in which nobody did."""
        if not self._to_ask and self._due(plan):
            self._to_ask, self._plan_of_all = list(reversed(self._rows)), plan
        late = clock.monotonic() - self._all_said_at > 2 * WORDS_S
        count = len(self._to_ask) if late else min(_AT_ONCE, len(self._to_ask))
        asked = {self._to_ask.pop() for _ in range(count)}
        if asked and not self._to_ask:
            self._all_said_at = clock.monotonic()
        return (asked & self._rows.keys()) | self._unsaid

    def _say(self) -> bool:
        """Why they wait, as far as it is due; whether that is news of any."""
        plan = self._context.control.waits()
        known: dict[int, Said] = {}  # by the identity of the wait, which jobs of a batch share
        unsaid, news = set(), False
        for job_id in self._due_now(plan):
            row = self._rows[job_id]
            if not row.waits:
                continue
            wait = plan.get(job_id)
            if row.detail or wait is None:
                said = self._said(row, wait)
            else:
                said = known.get(id(wait)) or known.setdefault(id(wait), self._said(row, wait))
            if wait is None:
                unsaid.add(job_id)
            news = row.say(said) or news
        self._plan, self._unsaid = plan, unsaid
        return news

    def _said(self, row: Row, wait: Wait | None) -> Said:
        reason, detail = (wait.reason, render.waiting_for(row.detail, wait)) if wait else (row.reason, row.detail)
        told = {"detail": detail}
        call_by_name(self._context, [told], "detail")
        return json.dumps(reason).encode(), json.dumps(told["detail"]).encode()

    # --- what is told -----------------------------------------------------------------------------------------------

    def _body(self, asked: Asked) -> bytes:
        sight = asked.sight
        allowed = sight.may_ask(asked.wanted)
        text = Row.brief if asked.brief else Row.text
        rows = [] if allowed is None else chosen(self._rows.values(), allowed)

        def texts(rows: Iterable[Row]) -> list[bytes]:
            if sight.privacy == "full":
                return [text(row, "full") for row in rows]
            return [text(row, "full" if sight.sees(row.uid) else sight.privacy) for row in rows]

        if not asked.packed:
            return _BEFORE + _BETWEEN.join(texts(rows)) + _AFTER
        packer = self._packers.get(asked)
        if packer is None:
            if len(self._packers) >= _MOST_ANSWERS:
                self._packers.clear()
            packer = self._packers[asked] = Packer(_BEFORE, _BETWEEN, _AFTER)
        groups: dict[int, list[Row]] = {}
        for row in rows:
            groups.setdefault(row.job_id >> _TOGETHER, []).append(row)
        return packer.pack(
            (key, [part for row in of_one for part in (row, row.said)], partial(texts, of_one))
            for key, of_one in groups.items()
        )


def chosen(every: Iterable[Row], wanted: JobFilter) -> list[Row]:
    """As the store's own filter."""
    rows = list(every)
    for name in ("user", "partition", "name"):
        if value := written_out(getattr(wanted, name)):
            told = attrgetter(name)
            rows = [row for row in rows if told(row) == value]
    if wanted.states:
        rows = [row for row in rows if row.state in wanted.states]
    if wanted.node:
        node = written_out(wanted.node)
        rows = [row for row in rows if node in row.nodes]
    return rows[: wanted.limit]
