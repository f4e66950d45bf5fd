"""The wish that jobs end. One that waits is cancelled on the spot; of one that runs the wish is stored, and the master
ends it in its own time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mgpu import clock
from mgpu.core import lifecycle
from mgpu.core.array import Indices, to_come
from mgpu.core.model import Job, JobState
from mgpu.ops import arrays
from mgpu.ops.chosen import Act, AlreadyEnded, change_chosen, said_before
from mgpu.ops.context import Caller, Context
from mgpu.ops.render import Json
from mgpu.store.writing import Writer


def cancel(context: Context, caller: Caller, payload: Mapping[str, Any]) -> Json:
    def change(writer: Writer, job: Job, mark: str) -> None:
        _cancel(writer, caller, job, mark)

    def drop(writer: Writer, of: Job, indices: Indices, mark: str) -> None:
        _drop(writer, caller, of, indices, mark)

    return change_chosen(context, caller, payload, Act("cancel", "cancelled", "cancel it", change, in_row=drop))


def _cancel(writer: Writer, caller: Caller, job: Job, mark: str) -> None:
    now = clock.now()
    if job.state.final:
        if said_before(writer, job, "cancel", mark):
            return
        raise AlreadyEnded.of(job)
    if job.is_array:
        _drop(writer, caller, job, to_come(job), mark)
        return
    pending = job.state is JobState.PENDING
    writer.audit(caller.entry("cancel", job_id=job.job_id, detail=mark))
    after = (
        lifecycle.withdraw(job, caller.user, now) if pending else lifecycle.want_stop(job, f"CANCEL by {caller.user}")
    )
    writer.save_job(after, job)
    if pending and job.array_id is not None:
        arrays.end_if_over(writer, job.array_id, now)


def _drop(writer: Writer, caller: Caller, of: Job, indices: Indices, mark: str) -> None:
    """Tasks of an array that are still to come."""
    now = clock.now()
    if indices and of.state is JobState.PENDING:
        arrays.drop(writer, of, indices, now)
    writer.audit(caller.entry("cancel", job_id=of.job_id, detail=mark))
