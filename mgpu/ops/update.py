"""The wish that a job may run longer, or shorter. Stored with the job; the master tells its nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mgpu import clock
from mgpu.core import payload as read
from mgpu.core.array import Reference, shown_id
from mgpu.core.errors import RequestError
from mgpu.core.model import Audit, Job, JobState, Part
from mgpu.core.partitions import admit, new_limit
from mgpu.core.plan import NodeView
from mgpu.core.timelimit import render_time_limit
from mgpu.ops.arrays import find_row, with_tasks
from mgpu.ops.chosen import AlreadyEnded
from mgpu.ops.context import Caller, Context, require_owner
from mgpu.ops.render import Json
from mgpu.ops.submit import parse_request_id

_KEYS = ("request_id", "time")


def update(context: Context, caller: Caller, named: Reference, payload: Mapping[str, Any]) -> Json:
    """The limit counts from the start of the job; of an array, of each of its tasks that has not ended. Raises
    RequestError for one that its partition does not allow."""
    read.only_keys(payload, _KEYS, "the key")
    request_id = parse_request_id(payload)
    time = read.line(payload, "time", 64).strip()
    if not time:
        raise RequestError("nothing to change was named", "give --time LIMIT; none removes it")
    views = context.control.views()
    with context.store.write() as w:
        job = find_row(w, named, clock.now())
        require_owner(context, caller, job, "change it")
        jobs = with_tasks(w, job)
        for one in jobs:
            changed = _with_limit(context, one, time, views, w.parts(one.job_id, one.attempt))
            w.save_job(changed)
        limit = changed.spec.time_limit_s
        detail = f"time limit {render_time_limit(limit)}, request {request_id}"
        w.audit(Audit(clock.now(), caller.user, "update", job_id=job.job_id, detail=detail))
    for one in jobs:
        context.spool.notify(one.job_id)
    context.waker.wake()
    return {"job_id": shown_id(job), "time_limit_s": limit}


def _with_limit(context: Context, job: Job, time: str, views: Sequence[NodeView], parts: list[Part]) -> Job:
    if job.state.final:
        raise AlreadyEnded(f"job {shown_id(job)} has already ended ({job.state})")
    request, partitions = job.spec.request, context.config.partitions
    if job.state is JobState.PENDING:
        admission = admit(request, time, views, partitions, job.user)
        request = replace(request, partition=admission.partition)
        limit = admission.time_limit_s
    else:
        where = {part.node for part in parts}
        limit = new_limit(time, request, [view for view in views if view.name in where], partitions, job.user)
    return replace(job, spec=replace(job.spec, request=request, time_limit_s=limit))
