"""The queue as text, kept from one question to the next: many ask for all of it all the time, and little has changed.

What is told is what is stored when somebody asks, never older. Rows of jobs are written through the store of this
process alone, which tells which ones have changed: these are read and rendered again, the others cannot have. Why jobs
wait changes with every plan, and for many alike: their rows keep what is before it and behind it, and among those who
ask all the time a plan's words may be two seconds old, but for jobs that no plan had spoken of yet.
"""

from __future__ import annotations

import json
import math
import secrets
import threading
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from mgpu import clock
from mgpu.config.model import Privacy
from mgpu.core.model import Job, JobId, JobState, Part
from mgpu.core.plan import Wait
from mgpu.ops import render
from mgpu.ops.context import Caller, Context
from mgpu.ops.named import call_by_name
from mgpu.ops.packing import Packer
from mgpu.ops.privacy import Sight, sight_of
from mgpu.store.filters import JobFilter
from mgpu.store.tables import written_out

WORDS_S = 1.0
_AT_ONCE = 1250  # rows that get new words for one who asks; many more, and all who ask meanwhile would wait
_HOLE = secrets.token_hex(16)  # stands for what the plan says of a job; no user can have it in a name
_HOLE_TEXT = json.dumps(_HOLE).encode()
_NOBODY = -1
_BEFORE, _BETWEEN, _AFTER = b'{"jobs": [', b", ", b"]}"
_TOGETHER = 8  # bits of a job's number: rows that are packed together differ in these alone
_MOST_ANSWERS = 16  # kept until something changes

Said = tuple[bytes, bytes]  # reason and detail, as JSON
Asked = tuple[Sight, JobFilter, bool]  # whether it may be packed


class Row:
    """Of one job. `full` and `partly`: its text for those who see all of it or, `privacy:` being what it is, a part;
    made when somebody asks."""

    __slots__ = (
        "_pieces",
        "_words",
        "full",
        "job",
        "name",
        "nodes",
        "partition",
        "partly",
        "row",
        "said",
        "user",
        "waits",
    )

    def __init__(self, job: Job, parts: Sequence[Part]) -> None:
        self.job = job
        self.waits = job.state is JobState.PENDING
        self.row = render.job(job, parts)
        if self.waits:
            self.row["reason"] = self.row["detail"] = _HOLE
        self._pieces: dict[Privacy, list[bytes]] = {}
        self.said: Said | None = None  # of one that waits
        self.full = self.partly = b""
        self._words = ""  # that may be searched
        # as the store's filters compare them
        self.user, self.name = written_out(job.user), written_out(job.spec.name)
        self.partition = written_out(job.spec.request.partition)
        self.nodes = {written_out(part.node) for part in parts}

    def say(self, said: Said) -> bool:
        """Why it waits; whether that is news."""
        if said == self.said:
            return False
        self.said, self.full, self.partly, self._words = said, b"", b"", ""
        return True

    def text(self, privacy: Privacy) -> bytes:
        if privacy == "full":
            self.full = self.full or self._join("full")
            return self.full
        self.partly = self.partly or self._join(privacy)
        return self.partly

    def _join(self, privacy: Privacy) -> bytes:
        pieces = self._pieces.get(privacy)
        if pieces is None:
            told = Sight(_NOBODY, "", privacy).of(self.job, self.row)
            pieces = self._pieces[privacy] = json.dumps(told).encode().split(_HOLE_TEXT)
        if len(pieces) == 1 or self.said is None:
            return pieces[0]
        reason, detail = self.said
        if len(pieces) == 2:  # the detail is not for them
            return b"".join((pieces[0], reason, pieces[1]))
        return b"".join((pieces[0], reason, pieces[1], detail, pieces[2]))

    def searched(self, known: bool, seen: bool) -> str:
        """What may be found of it, in lower case, by one who knows whose it is, or sees all of it."""
        if not seen:
            return self._found_in(known, seen)
        self._words = self._words or self._found_in(known, seen)
        return self._words

    def _found_in(self, known: bool, seen: bool) -> str:
        row = self.row
        reason, detail = self.said or (b"", b"")
        told = (reason.decode(), detail.decode()) if self.waits else (row["reason"], row["detail"])
        whose = (row["name"], row["user"]) if known else ()
        words = (row["job_id"], *whose, row["state"], row["partition"], *self.nodes, told[0], told[1] if seen else "")
        return " ".join(map(str, words)).lower()


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
        self._answers: dict[Asked, bytes] = {}
        self._packers: dict[Asked, Packer] = {}

    def asked(self, caller: Caller, wanted: JobFilter, packed: bool) -> Asked | None:
        """None = it is for the store to find."""
        if wanted.scope != "active" or wanted.named or wanted.ids or wanted.gone:
            return None
        if wanted.since is not None or wanted.until is not None:
            return None
        return sight_of(self._context, caller), wanted, packed

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

    def texts(self, rows: Iterable[Row], sight: Sight) -> list[bytes]:
        """What is told of each."""
        with self._lock:
            return [row.text("full" if sight.sees(row.job.uid) else sight.privacy) for row in rows]

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
        with self._context.store.read() as r:
            jobs = [job for job in r.jobs(wanted) if job.rest is None or job.rest]
            parts = r.parts_of_jobs(job.job_id for job in jobs)
        rows = {job.job_id: Row(job, parts.get(job.job_id, ())) for job in jobs}
        call_by_name(self._context, [one.row for one in rows.values()], "detail")
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
            if row.job.detail or wait is None:
                said = self._said(row.job, wait)
            else:
                said = known.get(id(wait)) or known.setdefault(id(wait), self._said(row.job, wait))
            if wait is None:
                unsaid.add(job_id)
            news = row.say(said) or news
        self._plan, self._unsaid = plan, unsaid
        return news

    def _said(self, job: Job, wait: Wait | None) -> Said:
        reason, detail = (wait.reason, render.waiting_for(job, wait)) if wait else (job.reason, job.detail)
        told = {"detail": detail}
        call_by_name(self._context, [told], "detail")
        return json.dumps(reason).encode(), json.dumps(told["detail"]).encode()

    # --- what is told -----------------------------------------------------------------------------------------------

    def _body(self, asked: Asked) -> bytes:
        sight, wanted, packed = asked
        allowed = sight.may_ask(wanted)
        rows = [] if allowed is None else chosen(self._rows.values(), allowed)
        if sight.privacy == "full":
            texts = [row.full or row.text("full") for row in rows]
        else:
            texts = [row.text("full" if sight.sees(row.job.uid) else sight.privacy) for row in rows]
        if not packed:
            return _BEFORE + _BETWEEN.join(texts) + _AFTER
        packer = self._packers.get(asked)
        if packer is None:
            if len(self._packers) >= _MOST_ANSWERS:
                self._packers.clear()
            packer = self._packers[asked] = Packer(_BEFORE, _BETWEEN, _AFTER)
        groups: dict[int, list[bytes]] = {}
        for row, text in zip(rows, texts, strict=True):
            groups.setdefault(row.job.job_id >> _TOGETHER, []).append(text)
        return packer.pack(groups.items())


def chosen(every: Iterable[Row], wanted: JobFilter) -> list[Row]:
    """As the store's own filter."""
    rows = list(every)
    for name in ("user", "partition", "name"):
        if value := written_out(getattr(wanted, name)):
            told = attrgetter(name)
            rows = [row for row in rows if told(row) == value]
    if wanted.states:
        rows = [row for row in rows if row.job.state in wanted.states]
    if wanted.node:
        node = written_out(wanted.node)
        rows = [row for row in rows if node in row.nodes]
    return rows[: wanted.limit]
