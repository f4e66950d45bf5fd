"""The wish that jobs run once more, under the number that they have: of one that ended it is done on the spot, one that
runs is ended first, by the master."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mgpu import clock
from mgpu.core import lifecycle
from mgpu.core import payload as read
from mgpu.core.array import Indices, Reference, common, never_began, render_reference, shown_id, to_come
from mgpu.core.errors import RequestError
from mgpu.core.model import Job, JobKind, JobState
from mgpu.ops import arrays, exports, trees
from mgpu.ops.chosen import Act, change_chosen, said_before
from mgpu.ops.circles import way_back
from mgpu.ops.context import Caller, Context
from mgpu.ops.render import Json
from mgpu.store.reading import Reader
from mgpu.store.writing import Writer


def requeue(context: Context, caller: Caller, payload: Mapping[str, Any]) -> Json:
    """Raises RequestError for a filter without states: it would bring back all that ever ended."""
    hold = read.flag(payload, "hold")
    if not payload.get("ids") and not payload.get("states"):
        raise RequestError("no jobs were named", "give job numbers, or --state, as in --state FAILED")

    def change(writer: Writer, job: Job, mark: str) -> None:
        if said_before(writer, job, "requeue", mark):
            return
        _require_all_there(context, job)
        after = _again(writer, job, caller)
        if hold:
            after = lifecycle.hold_next(after, caller.user, admin=job.uid != caller.uid)
        writer.save_job(after, job)
        if job.state.final and job.array_id is not None:
            arrays.begin_again(writer, job.array_id)
        writer.audit(caller.entry("requeue", job_id=job.job_id, detail=mark))

    def revive(writer: Writer, of: Job, indices: Indices, mark: str) -> None:
        _require_all_there(context, of)
        _revive(writer, caller, of, indices, mark, hold)

    act = Act("requeue", "requeued", "queue it again", change, scope="all", in_row=revive, gone=True)
    return change_chosen(context, caller, payload, act)


def _require_all_there(context: Context, job: Job) -> None:
    """What came with it is still to be had."""
    trees.require_still_there(context, job)
    exports.require_still_there(context, job)


def _revive(writer: Writer, caller: Caller, of: Job, indices: Indices, mark: str, hold: bool) -> None:
    """Tasks of an array that were cancelled before they began; those that are still to come wait already."""
    gone, now = common(never_began(of), indices), clock.now()
    if not gone:
        if said_before(writer, of, "requeue", mark):
            return
        raise RequestError(f"job {render_reference(Reference(of.job_id, indices))} waits already")
    _require_again(writer, of)
    others_wait = of.state is JobState.PENDING and bool(to_come(of))
    after = arrays.revive(writer, of, gone, caller.user, now)
    if hold:
        for job in arrays.make_tasks(writer, after, gone, now) if others_wait else [after]:
            writer.save_job(lifecycle.hold_next(job, caller.user, admin=of.uid != caller.uid), job)
    writer.audit(caller.entry("requeue", job_id=of.job_id, detail=mark))


def _require_again(reader: Reader, job: Job) -> None:
    number = shown_id(job)
    if job.spec.kind is not JobKind.BATCH:
        raise RequestError(f"job {number} is an srun, whose command has its output: run it again")
    if not job.spec.requeue:
        raise RequestError(f"job {number} was submitted with --no-requeue: submit it again")
    dependency = None if job.state is JobState.PENDING else job.spec.dependency
    if dependency is not None and (way := way_back(reader, job, dependency)):
        raise RequestError(way, "mgpu update --dependency none, of one of these that waits, opens the circle")


def _again(writer: Writer, job: Job, caller: Caller) -> Job:
    """Of an array comes here what waits already: what else there is of one are tasks."""
    _require_again(writer, job)
    number = shown_id(job)
    if job.state is JobState.PENDING:
        raise RequestError(f"job {number} waits already")
    if job.state.final:
        return lifecycle.requeue(job, caller.user, clock.now())
    if job.stop and not lifecycle.wants_restart(job):
        raise RequestError(f"job {number} is being ended ({job.stop}): queue it again once it is over")
    return lifecycle.want_restart(job, caller.user)
