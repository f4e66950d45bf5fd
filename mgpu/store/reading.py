"""What can be asked of the stored state, inside one transaction: a consistent picture."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Connection, Select, and_, func, select
from sqlalchemy.sql.expression import ScalarSelect

from mgpu.core.model import Attempt, Audit, DeviceUuid, Job, JobId, JobState, NodeName, Part
from mgpu.core.observation import Node
from mgpu.store import tables
from mgpu.store.rows import from_row

T = TypeVar("T")
Scope = Literal["active", "ended", "all"]


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs. Empty = not filtered by that. `node` = the current or last attempt has a part there. `limit` keeps
    the oldest of the active jobs, else the newest ones."""

    scope: Scope = "active"
    user: str = ""
    partition: str = ""
    node: str = ""
    name: str = ""
    states: tuple[JobState, ...] = ()
    ids: tuple[JobId, ...] = ()
    limit: int | None = None


class Reader:
    """Lives as long as its transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def job(self, job_id: JobId) -> Job | None:
        return self._one(Job, select(tables.jobs).where(tables.jobs.c.job_id == job_id))

    def job_by_request(self, request_id: str) -> Job | None:
        return self._one(Job, select(tables.jobs).where(tables.jobs.c.request_id == request_id))

    def jobs(self, wanted: JobFilter) -> list[Job]:
        """In the order of their ids."""
        newest_kept = wanted.scope != "active"
        order = tables.jobs.c.job_id.desc() if newest_kept else tables.jobs.c.job_id
        found = self._all(Job, select(tables.jobs).where(*_conditions(wanted)).order_by(order).limit(wanted.limit))
        return found[::-1] if newest_kept else found

    def pending(self) -> list[Job]:
        """In the order of their ids."""
        return self._all(Job, select(tables.jobs).where(tables.PENDING).order_by(tables.jobs.c.job_id))

    def count_by_state(self, wanted: JobFilter) -> dict[JobState, int]:
        """Of the jobs that pass (all of them, whatever the limit); a state that none is in is absent."""
        query = select(tables.jobs.c.state, func.count()).where(*_conditions(wanted)).group_by(tables.jobs.c.state)
        return {JobState(state): count for state, count in self._connection.execute(query)}

    def attempt(self, job_id: JobId, number: int) -> Attempt | None:
        table = tables.attempts
        return self._one(Attempt, select(table).where(table.c.job_id == job_id, table.c.number == number))

    def attempts(self, job_id: JobId) -> list[Attempt]:
        table = tables.attempts
        return self._all(Attempt, select(table).where(table.c.job_id == job_id).order_by(table.c.number))

    def parts(self, job_id: JobId, attempt: int) -> list[Part]:
        """In the order of their ranks."""
        table = tables.parts
        query = select(table).where(table.c.job_id == job_id, table.c.attempt == attempt).order_by(table.c.rank)
        return self._all(Part, query)

    def open_parts(self) -> list[Part]:
        """The parts with which something is still to be done: not ended, or output not collected."""
        table = tables.parts
        return self._all(
            Part, select(table).where(tables.OPEN_PART).order_by(table.c.job_id, table.c.attempt, table.c.rank)
        )

    def open_attempts(self) -> list[tuple[Job, Attempt, list[Part]]]:
        """The attempts with open parts, each with its job and all of its parts by rank."""
        statements = _open_attempts()
        found: dict[tuple[JobId, int], list[Part]] = {}
        for part in self._all(Part, statements.parts):
            found.setdefault((part.job_id, part.attempt), []).append(part)
        if not found:
            return []
        by_id = {job.job_id: job for job in self._all(Job, statements.jobs)}
        tried = self._all(Attempt, statements.attempts)
        return [(by_id[one.job_id], one, found[one.job_id, one.number]) for one in tried]

    def parts_of_jobs(self, job_ids: Iterable[JobId]) -> dict[JobId, list[Part]]:
        """The parts of each job's current or last attempt, by rank; a job without an attempt is absent."""
        table, jobs = tables.parts, tables.jobs
        current = and_(table.c.job_id == jobs.c.job_id, table.c.attempt == jobs.c.attempt)
        query = select(table).join(jobs, current).where(jobs.c.job_id.in_(_each(job_ids)))
        found: dict[JobId, list[Part]] = {}
        for part in self._all(Part, query.order_by(table.c.job_id, table.c.rank)):
            found.setdefault(part.job_id, []).append(part)
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
        return self._all(Node, select(tables.nodes).order_by(tables.nodes.c.name))

    def node(self, name: NodeName) -> Node | None:
        return self._one(Node, select(tables.nodes).where(tables.nodes.c.name == name))

    def audits(
        self, job_id: JobId | None = None, node: NodeName | None = None, what: str = "", limit: int = 100
    ) -> list[Audit]:
        """The newest `limit` that match, oldest of them first."""
        table = tables.audit
        query = select(table).order_by(table.c.audit_id.desc()).limit(limit)
        if job_id is not None:
            query = query.where(table.c.job_id == job_id)
        if node is not None:
            query = query.where(table.c.node == node)
        if what:
            query = query.where(table.c.what == what)
        return self._all(Audit, query)[::-1]

    def _all(self, kind: Callable[..., T], query: Select[Any]) -> list[T]:
        return [from_row(kind, row) for row in self._connection.execute(query).mappings()]

    def _one(self, kind: Callable[..., T], query: Select[Any]) -> T | None:
        row = self._connection.execute(query).mappings().one_or_none()
        return None if row is None else from_row(kind, row)


class _OpenAttempts(NamedTuple):
    parts: Select[Any]
    jobs: Select[Any]
    attempts: Select[Any]


@cache
def _open_attempts() -> _OpenAttempts:
    """Made once: the master asks on every pass."""
    parts, jobs, attempts = tables.parts, tables.jobs, tables.attempts
    open_ones = select(parts.c.job_id, parts.c.attempt).where(tables.OPEN_PART).distinct().subquery()
    of_part = and_(parts.c.job_id == open_ones.c.job_id, parts.c.attempt == open_ones.c.attempt)
    of_attempt = and_(attempts.c.job_id == open_ones.c.job_id, attempts.c.number == open_ones.c.attempt)
    return _OpenAttempts(
        select(parts).join(open_ones, of_part).order_by(parts.c.rank),
        select(jobs).where(jobs.c.job_id.in_(select(open_ones.c.job_id))),
        select(attempts).join(open_ones, of_attempt).order_by(attempts.c.job_id),
    )


def _conditions(wanted: JobFilter) -> list[ColumnElement[bool] | Any]:
    column = tables.jobs.c
    conditions: list[Any] = []
    if wanted.scope == "active":
        conditions.append(tables.ACTIVE)
    elif wanted.scope == "ended":
        conditions.append(column.state.not_in([str(state) for state in JobState if not state.final]))
    for name in ("user", "partition", "name"):
        if getattr(wanted, name):
            conditions.append(column[name] == getattr(wanted, name))
    if wanted.states:
        conditions.append(column.state.in_([str(state) for state in wanted.states]))
    if wanted.ids:
        conditions.append(column.job_id.in_(_each(wanted.ids)))
    if wanted.node:
        part = tables.parts.c
        there = select(part.rank).where(
            part.job_id == column.job_id, part.attempt == column.attempt, part.node == wanted.node
        )
        conditions.append(there.exists())
    return conditions


def _each(ids: Iterable[JobId]) -> ScalarSelect[Any] | Select[Any]:
    """The ids as a table of one bound parameter, since the number of parameters is limited."""
    numbers: Sequence[int] = [int(job_id) for job_id in ids]
    return select(func.json_each(json.dumps(numbers)).table_valued("value").c.value)
