"""A wish for a job becomes a row. Sent twice (its answer got lost) it is still one job."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mgpu import clock
from mgpu.core import lifecycle
from mgpu.core import payload as read
from mgpu.core.array import array_of, render_indices
from mgpu.core.dependency import Fact, judge
from mgpu.core.errors import MgpuError, NotAllowed, RequestError
from mgpu.core.model import Dependency, Job, JobId, JobSpec, JobState
from mgpu.core.request import parse_submission
from mgpu.ops.arrays import name_rows
from mgpu.ops.begin import parse_begin
from mgpu.ops.context import Caller, Context
from mgpu.ops.exports import put_apart
from mgpu.ops.limits import require_possible, require_room
from mgpu.ops.trees import require_there
from mgpu.ops.zone import zone_named
from mgpu.store.reading import Reader
from mgpu.store.writing import Writer

_REQUEST_ID = re.compile(r"[0-9a-fA-F-]{8,64}")


@dataclass(frozen=True, slots=True)
class Submitted:
    """`created` False: the request was known, this is the job that it made."""

    job_id: JobId
    notices: list[str]
    created: bool


def submit(context: Context, caller: Caller, payload: Mapping[str, Any]) -> Submitted:
    """Raises RequestError for what can never be met, NotAllowed for a partition that is closed to the caller."""
    wanted = new_or_known(context, caller, payload)
    if isinstance(wanted, Submitted):
        return wanted
    job, notices = wanted
    job = put_apart(context, job)
    made: Submitted | None = None
    try:
        with context.store.write() as w:
            made = add(context, w, caller, job, notices, payload)
    finally:
        settle(context, [(job, made)])
    return made


def new_or_known(context: Context, caller: Caller, payload: Mapping[str, Any]) -> Submitted | tuple[Job, list[str]]:
    """A job as it would be stored, and notices; or one that the same request made before, where it would be refused
    now. Raises as `submit` does."""
    request_id = stored_id(payload, caller)
    try:
        job, notices = read_job(context, caller, payload, request_id)
        require_there(context, caller.uid, job.spec.tree)
    except MgpuError:
        with context.store.read() as r:
            known = r.job_by_request(request_id)
        if known is None:
            raise
        return _known(known, caller, payload)
    return job, notices


def add(
    context: Context, writer: Writer, caller: Caller, job: Job, notices: list[str], payload: Mapping[str, Any]
) -> Submitted:
    """The job that is stored now, or that the same request made before."""
    known = writer.job_by_request(job.request_id)
    if known is not None:
        return _known(known, caller, payload)
    require_room(context, writer, job.spec, job.user)
    job = _with_rows(writer, job)
    notices = notices + _dependency_notices(writer, job)
    job_id, _ = writer.add_job(job)
    writer.audit(caller.entry("submit", job_id=job_id, detail=job.spec.name), replace(job, job_id=job_id))
    return Submitted(job_id, notices, created=True)


def settle(context: Context, jobs: Sequence[tuple[Job, Submitted | None]]) -> None:
    """What came of them, once that is stored: values that were put apart for what is no new job go, of new ones those
    are told who look after them."""
    for job, made in jobs:
        if made is not None and made.created:
            context.control.attendance.expect(replace(job, job_id=made.job_id))
        else:
            context.store.exports.drop(job.spec.exports)
    if any(made is not None and made.created for _, made in jobs):
        context.waker.wake()


def require_manners(context: Context, caller: Caller, spec: JobSpec, most: int = 0, least: int = 0) -> None:
    """Everybody may let others go first; only an admin may send a job ahead: a priority above `most`, to be less nice
    than `least`. Raises NotAllowed."""
    if context.is_operator(caller):
        return
    if spec.priority > most:
        raise NotAllowed(f"--priority {spec.priority}: above {most} is for admins", "--nice N lowers a job of yours")
    if spec.nice < least:
        raise NotAllowed(f"--nice {spec.nice}: below {least} is for admins", "give 0 or more")


def parse_request_id(payload: Mapping[str, Any]) -> str:
    request_id = payload.get("request_id")
    if not isinstance(request_id, str) or not _REQUEST_ID.fullmatch(request_id):
        raise RequestError("request_id must be 8 to 64 hexadecimal digits, new for each wish")
    return request_id


def read_job(
    context: Context, caller: Caller, payload: Mapping[str, Any], request_id: str = ""
) -> tuple[Job, list[str]]:
    """The job that it means, and notices. Raises as `submit` does."""
    config = context.config
    spec, notices = parse_submission(payload, context.control.views(), config.partitions, caller.user, config.accounts)
    require_manners(context, caller, spec)
    if config.run_as == "submitter":
        config.logins.login_of(caller.user)
    require_possible(context, spec, caller.user)
    if spec.mail_type and config.notify is None:
        notices.append("--mail-type: nobody would be told, as this master's configuration has no `notify:`")
    spec = replace(spec, asked=asked_for(payload))
    options = read.Options(read.mapping(payload, "options"))
    begin = 0.0
    if options.get("begin") is not None:
        begin = parse_begin(read.line(options, "begin", 64), clock.now(), zone_named(payload.get("zone")))
    return _job(request_id, caller, spec, options, begin), notices


def _job(request_id: str, caller: Caller, spec: JobSpec, options: read.Options, begin: float) -> Job:
    now = clock.now()
    job = Job(
        job_id=JobId(0),  # the store numbers it
        request_id=request_id,
        user=caller.user,
        uid=caller.uid,
        spec=spec,
        state=JobState.PENDING,
        submit_time=now,
        rest=render_indices(array_of(spec.array).indices) if spec.array else None,
        dropped="" if spec.array else None,
        not_before=begin,
    )
    return lifecycle.hold(job, caller.user, admin=False) if read.flag(options, "hold") else job


def _with_rows(writer: Writer, job: Job) -> Job:
    dependency = job.spec.dependency
    if dependency is None:
        return job
    return replace(job, spec=replace(job.spec, dependency=name_rows(writer, dependency, job.submit_time)))


def _dependency_notices(reader: Reader, job: Job) -> list[str]:
    """Raises RequestError for a job that is not there."""
    dependency = job.spec.dependency
    if dependency is None:
        return []
    facts = known_facts(reader, dependency)
    verdict = judge(dependency, facts, None)
    return [f"it waits for what can never be: {verdict.detail}"] if verdict.never else []


def known_facts(reader: Reader, dependency: Dependency) -> dict[JobId, Fact]:
    """Of the jobs that it names. Raises RequestError for one that is not there."""
    facts = reader.facts(dependency.job_ids)
    for job_id in dependency.job_ids:
        if job_id not in facts:
            raise RequestError(f"--dependency: there is no job {job_id}", "mgpu queue and mgpu history list them")
    return facts


def stored_id(payload: Mapping[str, Any], caller: Caller) -> str:
    """What makes a repeated submission the same job: the client's own id for this one command, or the key that the user
    gave, which is of that user alone. Raises RequestError."""
    request_id, key = parse_request_id(payload), read.line(payload, "key", 200)
    if payload.get("key") is None:
        return request_id
    if not key.strip():
        raise RequestError("--request-id is empty: give it a value or leave it out", "is a variable unset?")
    return f"key:{caller.uid}:{_digest(key)}"


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def asked_for(payload: Mapping[str, Any]) -> str:
    """What a submission wants, in short; "" = without a key, as its id is never used again. Of exported values their
    names alone: who can read the digest could try for a short one."""
    if payload.get("key") is None:
        return ""
    said = ("kind", "command", "options", "cwd", "virtual_env", "tree")
    return _digest({**{name: payload.get(name) for name in said}, "env": sorted(payload.get("env") or {})})


def _known(job: Job, caller: Caller, payload: Mapping[str, Any]) -> Submitted:
    if job.uid != caller.uid:
        raise NotAllowed("this request_id belongs to a job of somebody else", "make a new one for each job")
    if job.spec.asked != asked_for(payload):
        raise otherwise(payload, f"belongs to job {job.job_id}, which was asked for otherwise")
    return Submitted(job.job_id, [], created=False)


def otherwise(payload: Mapping[str, Any], why: str) -> RequestError:
    """Of a key that stands for something else already."""
    key = read.shown(read.line(payload, "key", 200))
    return RequestError(f"--request-id '{key}' {why}", "another request needs another key")
