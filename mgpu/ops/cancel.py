"""The wish that jobs end. One that waits is cancelled on the spot; of one that runs the wish is stored, and the master
ends it in its own time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mgpu import clock
from mgpu.core import lifecycle
from mgpu.core.errors import MgpuError, NotFound, RequestError
from mgpu.core.model import Audit, Job, JobId, JobState
from mgpu.ops.context import Caller, Context, require_owner
from mgpu.ops.jobs import parse_job_id, parse_states
from mgpu.ops.render import Json
from mgpu.ops.submit import parse_request_id
from mgpu.store.reading import JobFilter, Reader
from mgpu.store.writing import Writer

MOST_IDS = 100_000


class AlreadyEnded(MgpuError):
    code = "already_ended"


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """`ids` that pass the filter; without ids all jobs not ended that pass it, and then only the caller's own unless
    it names a user."""

    request_id: str
    ids: tuple[JobId, ...]
    wanted: JobFilter


def parse_cancel(payload: Mapping[str, Any], caller: Caller) -> CancelRequest:
    ids = payload.get("ids") or []
    if not isinstance(ids, list) or len(ids) > MOST_IDS:
        raise RequestError("ids must be a list of job numbers")
    words = {name: payload.get(name) or "" for name in ("user", "name", "partition", "states")}
    for name, word in words.items():
        if not isinstance(word, str):
            raise RequestError(f"{name} must be text")
    if not ids and not any(words.values()):
        raise RequestError("nothing to cancel was named", "give job numbers, or --me, --user, --state, --name")
    wanted = JobFilter(
        scope="all" if ids else "active",
        user=words["user"] or ("" if ids else caller.user),
        partition=words["partition"],
        name=words["name"],
        states=parse_states(words["states"]),
        ids=tuple(dict.fromkeys(parse_job_id(word) for word in ids)),
    )
    return CancelRequest(parse_request_id(payload), wanted.ids, wanted)


def cancel(context: Context, caller: Caller, payload: Mapping[str, Any]) -> Json:
    """What could not be cancelled is an entry of `errors`, not an exception. All in one transaction."""
    request = parse_cancel(payload, caller)
    cancelled: list[JobId] = []
    errors: list[Json] = []
    with context.store.write() as w:
        jobs = w.jobs(request.wanted)
        for job_id in _unknown(w, request, jobs):
            errors.append({"job_id": job_id, **NotFound(f"there is no job {job_id}").as_json()})
        for job in jobs:
            try:
                require_owner(context, caller, job, "cancel it")
                _cancel(w, caller, job, f"request {request.request_id}")
            except MgpuError as refused:
                errors.append({"job_id": job.job_id, **refused.as_json()})
            else:
                cancelled.append(job.job_id)
    for job_id in cancelled:
        context.spool.notify(job_id)
    if cancelled:
        context.waker.wake()
    return {"cancelled": cancelled, "errors": errors}


def _unknown(reader: Reader, request: CancelRequest, found: list[Job]) -> list[JobId]:
    """The ids that no job has; those that the filter left out are not among them."""
    missing = set(request.ids) - {job.job_id for job in found}
    there = {job.job_id for job in reader.jobs(JobFilter(scope="all", ids=tuple(missing)))} if missing else set()
    return sorted(missing - there)


def _cancel(writer: Writer, caller: Caller, job: Job, mark: str) -> None:
    now = clock.now()
    if job.state.final:
        if _was_by(writer, job, mark):
            return  # the same wish again: its first answer got lost
        raise AlreadyEnded(f"job {job.job_id} has already ended ({job.state})")
    pending = job.state is JobState.PENDING
    writer.save_job(
        lifecycle.withdraw(job, caller.user, now) if pending else lifecycle.want_stop(job, f"CANCEL by {caller.user}")
    )
    writer.audit(Audit(now, caller.user, "cancel", job_id=job.job_id, detail=mark))


def _was_by(reader: Reader, job: Job, mark: str) -> bool:
    return any(entry.detail == mark for entry in reader.audits(job_id=job.job_id, what="cancel"))
