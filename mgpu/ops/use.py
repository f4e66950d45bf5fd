"""What a job makes of its GPUs, and what the GPUs of a node did: from samples (core.usage)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mgpu import clock
from mgpu.core import usage
from mgpu.core.array import Reference, shown_id
from mgpu.core.errors import RequestError
from mgpu.core.model import DeviceUuid, Job, JobState, NodeName, Part
from mgpu.core.usage import COARSE_S, FINE_KEPT_S, FINE_S, Entry, Key, Point
from mgpu.ops import render
from mgpu.ops.arrays import find
from mgpu.ops.context import Context
from mgpu.ops.jobs import parse_count
from mgpu.ops.render import Json
from mgpu.store import samples
from mgpu.store.reading import Reader

HOURS = 24
MOST_HOURS = 400 * 24
MOST_ROWS = 10_000  # are read for one answer


@dataclass(frozen=True, slots=True)
class _Span:
    """Which buckets are read: those of `length_s`, of many alone every `every_s`th second's, `step_s` for a point."""

    since: float
    until: float
    length_s: int
    every_s: int
    step_s: int


def job_use(context: Context, named: Reference) -> Json:
    """Of its current or last attempt. What others' jobs make of GPUs is told as `mgpu nodes` tells it of GPUs."""
    context.control.settle()
    with context.store.read() as r:
        job = find(r, named)
        parts = [part for part in r.parts(job.job_id, job.attempt) if part.uuids and part.started is not None]
        uses = [use for use in samples.uses_of(r, [job.job_id]) if use.attempt == job.attempt]
        now = clock.now()
        ends = [part.ended or now for part in parts]
        span = _span(min((part.started or now for part in parts), default=now), max(ends, default=now), len(parts), now)
        points = usage.points(_of_parts(r, job, parts, span), span.step_s)
    return {
        "job_id": shown_id(job),
        "attempt": job.attempt,
        "step_s": span.step_s,
        "points": [_point(point) for point in points],
        "idle_since": render.moment(usage.job_idle_since(parts)) if job.state is JobState.RUNNING else None,
        "gpu_hours": round(_gpu_seconds(parts, now) / 3600, 3),
        **render.use(uses),
    }


def node_use(context: Context, name: str, query: Mapping[str, str]) -> Json:
    node = context.node_config(name).name
    hours = parse_count("hours", query.get("hours") or str(HOURS), MOST_HOURS)
    if not hours:
        raise RequestError("hours is 0: how far is to be looked back?", "1 or more")
    now = clock.now()
    span = _span(now - 3600.0 * hours, now, 1, now)
    by_gpu: dict[DeviceUuid, list[tuple[int, dict[Key, Entry]]]] = {}
    context.control.settle()
    with context.store.read() as r:
        known = samples.sampled(r, node)
        for start, _, entries in _buckets(r, node, span):
            for key, entry in entries.items():
                by_gpu.setdefault(key.uuid, []).append((start, {key: entry}))
    return {
        "node_id": node,
        "step_s": span.step_s,
        "gpus": [
            {
                "uuid": one.uuid,
                "index": one.shown_index,
                "points": [
                    {**_point(point), "state": point.state.value}
                    for point in usage.points(by_gpu[one.uuid], span.step_s)
                ],
            }
            for one in known
            if one.uuid in by_gpu
        ],
    }


def _point(point: Point) -> Json:
    return {
        "at": render.moment(point.at),
        "gpus": point.gpus,
        "utilization": None if point.utilization is None else round(point.utilization, 1),
        "memory_mib": point.memory_mib,
    }


def _gpu_seconds(parts: Sequence[Part], now: float) -> float:
    return sum(len(part.uuids) * max(0.0, (part.ended or now) - (part.started or now)) for part in parts)


def _span(since: float, until: float, nodes: int, now: float) -> _Span:
    seconds = max(0.0, until - since)
    minutes = seconds / FINE_S * max(nodes, 1)
    length_s = FINE_S if since >= now - FINE_KEPT_S and minutes <= MOST_ROWS else COARSE_S
    step_s = usage.step_for(seconds, length_s)
    rows = seconds / length_s * max(nodes, 1)
    every_s = length_s * max(1, -(-int(rows) // MOST_ROWS))
    return _Span(since, until, length_s, every_s, max(step_s, every_s))


def _buckets(reader: Reader, node: NodeName, span: _Span) -> Iterator[tuple[int, int, dict[Key, Entry]]]:
    """When each began, and its length. Behind quarters of an hour come the minutes that are not rolled up yet."""
    last: int | None = None
    for start, entries in samples.buckets(reader, node, span.length_s, span.since, span.until, span.every_s):
        last = start
        yield start, span.length_s, entries
    if span.length_s == COARSE_S:
        begin = max(span.until - 2 * COARSE_S, span.since if last is None else last + COARSE_S)
        for start, entries in samples.buckets(reader, node, FINE_S, begin, span.until):
            yield start, FINE_S, entries


def _of_parts(reader: Reader, job: Job, parts: Sequence[Part], span: _Span) -> Iterator[tuple[int, dict[Key, Entry]]]:
    """What counts for the job. Of quarters of an hour nobody knows who held a GPU when: those whose middle it saw."""
    for part in parts:
        began, ended = part.started or 0.0, part.ended or span.until
        for start, length_s, entries in _buckets(reader, part.node, span):
            exact = length_s == FINE_S
            if exact or began <= start + length_s / 2 <= ended:
                found = usage.of_job(entries, part.uuids, job.job_id if exact else usage.NOBODY)
                # machines without UUIDs call their GPUs alike
                yield start, {key._replace(uuid=DeviceUuid(f"{part.node} {key.uuid}")): at for key, at in found.items()}
