"""The wish that a job may run longer, or shorter. Stored with the job; the master tells its nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mgpu import clock
from mgpu.core import payload as read
from mgpu.core.errors import RequestError
from mgpu.core.model import Audit, Job, JobId, JobState, Part
from mgpu.core.partitions import admit, new_limit
from mgpu.core.plan import NodeView
from mgpu.core.timelimit import render_time_limit
from mgpu.ops.chosen import AlreadyEnded
from mgpu.ops.context import Caller, Context, find_job, require_owner
from mgpu.ops.render import Json
from mgpu.ops.submit import parse_request_id

_KEYS = ("request_id", "time")


def update(context: Context, caller: Caller, job_id: JobId, payload: Mapping[str, Any]) -> Json:
    """The limit counts from the start of the job. Raises RequestError for one that its partition does not allow."""
    read.only_keys(payload, _KEYS, "the key")
    request_id = parse_request_id(payload)
    time = read.line(payload, "time", 64).strip()
    if not time:
        raise RequestError("nothing to change was named", "give --time LIMIT; none removes it")
    views = context.control.views()
    with context.store.write() as w:
        job = find_job(w, job_id)
        require_owner(context, caller, job, "change it")
        changed = _with_limit(context, job, time, views, w.parts(job_id, job.attempt))
        w.save_job(changed)
        limit = changed.spec.time_limit_s
        detail = f"time limit {render_time_limit(limit)}, request {request_id}"
        w.audit(Audit(clock.now(), caller.user, "update", job_id=job_id, detail=detail))
    context.spool.notify(job_id)
    context.waker.wake()
    return {"job_id": job_id, "time_limit_s": limit}


def _with_limit(context: Context, job: Job, time: str, views: Sequence[NodeView], parts: list[Part]) -> Job:
    if job.state.final:
        raise AlreadyEnded(f"job {job.job_id} has already ended ({job.state})")
    request, partitions = job.spec.request, context.config.partitions
    if job.state is JobState.PENDING:
        admission = admit(request, time, views, partitions, job.user)
        request = replace(request, partition=admission.partition)
        limit = admission.time_limit_s
    else:
        where = {part.node for part in parts}
        limit = new_limit(time, request, [view for view in views if view.name in where], partitions, job.user)
    return replace(job, spec=replace(job.spec, request=request, time_limit_s=limit))
