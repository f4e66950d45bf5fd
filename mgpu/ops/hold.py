"""The wish that jobs which wait do not start for now, and that they may again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mgpu.core import lifecycle
from mgpu.core.array import shown_id
from mgpu.core.errors import NotAllowed, RequestError
from mgpu.core.model import Job, JobState
from mgpu.ops.chosen import Act, AlreadyEnded, change_chosen
from mgpu.ops.context import Caller, Context
from mgpu.ops.render import Json
from mgpu.store.writing import Writer

_WAITING = (JobState.PENDING,)


def hold(context: Context, caller: Caller, payload: Mapping[str, Any]) -> Json:
    """Their own jobs people hold as users, those of others as admins."""

    def change(writer: Writer, job: Job, mark: str) -> None:
        _require_waiting(job, "held")
        held = lifecycle.hold(job, caller.user, admin=job.uid != caller.uid)
        writer.save_job(held, job)
        writer.audit(caller.entry("hold", job_id=job.job_id, detail=mark))

    return change_chosen(context, caller, payload, Act("hold", "held", "hold it", change, states=_WAITING))


def release(context: Context, caller: Caller, payload: Mapping[str, Any]) -> Json:
    def change(writer: Writer, job: Job, mark: str) -> None:
        _require_waiting(job, "released")
        if lifecycle.held_by_admin(job) and not context.is_operator(caller):
            raise NotAllowed(f"job {shown_id(job)} is held {job.held.partition(' ')[2]}", "an admin releases it")
        writer.save_job(lifecycle.release(job), job)
        writer.audit(caller.entry("release", job_id=job.job_id, detail=mark))

    act = Act("release", "released", "release it", change, states=_WAITING, held=True)
    return change_chosen(context, caller, payload, act)


def _require_waiting(job: Job, what: str) -> None:
    if job.state.final:
        raise AlreadyEnded.of(job)
    if job.state is not JobState.PENDING:
        raise RequestError(f"job {shown_id(job)} runs: only jobs that wait can be {what}")
