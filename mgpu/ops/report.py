"""What came of the GPUs: see core.report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from mgpu import clock
from mgpu.core import report as core
from mgpu.core.errors import RequestError
from mgpu.core.model import JobState
from mgpu.core.report import Held, Line, Stretch
from mgpu.core.usage import job_idle_since
from mgpu.ops import render
from mgpu.ops.context import Caller, Context
from mgpu.ops.named import call_by_name
from mgpu.ops.privacy import Sight, sight_of
from mgpu.ops.render import Json
from mgpu.ops.since import moments_asked, refuse_nothing
from mgpu.store import held as stored
from mgpu.store.filters import JobFilter
from mgpu.store.reading import Reader
from mgpu.store.tables import written_out

WEEK_S = 7 * 86_400.0
BY = ("user", "node", "account")
OTHERS = "(others)"  # no login is called so
_DIGITS = {"share": 4, "success": 4, "utilization": 1, "wait_median_s": 0, "wait_p90_s": 0}


def report(context: Context, caller: Caller, query: Mapping[str, str]) -> Json:
    """Of the last week, or from `since` until `until`. Where others' names are not told, they are one."""
    by = query.get("by") or "user"
    if by not in BY:
        raise RequestError(f"--by {by!r} is not known", f"one of {', '.join(BY)}")
    now = clock.now()
    since, until = moments_asked(query)
    until = now if until is None else min(until, now)
    stretch = Stretch(until - WEEK_S if since is None else since, until)
    refuse_nothing(stretch.since, stretch.until)
    sight = sight_of(context, caller)
    context.control.settle()
    with context.store.read() as r:
        held = stored.held(r, stretch)
        ran = stored.ran(r, {part.job_id for part in held})
        nodes = _nodes(context, r, stretch, now)
        idle = _idle(context, r, sight)
    rows, total = core.lines(held, ran, stretch, now, lambda part: _name(part, by, sight))
    return {
        "since": render.moment(stretch.since),
        "until": render.moment(stretch.until),
        "by": by,
        "rows": [_told(row) for row in rows],
        "total": _told(total),
        "nodes": nodes,
        "idle": idle,
    }


def _name(part: Held, by: str, sight: Sight) -> str:
    if by == "node":
        return part.node
    if not sight.knows(part.uid):
        return OTHERS
    return part.user if by == "user" else part.account


def _told(line: Line) -> Json:
    found: dict[str, Any] = asdict(line)
    return {
        key: round(value, _DIGITS.get(key, 3)) if isinstance(value, float) else value for key, value in found.items()
    }


def _nodes(context: Context, reader: Reader, stretch: Stretch, now: float) -> list[Json]:
    """Of the inventory, in its order."""
    failures, suspects = stored.failures(reader, stretch), stored.suspects(reader, stretch)
    found = []
    for node in context.config.nodes:
        name = written_out(node.name)
        changes = stored.changes(reader, name, stretch.until)
        one = core.reliability(name, changes, failures.get(name, 0), suspects.get(name, 0), stretch, now)
        told = {**asdict(one), "node_id": node.name, "up": None if one.up is None else round(one.up, 6)}
        del told["node"]
        found.append(told)
    return found


def _idle(context: Context, reader: Reader, sight: Sight) -> list[Json]:
    """The jobs that are idle now, longest first."""
    jobs = reader.jobs(JobFilter(states=(JobState.RUNNING,)))
    parts = reader.parts_of_jobs(job.job_id for job in jobs)
    since = {job.job_id: job_idle_since(parts.get(job.job_id, ())) for job in jobs}
    idle = sorted((at, job.job_id, job) for job in jobs if (at := since[job.job_id]) is not None)
    rows = [render.job(job, parts[job.job_id]) for *_, job in idle]
    call_by_name(context, rows, "detail")
    return [sight.of(job, row) for (*_, job), row in zip(idle, rows, strict=True)]
