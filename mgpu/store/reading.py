"""What can be asked of the stored state, inside one transaction: a consistent picture."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

from sqlalchemy import (
    Connection,
    Select,
    and_,
    bindparam,
    func,
    literal_column,
    select,
)

from mgpu.core import codec
from mgpu.core.array import whole
from mgpu.core.dependency import Fact
from mgpu.core.model import Attempt, Audit, DeviceUuid, Job, JobId, JobSpec, JobState, NodeName, Part
from mgpu.core.observation import Node
from mgpu.core.token import Token
from mgpu.store import tables
from mgpu.store.audits import AuditFilter, newest_first
from mgpu.store.filters import JobFilter, conditions, each_of, given_jobs
from mgpu.store.kept import Kept
from mgpu.store.rows import columns, from_row
from mgpu.store.statement import Statement

T = TypeVar("T")
AT_ONCE = 500  # jobs: each is several times as large as what is told of it
_SMALL_SPEC = 4096
_SPEC, _ARRAY_ID = ([column.name for column in columns(Job, tables.jobs)].index(name) for name in ("spec", "array_id"))

_jobs = select(*columns(Job, tables.jobs))
_attempts = select(*columns(Attempt, tables.attempts)).order_by(tables.attempts.c.job_id, tables.attempts.c.number)
_parts = select(*columns(Part, tables.parts)).order_by(
    tables.parts.c.job_id, tables.parts.c.attempt, tables.parts.c.rank
)
_nodes = select(*columns(Node, tables.nodes)).order_by(tables.nodes.c.name)
_j, _a, _p = tables.jobs.c, tables.attempts.c, tables.parts.c

_TOKENS = Statement(select(*columns(Token, tables.tokens)).order_by(tables.tokens.c.created))
_JOB = Statement(_jobs.where(_j.job_id == bindparam("job_id")))
_JOB_OF_REQUEST = Statement(_jobs.where(_j.request_id == bindparam("request_id")))
_GIVEN_JOBS = Statement(_jobs.where(_j.job_id.in_(given_jobs())))
_GIVEN_PENDING = Statement(_jobs.where(tables.PENDING, _j.job_id.in_(given_jobs())))
_GIVEN_NAMES = Statement(select(_j.uid, _j.name).where(_j.job_id.in_(given_jobs())).distinct())
_FACTS = Statement(select(_j.job_id, _j.state, _j.start_time, _j.end_time).where(_j.job_id.in_(given_jobs())))
_TASK_IDS = Statement(
    select(_j.job_id, _j.array_id, _j.array_index).where(_j.job_id.in_(given_jobs()), _j.array_id.is_not(None))
)
_NAMESAKES = Statement(
    select(_j.job_id, _j.state, func.coalesce(_j.array_id, _j.job_id))
    .where(tables.ACTIVE, _j.uid == bindparam("uid"), _j.name == bindparam("name"))
    .order_by(_j.job_id)
)
_SPECS = Statement(select(_j.job_id, _j.spec).where(_j.job_id.in_(given_jobs())))
_ATTENDED = Statement(_jobs.where(tables.ACTIVE, tables.ATTENDED))
_PENDING = Statement(_jobs.where(tables.PENDING).order_by(_j.job_id))
_TASK = Statement(_jobs.where(_j.array_id == bindparam("array_id"), _j.array_index == bindparam("array_index")))
_ACTIVE_TASKS = Statement(
    _jobs.where(tables.ACTIVE_TASK, _j.array_id == bindparam("array_id")).order_by(_j.array_index)
)
_ACTIVE_TASK = Statement(select(_j.job_id).where(tables.ACTIVE_TASK, _j.array_id == bindparam("array_id")))
_ATTEMPT = Statement(_attempts.where(_a.job_id == bindparam("job_id"), _a.number == bindparam("number")))
_ATTEMPTS = Statement(_attempts.where(_a.job_id == bindparam("job_id")))
_PARTS = Statement(_parts.where(_p.job_id == bindparam("job_id"), _p.attempt == bindparam("attempt")))
_OPEN_PARTS = Statement(_parts.where(tables.OPEN_PART))
_NODES = Statement(_nodes)
_NODE = Statement(_nodes.where(tables.nodes.c.name == bindparam("name")))

_open = select(_p.job_id, _p.attempt).where(tables.OPEN_PART).distinct().subquery()
_OPEN_JOBS = Statement(_jobs.where(_j.job_id.in_(select(_open.c.job_id))))
_OPEN_ATTEMPTS = Statement(_attempts.join(_open, and_(_a.job_id == _open.c.job_id, _a.number == _open.c.attempt)))
_PARTS_OF_OPEN_ATTEMPTS = Statement(
    _parts.join(_open, and_(_p.job_id == _open.c.job_id, _p.attempt == _open.c.attempt))
)
_CURRENT_PARTS = Statement(
    _parts.join(tables.jobs, and_(_p.job_id == _j.job_id, _p.attempt == _j.attempt)).where(_j.job_id.in_(given_jobs()))
)
_GIVEN_ATTEMPTS = Statement(_attempts.where(_a.job_id.in_(given_jobs())))
_GIVEN_PARTS = Statement(_parts.where(_p.job_id.in_(given_jobs())))

_USED = Statement(
    select(
        _j.user,
        func.coalesce(func.json_extract(_j.spec, literal_column("'$.account'")), literal_column("''")),
        func.json_array_length(_p.uuids),
        _p.started,
        _p.node,
        _j.partition,
        func.min(func.coalesce(_p.ended, bindparam("now")), bindparam("now")),
    )
    .join(tables.jobs, _p.job_id == _j.job_id)
    .where(_p.started.is_not(None), func.coalesce(_p.ended, bindparam("now")) > bindparam("since"))
)


class Used(NamedTuple):
    """GPUs that a job had on one node; `end` is now while it has them."""

    user: str
    account: str
    gpus: int
    start: float
    node: str
    partition: str
    end: float


class Reader:
    """Lives as long as its transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._driver = cast(sqlite3.Connection, connection.connection.driver_connection)

    @property
    def driver(self) -> sqlite3.Connection:
        """For the queries that have a module of their own."""
        return self._driver

    def job(self, job_id: JobId) -> Job | None:
        return self._one(Job, _JOB, job_id=job_id)

    def job_by_request(self, request_id: str) -> Job | None:
        return self._one(Job, _JOB_OF_REQUEST, request_id=request_id)

    def jobs(self, wanted: JobFilter) -> list[Job]:
        """In the order of their ids; those that ended in the order in which they did."""
        found = [from_row(Job, row) for row in self._connection.execute(_in_order(_jobs, wanted))]
        return found[::-1] if _keeps_newest(wanted) else found

    def ids(self, wanted: JobFilter) -> list[JobId]:
        """Of the same."""
        found = [JobId(job_id) for job_id in self._connection.execute(_in_order(select(_j.job_id), wanted)).scalars()]
        return found[::-1] if _keeps_newest(wanted) else found

    def jobs_in_turn(self, ids: Sequence[JobId]) -> Iterator[list[Job]]:
        """These, in that order, AT_ONCE at a time: of a long list no more are in memory."""
        for start in range(0, len(ids), AT_ONCE):
            some = ids[start : start + AT_ONCE]
            found = {job.job_id: job for job in self._all(Job, _GIVEN_JOBS, ids=each_of(some))}
            yield [found[job_id] for job_id in some]

    def pending_of(self, job_ids: Iterable[JobId]) -> list[Job]:
        """Those of these that wait, in any order."""
        return self._all(Job, _GIVEN_PENDING, ids=each_of(job_ids))

    def names(self, job_ids: Iterable[JobId]) -> set[tuple[int, str]]:
        """Whose these are, and how they are called, as `namesakes` takes it."""
        return {(uid, name) for uid, name in _GIVEN_NAMES.run(self._driver, {"ids": each_of(job_ids)})}

    def facts(self, job_ids: Iterable[JobId]) -> dict[JobId, Fact]:
        """Of those of these that there are."""
        rows = _FACTS.run(self._driver, {"ids": each_of(job_ids)})
        return {JobId(job_id): Fact(JobState(state), start, end) for job_id, state, start, end in rows}

    def namesakes(self, uid: int, name: str) -> list[tuple[JobId, JobState, JobId]]:
        """The jobs of that user and name (written out) that have not ended, in the order of their ids; each with the
        array that it belongs to, or itself."""
        rows = _NAMESAKES.run(self._driver, {"uid": uid, "name": name})
        return [(JobId(job_id), JobState(state), JobId(array_id)) for job_id, state, array_id in rows]

    def task_ids(self, job_ids: Iterable[JobId]) -> dict[JobId, tuple[JobId, int]]:
        """Array and index of those of these that are tasks."""
        rows = _TASK_IDS.run(self._driver, {"ids": each_of(job_ids)})
        return {JobId(job_id): (JobId(array_id), index) for job_id, array_id, index in rows}

    def highest_exit_code(self, array_id: JobId) -> int | None:
        query = select(func.max(_j.exit_code)).where(_j.array_id == array_id)
        code: int | None = self._connection.execute(query).scalar_one()
        return code

    def first_start(self, array_id: JobId) -> float | None:
        """When the first of its tasks started; None = none has."""
        query = select(func.min(_j.start_time)).where(_j.array_id == array_id)
        start: float | None = self._connection.execute(query).scalar_one()
        return start

    def task(self, array_id: JobId, index: int) -> Job | None:
        """Of an array, if it is a row."""
        return self._one(Job, _TASK, array_id=array_id, array_index=index)

    def tasks(self, array_id: JobId) -> list[Job]:
        """All that are rows, in the order of their indices."""
        query = _jobs.where(_j.array_id == array_id).order_by(_j.array_index)
        return [from_row(Job, row) for row in self._connection.execute(query)]

    def active_tasks(self, array_id: JobId) -> list[Job]:
        """Those that have not ended."""
        return self._all(Job, _ACTIVE_TASKS, array_id=array_id)

    def has_active_task(self, array_id: JobId) -> bool:
        return _ACTIVE_TASK.run(self._driver, {"array_id": array_id}).fetchone() is not None

    def count_tasks(self, array_id: JobId) -> dict[JobState, int]:
        """Those that are rows, by state."""
        query = select(_j.state, func.count()).where(_j.array_id == array_id).group_by(_j.state)
        return {JobState(state): count for state, count in self._connection.execute(query)}

    def pending(self) -> Iterator[Job]:
        """In the order of their ids; read as they are taken."""
        return (from_row(Job, row) for row in _PENDING.run(self._driver, {}))

    def attended(self) -> list[Job]:
        """Those that have not ended, and that end when no client is with them."""
        return self._all(Job, _ATTENDED)

    def count_by_state(self, wanted: JobFilter) -> dict[JobState, int]:
        """Of the jobs that pass (all of them, whatever the limit); a state that none is in is absent."""
        query = select(_j.state, func.count()).where(*conditions(wanted)).group_by(_j.state)
        return {JobState(state): count for state, count in self._connection.execute(query)}

    def attempt(self, job_id: JobId, number: int) -> Attempt | None:
        return self._one(Attempt, _ATTEMPT, job_id=job_id, number=number)

    def attempts(self, job_id: JobId) -> list[Attempt]:
        return self._all(Attempt, _ATTEMPTS, job_id=job_id)

    def parts(self, job_id: JobId, attempt: int) -> list[Part]:
        """In the order of their ranks."""
        return self._all(Part, _PARTS, job_id=job_id, attempt=attempt)

    def open_parts(self) -> list[Part]:
        """The parts with which something is still to be done: not ended, or output not collected."""
        return self._all(Part, _OPEN_PARTS)

    def open_attempts(self) -> list[tuple[Job, Attempt, list[Part]]]:
        """The attempts with open parts, each with its job and all of its parts by rank."""
        found: dict[tuple[JobId, int], list[Part]] = {}
        for part in _kept_parts.read(_PARTS_OF_OPEN_ATTEMPTS.run(self._driver, {})):
            found.setdefault((part.job_id, part.attempt), []).append(part)
        if not found:
            return []
        by_id = {job.job_id: job for job in self._open_jobs()}
        tried = _kept_attempts.read(_OPEN_ATTEMPTS.run(self._driver, {}))
        return [(by_id[one.job_id], one, found[one.job_id, one.number]) for one in tried]

    def _open_jobs(self) -> list[Job]:
        """Tasks of arrays with what they share: they are about to be launched, or run."""
        found = _OPEN_JOBS.run(self._driver, {}).fetchall()
        arrays = {row[_ARRAY_ID] for row in found} - {None}
        shared = dict(_SPECS.run(self._driver, {"ids": each_of(arrays)}).fetchall()) if arrays else {}
        rows = [(row, shared.get(row[_ARRAY_ID], "")) for row in found]
        large = [_open_job(row) for row in rows if not _is_small(row)]
        return [*_kept_jobs.read(filter(_is_small, rows)), *large]

    def parts_of_jobs(self, job_ids: Iterable[JobId]) -> dict[JobId, list[Part]]:
        """The parts of each job's current or last attempt, by rank; a job without an attempt is absent."""
        found: dict[JobId, list[Part]] = {}
        for part in self._all(Part, _CURRENT_PARTS, ids=each_of(job_ids)):
            found.setdefault(part.job_id, []).append(part)
        return found

    def attempts_of_jobs(self, job_ids: Iterable[JobId]) -> dict[JobId, list[tuple[Attempt, list[Part]]]]:
        """All attempts of each with their parts, the first of them first; a job without an attempt is absent."""
        ids = each_of(job_ids)
        parts: dict[tuple[JobId, int], list[Part]] = {}
        for part in self._all(Part, _GIVEN_PARTS, ids=ids):
            parts.setdefault((part.job_id, part.attempt), []).append(part)
        found: dict[JobId, list[tuple[Attempt, list[Part]]]] = {}
        for one in self._all(Attempt, _GIVEN_ATTEMPTS, ids=ids):
            found.setdefault(one.job_id, []).append((one, parts.get((one.job_id, one.number), [])))
        return found

    def holds(self) -> dict[tuple[NodeName, DeviceUuid], tuple[JobId, int]]:
        """(node, device) -> (job, attempt) that has it."""
        table = tables.holds
        query = select(table.c.node, table.c.uuid, table.c.job_id, table.c.attempt).where(tables.NOT_RELEASED)
        return {
            (NodeName(node), DeviceUuid(uuid)): (JobId(job_id), attempt)
            for node, uuid, job_id, attempt in self._connection.execute(query)
        }

    def nodes(self) -> list[Node]:
        return self._all(Node, _NODES)

    def node(self, name: NodeName) -> Node | None:
        return self._one(Node, _NODE, name=tables.written_out(name))

    def count_queued(self, user: str = "", account: str = "", partition: str = "") -> int:
        """Jobs that wait; an array is one. Empty = whatever that is."""
        column = tables.jobs.c
        query = select(func.count()).where(tables.PENDING)
        if user:
            query = query.where(column.user == user)
        if account:
            query = query.where(func.json_extract(column.spec, literal_column("'$.account'")) == account)
        if partition:
            query = query.where(func.instr("," + column.partition + ",", f",{partition},") > 0)
        return int(self._connection.execute(query).scalar_one())

    def shipped(self) -> set[tuple[int, str]]:
        """(uid, digest) of the trees that jobs go by which are not over."""
        return {(uid, digest) for uid, digest in self._said_by_active("tree.digest") if digest}

    def exported(self) -> set[str]:
        """The names of the values of jobs that are not over."""
        return {name for _, name in self._said_by_active("exports") if name}

    def _said_by_active(self, key: str) -> list[tuple[int, str | None]]:
        """(uid, what the spec says there)."""
        said = func.json_extract(tables.jobs.c.spec, literal_column(f"'$.{key}'"))
        query = select(tables.jobs.c.uid, said).where(tables.ACTIVE).distinct()
        return [(int(uid), value) for uid, value in self._connection.execute(query)]

    def with_values(self) -> list[Job]:
        """Those not over whose exported values stand in their rows, as older versions stored them."""
        table = tables.jobs
        there = func.instr(table.c.spec, literal_column("'\"env\":{}'")) == 0
        query = select(*columns(Job, table)).where(tables.ACTIVE, there)
        return [from_row(Job, row) for row in self._connection.execute(query)]

    def used_since(self, since: float, now: float) -> Iterator[Used]:
        """What was used until then is left out."""
        return map(Used._make, _USED.run(self._driver, {"since": since, "now": now}))

    def audits(self, job_id: JobId | None = None, node: NodeName | None = None, what: str = "") -> list[Audit]:
        """The newest hundred that match, oldest of them first."""
        return self.audited(AuditFilter(what=what, job_ids=() if job_id is None else (job_id,), node=node))

    def audited(self, wanted: AuditFilter) -> list[Audit]:
        """Oldest first."""
        return [from_row(Audit, row) for row in self._connection.execute(newest_first(wanted))][::-1]

    def tokens(self) -> list[Token]:
        """In the order in which they were made."""
        return self._all(Token, _TOKENS)

    def _all(self, kind: Callable[..., T], statement: Statement, **values: Any) -> list[T]:
        return [from_row(kind, row) for row in statement.run(self._driver, values)]

    def _one(self, kind: Callable[..., T], statement: Statement, **values: Any) -> T | None:
        row = statement.run(self._driver, values).fetchone()
        return None if row is None else from_row(kind, row)


def _keeps_newest(wanted: JobFilter) -> bool:
    """Of more than the limit."""
    return wanted.scope != "active"


def _in_order(query: Select[Any], wanted: JobFilter) -> Select[Any]:
    """By their ids, or as they ended, the newest first where those are kept."""
    order = (_j.job_id.desc(),) if _keeps_newest(wanted) else (_j.job_id,)
    if wanted.scope == "ended":
        order = (_j.end_time.desc(), *order)
    return query.where(*conditions(wanted)).order_by(*order).limit(wanted.limit)


_OpenRow = tuple[tuple[Any, ...], str]  # of a job; and the spec of its array, "" = it is a task of none


def _open_job(row: _OpenRow) -> Job:
    own, of_array = row
    job: Job = from_row(Job, own)
    return replace(job, spec=whole(job.spec, codec.loads(JobSpec, of_array))) if of_array else job


def _is_small(row: _OpenRow) -> bool:
    """Its spec: a large one is not worth being kept."""
    return len(row[0][_SPEC]) + len(row[1]) <= _SMALL_SPEC


_kept_parts: Kept[tuple[Any, ...], Part] = Kept(partial(from_row, Part))
_kept_attempts: Kept[tuple[Any, ...], Attempt] = Kept(partial(from_row, Attempt))
_kept_jobs: Kept[_OpenRow, Job] = Kept(_open_job)
