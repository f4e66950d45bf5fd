"""What is queued, runs and ended, and why."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

from mgpu.core import array
from mgpu.core.array import Reference, parse_reference, shown_id, split_references
from mgpu.core.errors import RequestError
from mgpu.core.model import AttemptState, Job, JobId, JobState, Part
from mgpu.core.plan import Wait
from mgpu.core.smi.mig import label
from mgpu.core.usage import PartUse, job_idle_since
from mgpu.numeral import numeral
from mgpu.ops import outlook, render
from mgpu.ops.arrays import find, first_that_waits, is_next
from mgpu.ops.context import Caller, Context
from mgpu.ops.login import logins
from mgpu.ops.named import call_by_name
from mgpu.ops.privacy import Sight, sight_of
from mgpu.ops.render import Json
from mgpu.ops.since import moments_asked
from mgpu.store import samples
from mgpu.store.filters import JobFilter, Scope
from mgpu.store.reading import Reader

SCOPES = ("active", "ended", "all")
ENDED_LIMIT = 1000  # of the newest, unless the caller says otherwise: a history has no end
MOST = 100_000
MOST_NAMES = 300


class Also(NamedTuple):
    """What else is told of each job of a list. `start`: of one that waits, when and where it is expected to start;
    `attempts`: each of its attempts; `use`: what the last one, and with `attempts` each, made of its GPUs."""

    start: bool = False
    attempts: bool = False
    use: bool = False


NOTHING_ELSE = Also()


def parse_also(query: Mapping[str, str]) -> Also:
    return Also(*(query.get(name) == "1" for name in Also._fields))


def list_jobs(context: Context, caller: Caller, wanted: JobFilter, also: Also = NOTHING_ELSE) -> Iterator[list[Json]]:
    """Their rows, some at a time: of a long list no more are in memory."""
    sight = sight_of(context, caller)
    allowed = sight.may_ask(wanted)
    if allowed is None:
        return
    if also.use:
        context.control.settle()
    starts = outlook.expected(context) if also.start else None
    with context.store.read() as r:
        for jobs in r.jobs_in_turn(r.ids(allowed)):
            rows = [sight.of(job, row) for job, row in zip(jobs, _rows(context, r, jobs, also), strict=True)]
            if starts is not None:
                rows = [{**row, **outlook.told(starts.get(job.job_id))} for row, job in zip(rows, jobs, strict=True)]
            yield rows


def list_as_text(context: Context, caller: Caller, wanted: JobFilter, also: Also) -> bytearray:
    """`{"jobs": [...]}`."""
    text = bytearray(b'{"jobs": [')
    for number, rows in enumerate(list_jobs(context, caller, wanted, also)):
        text += b", " if number else b""
        text += json.dumps(rows)[1:-1].encode()
    text += b"]}"
    return text


def _rows(context: Context, reader: Reader, jobs: Sequence[Job], also: Also) -> list[Json]:
    """As somebody is told who sees all of them."""
    parts = reader.parts_of_jobs(job.job_id for job in jobs)
    tried = reader.attempts_of_jobs(job.job_id for job in jobs) if also.attempts else {}
    uses = _uses(reader, jobs) if also.use else None
    waits = context.control.waits()
    rows = [render.job(job, parts.get(job.job_id, ()), waits.get(job.job_id)) for job in jobs]
    for job, row in zip(jobs, rows, strict=True):
        if also.attempts:
            row["attempts"] = [render.attempt(one, its_parts) for one, its_parts in tried.get(job.job_id, ())]
        if uses is not None:
            for told in (row, *row.get("attempts", ())):
                told["use"] = uses.get((job.job_id, told["attempt"]))
    call_by_name(context, rows, "detail")
    return rows


def _uses(reader: Reader, jobs: Sequence[Job]) -> dict[tuple[JobId, int], Json]:
    """Of their attempts of which something was measured."""
    found: dict[tuple[JobId, int], list[PartUse]] = {}
    for use in samples.uses_of(reader, [job.job_id for job in jobs]):
        if use.measured_s:
            found.setdefault((use.job_id, use.attempt), []).append(use)
    return {key: render.use(uses) for key, uses in found.items()}


def show_job(context: Context, caller: Caller, named: Reference, ways: bool = False) -> Json:
    """The job as in the list, and each of its attempts; of an array how many of its tasks are in which state. `ways`:
    of one that runs also how to log in where it does."""
    with context.store.read() as r:
        job = find(r, named)
        job_id = job.job_id
        attempts = [(attempt, r.parts(job_id, attempt.number)) for attempt in r.attempts(job_id)]
        uses = [use for use in samples.uses_of(r, [job_id]) if use.attempt == job.attempt and use.measured_s]
        tasks = r.count_tasks(job_id) if job.is_array else {}
        if job.is_array:  # what is stored of it is when the last of them became a job: others wait for that
            job = replace(job, start_time=r.first_start(job_id))
        waiting = first_that_waits(r, job)
    parts = attempts[-1][1] if attempts else []
    shown = render.job(job, parts, context.control.waits().get(job_id))
    if waiting is not None:
        as_it = render.job(waiting, (), context.control.waits().get(waiting.job_id))
        shown |= {key: as_it[key] for key in ("state", "reason", "detail", "held")}
    turn = context.control.turn(job_id) if job.state is JobState.PENDING else None
    shown["order"] = render.turn(turn, job.spec.standing) if turn else None
    if ways and job.state is JobState.RUNNING:
        shown["logins"] = logins(context, parts)
    shown["use"] = render.use(uses) if uses else None
    shown |= {"mail_type": job.spec.mail_type, "mail_user": job.spec.mail_user, **render.places(job)}
    shown["attempts"] = [render.attempt(attempt, parts) for attempt, parts in attempts]
    if job.is_array:
        shown["tasks"] = array.counted(job, tasks)
    trouble = [{"text": text} for text in _device_trouble(context, job_id)]
    call_by_name(context, trouble, "text")
    call_by_name(context, (shown,), "detail")
    shown["device_trouble"] = [one["text"] for one in trouble]
    return sight_of(context, caller).of(job, shown)


def _device_trouble(context: Context, job_id: JobId) -> list[str]:
    """What speaks against the GPUs that it holds: somebody else on them, a fault."""
    return [
        f"{view.name} GPU {label(device.index)}: {device.reason.partition('; ')[2]}"
        for view in context.control.views()
        for device in view.devices
        if device.job_id == job_id and "; " in device.reason
    ]


def why(context: Context, caller: Caller, named: Reference) -> Json:
    """Why the job waits, with each node's reason; or where it runs; or how it ended."""
    with context.store.read() as r:
        job = find(r, named)
        asked, job = job, first_that_waits(r, job) or job
        parts = r.parts(job.job_id, job.attempt)
        first = is_next(r, job)
    sight = sight_of(context, caller)
    answer = {**_why(context, sight, job, parts, first), "job_id": shown_id(asked)}
    call_by_name(context, (answer, *answer["nodes"]), "detail", "reason")
    return sight.of(job, answer)


def _why(context: Context, sight: Sight, job: Job, parts: list[Part], first: bool) -> Json:
    """`first`: what is told of an array is told of it."""
    wait = context.control.waits().get(job.job_id)
    answer: Json = {
        "job_id": shown_id(job),
        "state": job.state.value,
        "reason": job.reason,
        "detail": job.detail,
        "nodes": [],
    }
    if job.state is JobState.PENDING:
        return {
            **answer,
            **_waiting(job, wait),
            **outlook.of(context, sight, job),
            **({} if first else outlook.told(None)),
        }
    if not job.detail:
        answer["detail"] = _where(context, job, parts) if job.state is JobState.RUNNING else _how_it_ended(job)
    answer["nodes"] = [{"node": part.node, "reason": part.reason} for part in parts if part.reason]
    if job.state is JobState.RUNNING:
        answer["idle_since"] = render.moment(job_idle_since(parts))
    return answer


def _waiting(job: Job, wait: Wait | None) -> Json:
    if wait is None:
        return {"detail": job.detail or "not looked at yet: the master plans in a moment"}
    nodes = [{"node": node, "reason": reason} for node, reason in wait.nodes]
    return {"reason": wait.reason, "detail": render.waiting_for(job.detail, wait), "nodes": nodes}


def _where(context: Context, job: Job, parts: list[Part]) -> str:
    if context.control.is_looked_at(job.job_id):
        return f"about to start: {', '.join(part.node for part in parts)} try whether they reach each other"
    unstarted = [part.node for part in parts if part.state is AttemptState.STARTING and not part.ready]
    if job.spec.tree and unstarted:
        return f"about to start: its tree goes to {', '.join(unstarted)} and is unpacked there"
    places = [f"{part.node} (GPU {','.join(map(label, part.devices)) or 'none'})" for part in parts]
    return f"runs on {', '.join(places)}" if places else "about to start"


def _how_it_ended(job: Job) -> str:
    return "" if job.exit_code is None else f"the command ended with exit code {job.exit_code}"


def parse_filter(query: Mapping[str, str], caller: Caller) -> JobFilter:
    """The filter of a list as it was typed; `me` = the caller's. Raises RequestError."""
    scope = query.get("scope") or "active"
    if scope not in SCOPES:
        raise RequestError(f"scope {scope!r} is none of {', '.join(SCOPES)}")
    limit = query.get("limit") or ("" if scope == "active" else str(ENDED_LIMIT))
    since, until = moments_asked(query)
    return JobFilter(
        scope=cast(Scope, scope),
        user=caller.user if query.get("me") else query.get("user", ""),
        partition=query.get("partition", ""),
        node=query.get("node", ""),
        name=query.get("name", ""),
        states=parse_states(query.get("states", "")),
        named=_parse_names(query.get("ids", "")),
        since=since,
        until=until,
        limit=parse_count("limit", limit, MOST) if limit else None,
    )


def _parse_names(text: str) -> tuple[Reference, ...]:
    words = [word for word in split_references(text) if word]
    if len(words) > MOST_NAMES:
        raise RequestError(f"more than {MOST_NAMES} jobs are named", "name fewer, or filter them")
    return tuple(map(parse_reference, words))


def parse_states(text: str) -> tuple[JobState, ...]:
    words = [word.strip().upper() for word in text.split(",") if word.strip()]
    for word in words:
        if word not in JobState.__members__:
            raise RequestError(f"there is no job state {word!r}", f"one of {', '.join(JobState.__members__)}")
    return tuple(JobState(word) for word in words)


def parse_count(name: str, text: str, most: int) -> int:
    number = numeral(text)
    if number is None:
        raise RequestError(f"{name} {text!r} is not a whole number")
    return min(number, most)
