"""The wish that jobs end. One that waits is cancelled on the spot; of one that runs the wish is stored, and the master
ends it in its own time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mgpu import clock
from mgpu.core import lifecycle
from mgpu.core.model import Audit, Job, JobState
from mgpu.ops.chosen import Act, AlreadyEnded, change_chosen, said_before
from mgpu.ops.context import Caller, Context
from mgpu.ops.render import Json
from mgpu.store.writing import Writer


def cancel(context: Context, caller: Caller, payload: Mapping[str, Any]) -> Json:
    def change(writer: Writer, job: Job, mark: str) -> None:
        _cancel(writer, caller, job, mark)

    return change_chosen(context, caller, payload, Act("cancelled", "cancel it", change))


def _cancel(writer: Writer, caller: Caller, job: Job, mark: str) -> None:
    now = clock.now()
    if job.state.final:
        if said_before(writer, job, "cancel", mark):
            return
        raise AlreadyEnded(f"job {job.job_id} has already ended ({job.state})")
    pending = job.state is JobState.PENDING
    writer.save_job(
        lifecycle.withdraw(job, caller.user, now) if pending else lifecycle.want_stop(job, f"CANCEL by {caller.user}")
    )
    writer.audit(Audit(now, caller.user, "cancel", job_id=job.job_id, detail=mark))
