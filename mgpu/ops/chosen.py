"""Wishes about several jobs at once: those named, or all that pass a filter, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mgpu.core.errors import MgpuError, NotFound, RequestError
from mgpu.core.model import Job, JobId, JobState
from mgpu.ops.context import Caller, Context, require_owner
from mgpu.ops.jobs import parse_job_id, parse_states
from mgpu.ops.render import Json
from mgpu.ops.submit import parse_request_id
from mgpu.store.reading import JobFilter, Reader, Scope
from mgpu.store.writing import Writer

MOST_IDS = 100_000


class AlreadyEnded(MgpuError):
    code = "already_ended"


@dataclass(frozen=True, slots=True)
class Act:
    """What is done to each job: `change` does it, or raises MgpuError. `done`: the key of the answer that lists them,
    `may` reads like "cancel it". Without ids, jobs of `scope` and `states` are meant."""

    done: str
    may: str
    change: Callable[[Writer, Job, str], None]
    scope: Scope = "active"
    states: tuple[JobState, ...] = ()


@dataclass(frozen=True, slots=True)
class Chosen:
    """`ids` that pass the filter; without ids all jobs that pass it, and then only the caller's own unless it names a
    user."""

    request_id: str
    ids: tuple[JobId, ...]
    wanted: JobFilter


def parse_chosen(payload: Mapping[str, Any], caller: Caller, act: Act) -> Chosen:
    ids = payload.get("ids") or []
    if not isinstance(ids, list) or len(ids) > MOST_IDS:
        raise RequestError("ids must be a list of job numbers")
    words = {name: payload.get(name) or "" for name in ("user", "name", "partition", "states")}
    for name, word in words.items():
        if not isinstance(word, str):
            raise RequestError(f"{name} must be text")
    if not ids and not any(words.values()):
        raise RequestError("no jobs were named", "give job numbers, or --me, --user, --state, --name")
    wanted = JobFilter(
        scope="all" if ids else act.scope,
        user=words["user"] or ("" if ids else caller.user),
        partition=words["partition"],
        name=words["name"],
        states=parse_states(words["states"]) or (() if ids else act.states),
        ids=tuple(dict.fromkeys(parse_job_id(word) for word in ids)),
    )
    return Chosen(parse_request_id(payload), wanted.ids, wanted)


def change_chosen(context: Context, caller: Caller, payload: Mapping[str, Any], act: Act) -> Json:
    """What could not be done is an entry of `errors`, not an exception."""
    request = parse_chosen(payload, caller, act)
    done: list[JobId] = []
    errors: list[Json] = []
    with context.store.write() as w:
        jobs = w.jobs(request.wanted)
        for job_id in _unknown(w, request, jobs):
            errors.append({"job_id": job_id, **NotFound(f"there is no job {job_id}").as_json()})
        for job in jobs:
            try:
                require_owner(context, caller, job, act.may)
                act.change(w, job, f"request {request.request_id}")
            except MgpuError as refused:
                errors.append({"job_id": job.job_id, **refused.as_json()})
            else:
                done.append(job.job_id)
    for job_id in done:
        context.spool.notify(job_id)
    if done:
        context.waker.wake()
    return {act.done: done, "errors": errors}


def said_before(reader: Reader, job: Job, what: str, mark: str) -> bool:
    """The same wish again: its first answer got lost."""
    return any(entry.detail == mark for entry in reader.audits(job_id=job.job_id, what=what))


def _unknown(reader: Reader, request: Chosen, found: list[Job]) -> list[JobId]:
    """The ids that no job has; those that the filter left out are not among them."""
    missing = set(request.ids) - {job.job_id for job in found}
    there = {job.job_id for job in reader.jobs(JobFilter(scope="all", ids=tuple(missing)))} if missing else set()
    return sorted(missing - there)
