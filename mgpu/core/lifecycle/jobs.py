"""What becomes of a job by a plan or somebody's word: placed, held, ended, queued again; of an array by its tasks."""

from __future__ import annotations

from dataclasses import replace

from mgpu.core.dependency import NEVER
from mgpu.core.errors import InvalidTransition
from mgpu.core.lifecycle.tables import JOB_TABLE
from mgpu.core.model import HELD_BY_ADMIN, HELD_BY_USER, RESTART, Job, JobState


def place(job: Job, number: int, now: float) -> Job:
    """PENDING -> RUNNING: an attempt was committed for it."""
    if JobState.RUNNING not in JOB_TABLE.get(job.state, ()):
        raise InvalidTransition(f"job {job.job_id} is {job.state} and cannot be placed")
    return replace(
        job, state=JobState.RUNNING, reason="Starting", detail="", attempt=number, start_time=None, end_time=None
    )


def withdraw(job: Job, by: str, now: float) -> Job:
    """PENDING -> CANCELLED, at once: nothing of it is anywhere."""
    if job.state is not JobState.PENDING:
        raise InvalidTransition(f"job {job.job_id} is {job.state} and cannot be withdrawn")
    return replace(
        job,
        state=JobState.CANCELLED,
        reason="Cancelled",
        detail=f"cancelled by {by}",
        end_time=now,
        stop=f"CANCEL by {by}",
    )


def abandon(job: Job, detail: str, now: float) -> Job:
    """PENDING -> CANCELLED: what it waits for can never be."""
    if job.state is not JobState.PENDING:
        raise InvalidTransition(f"job {job.job_id} is {job.state} and cannot be abandoned")
    return replace(job, state=JobState.CANCELLED, reason=NEVER, detail=detail, end_time=now)


def hold(job: Job, by: str, admin: bool) -> Job:
    """It does not start until somebody releases it. What an `admin` holds stays an admin's, whoever else holds it."""
    if job.state is not JobState.PENDING:
        raise InvalidTransition(f"job {job.job_id} is {job.state} and cannot be held")
    return hold_next(job, by, admin)


def hold_next(job: Job, by: str, admin: bool) -> Job:
    """Also one that runs still: once it is queued again, it waits."""
    if job.held and (held_by_admin(job) or not admin):
        return job
    return replace(job, held=f"{HELD_BY_ADMIN if admin else HELD_BY_USER} by {by}")


def held_by_admin(job: Job) -> bool:
    return job.held.startswith(HELD_BY_ADMIN)


def release(job: Job) -> Job:
    return replace(job, held="")


def take_out(array: Job, rest: str, dropped: str, now: float) -> Job:
    """Of an array: tasks have become jobs of their own, or never will; RUNNING once none is to come."""
    if array.state is not JobState.PENDING:
        raise InvalidTransition(f"array {array.job_id} is {array.state}, and no task of it can begin")
    array = replace(array, rest=rest, dropped=dropped)
    return array if rest else replace(array, state=JobState.RUNNING, reason="", detail="", start_time=now)


def reopen_array(array: Job, dropped: str) -> Job:
    """A task of it is queued again, and an array is over only with all of them. `dropped`: those that never began, and
    never will."""
    if not array.is_array:
        raise InvalidTransition(f"job {array.job_id} is no array, and has no tasks")
    if not array.state.final:
        return array
    return replace(
        array, state=JobState.RUNNING, reason="", detail="", exit_code=None, end_time=None, rest="", dropped=dropped
    )


def revive(array: Job, rest: str, dropped: str, by: str, now: float) -> Job:
    """Of an array: tasks that were cancelled before they began are to come after all."""
    if array.state.final:
        array = requeue(array, by, now)
    elif array.state is JobState.RUNNING:
        kept = _kept_hold(array)
        array = replace(array, state=JobState.PENDING, reason="", detail="", start_time=None, held=kept)
    return replace(array, rest=rest, dropped=dropped)


def end_array(array: Job, state: JobState, detail: str, code: int | None, now: float) -> Job:
    """The last of its tasks has ended, and none is to come. `code`: the highest exit code of any."""
    if state not in JOB_TABLE.get(array.state, ()) or array.rest:
        raise InvalidTransition(f"array {array.job_id} is {array.state} with tasks to come: {array.rest or 'none'}")
    return replace(array, state=state, reason="", detail=detail, exit_code=code, end_time=now)


def want_stop(job: Job, why: str) -> Job:
    """The wish is stored with the job and carried out by the master. `why`: `CANCEL by alice`."""
    return job if job.stop and not wants_restart(job) else replace(job, stop=why)


def want_restart(job: Job, by: str) -> Job:
    """That it ends here, and is queued again."""
    if job.state is not JobState.RUNNING:
        raise InvalidTransition(f"job {job.job_id} is {job.state} and cannot be restarted")
    return job if job.stop else replace(job, stop=f"{RESTART} by {by}")


def wants_restart(job: Job) -> bool:
    return job.stop.startswith(RESTART)


def requeue(job: Job, by: str, now: float) -> Job:
    """An end -> PENDING: what it went through counts no more, but its attempts are kept, and an admin's hold."""
    if not job.state.final:
        raise InvalidTransition(f"job {job.job_id} is {job.state} and cannot be queued again")
    return replace(
        job,
        state=JobState.PENDING,
        reason="",
        detail="; ".join(filter(None, (job.detail, f"queued again by {by}"))),
        start_time=None,
        end_time=None,
        exit_code=None,
        stop="",
        held=_kept_hold(job),
        not_before=now,
        failures=0,
        avoid=(),
    )


def _kept_hold(job: Job) -> str:
    """A hold of one's own ends with what was held: who wants it again says so."""
    return job.held if held_by_admin(job) else ""
