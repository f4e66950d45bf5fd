"""The wish that jobs run once more, under the number that they have: of one that ended it is done on the spot, one that
runs is ended first, by the master."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mgpu import clock
from mgpu.core import lifecycle
from mgpu.core import payload as read
from mgpu.core.array import never_began, render_indices, shown_id
from mgpu.core.errors import RequestError
from mgpu.core.model import Audit, Job, JobKind, JobState
from mgpu.ops import arrays
from mgpu.ops.chosen import Act, change_chosen, said_before
from mgpu.ops.context import Caller, Context
from mgpu.ops.render import Json
from mgpu.store.writing import Writer


def requeue(context: Context, caller: Caller, payload: Mapping[str, Any]) -> Json:
    """Raises RequestError for a filter without states: it would bring back all that ever ended."""
    hold = read.flag(payload, "hold")
    if not payload.get("ids") and not payload.get("states"):
        raise RequestError("no jobs were named", "give job numbers, or --state, as in --state FAILED")

    def change(writer: Writer, job: Job, mark: str) -> None:
        if said_before(writer, job, "requeue", mark) or (job.is_array and writer.count_tasks(job.job_id)):
            return  # of an array, tasks that began are meant: they are jobs themselves
        after = _again(job, caller)
        if hold:
            after = lifecycle.hold_next(after, caller.user, admin=job.uid != caller.uid)
        writer.save_job(after, job)
        if job.state.final and job.array_id is not None:
            arrays.begin_again(writer, job.array_id)
        writer.audit(Audit(clock.now(), caller.user, "requeue", job_id=job.job_id, detail=mark))

    return change_chosen(context, caller, payload, Act("requeued", "queue it again", change, scope="all"))


def _again(job: Job, caller: Caller) -> Job:
    number = shown_id(job)
    if job.spec.kind is not JobKind.BATCH:
        raise RequestError(f"job {number} is an srun, whose command has its output: run it again")
    if not job.spec.requeue:
        raise RequestError(f"job {number} was submitted with --no-requeue: submit it again")
    if job.state is JobState.PENDING:
        raise RequestError(f"job {number} waits already")
    if job.state.final:
        again = lifecycle.requeue(job, caller.user, clock.now())
        # an array of which no task ever began: all of them are to come once more
        return replace(again, rest=render_indices(never_began(job)), dropped="") if job.is_array else again
    if job.stop and not lifecycle.wants_restart(job):
        raise RequestError(f"job {number} is being ended ({job.stop}): queue it again once it is over")
    return lifecycle.want_restart(job, caller.user)
