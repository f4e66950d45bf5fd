"""Which jobs are meant, as conditions of a query."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Select, and_, bindparam, func, literal, or_, select, text
from sqlalchemy.sql.expression import ScalarSelect

from mgpu.core.array import Reference, each
from mgpu.core.model import JobId, JobState
from mgpu.store import tables

# An array whose tasks are all jobs of their own has nothing more to show in a list.
_SHOWS_ITSELF = text("(rest IS NULL OR rest <> '' OR (dropped <> '' AND state NOT IN ('PENDING', 'RUNNING')))")
_MOST_RANGES = 50  # in one expression: SQLite takes no deep ones

Scope = Literal["active", "ended", "all"]


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs. Empty = not filtered by that. `node` = the current or last attempt has a part there; `ids` are rows'
    numbers, `named` is what somebody calls jobs. `limit` keeps the oldest of the active jobs, else the newest: of
    those that ended the last to do so. `since`, `until`: those that ended then or later, or before that; what has not
    ended will do so later than any `since`. `gone`: where CANCELLED is among the states, arrays as well that are in
    another, of which tasks were cancelled before they began."""

    scope: Scope = "active"
    user: str = ""
    partition: str = ""
    node: str = ""
    name: str = ""
    states: tuple[JobState, ...] = ()
    ids: tuple[JobId, ...] = ()
    named: tuple[Reference, ...] = ()
    limit: int | None = None
    gone: bool = False
    since: float | None = None
    until: float | None = None


def given_jobs() -> ScalarSelect[Any] | Select[Any]:
    """The ids of the parameter `ids` (see `each_of`), since the number of parameters is limited."""
    return select(func.json_each(bindparam("ids")).table_valued("value").c.value)


def conditions(wanted: JobFilter) -> list[ColumnElement[bool] | Any]:
    column = tables.jobs.c
    conditions: list[Any] = []
    if wanted.scope == "active":
        conditions.append(tables.ACTIVE)
    elif wanted.scope == "ended":
        conditions.append(tables.ENDED)
    for name in ("user", "partition", "name"):
        if getattr(wanted, name):
            conditions.append(column[name] == getattr(wanted, name))
    with_gone = [column.dropped != ""] if wanted.gone and JobState.CANCELLED in wanted.states else []
    if wanted.states:
        conditions.append(or_(column.state.in_([str(state) for state in wanted.states]), *with_gone))
    if wanted.named:
        conditions.append(or_(*map(_is_named, wanted.named)))
    if wanted.ids:
        conditions.append(column.job_id.in_(given_jobs().params(ids=each_of(wanted.ids))))
    else:
        conditions.append(or_(_SHOWS_ITSELF, *with_gone))
    conditions += _ended_between(wanted)
    if wanted.node:
        part = tables.parts.c
        there = select(part.rank).where(
            part.job_id == column.job_id, part.attempt == column.attempt, part.node == wanted.node
        )
        conditions.append(there.exists())
    return conditions


def _ended_between(wanted: JobFilter) -> list[Any]:
    end, found = tables.jobs.c.end_time, []
    if wanted.since is not None:
        found.append(end >= wanted.since if wanted.scope == "ended" else or_(end >= wanted.since, tables.ACTIVE))
    if wanted.until is not None:
        found.append(and_(end < wanted.until, tables.ENDED))
    return found


def _is_named(named: Reference) -> ColumnElement[bool]:
    """Itself, its tasks, or those of them that are meant."""
    column = tables.jobs.c
    if named.indices is None:
        return or_(column.job_id == named.job_id, column.array_id == named.job_id)
    if len(named.indices) > _MOST_RANGES:
        listed = func.json_each(literal(json.dumps(list(each(named.indices))))).table_valued("value")
        return and_(column.array_id == named.job_id, column.array_index.in_(select(listed.c.value)))
    ranges = [
        and_(column.array_index.between(one[0], one[-1]), (column.array_index - one[0]) % one.step == 0)
        for one in named.indices
    ]
    return and_(column.array_id == named.job_id, or_(*ranges))


def each_of(ids: Iterable[JobId]) -> str:
    """Many ids as one parameter, JSON."""
    return json.dumps([int(job_id) for job_id in ids])
