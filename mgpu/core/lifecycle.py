"""Every change of state, as tables. Nothing else in mgpu sets a state.

Theory of operation. A *job* is what the user asked for, an *attempt* one numbered try at it, a *part* the attempt's
share on one node: one supervised process there. Only parts have a life of their own; it is `PART_TABLE`. What a node
tells (or that it tells nothing) reaches a part as `News` and moves it along one arrow. After each batch of news
`settle` draws the conclusions upwards: the attempt's state follows from its parts, the job's from the attempt, and
`core.retry` says what an ended attempt means.

Two rules are worth their price everywhere:
- A STARTING part ends only if it started, was fenced, or its node rebooted. A request that was sent may still arrive.
- LOST is an observation. It keeps the devices, and every other news leads out of it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from mgpu.core import retry
from mgpu.core.dependency import NEVER
from mgpu.core.errors import InvalidTransition
from mgpu.core.model import (
    GIVEN_UP,
    HELD_BY_ADMIN,
    HELD_BY_USER,
    REQUEUE,
    Attempt,
    AttemptState,
    FailureClass,
    Job,
    JobState,
    NodeState,
    Part,
    PartKey,
)


class PartEvent(str, Enum):
    BEGUN = "begun"  # its supervisor lives and prepares
    READY = "ready"  # prepared, waits for the other nodes
    STARTED = "started"
    LAUNCH_FAILED = "launch_failed"  # the command never ran
    EXITED = "exited"  # and nothing of it is left on the node
    FENCED = "fenced"  # it never started and never will
    REBOOTED = "rebooted"
    STOP_WANTED = "stop_wanted"
    UNREACHABLE = "unreachable"
    FOUND_ABSENT = "found_absent"  # the node answers and has no record of it
    GONE = "gone"  # nor has it one of what was known to run before it was asked: somebody removed the run directory
    ORPHANED = "orphaned"  # its supervisor is gone; what is left has to be ended
    STUCK = "stuck"  # a process of it cannot be killed
    GIVEN_UP = "given_up"  # an operator's word


START_HANGS = "START_HANGS"  # a stop: for long nothing came of the start. The node leaves alone what has begun
RUN_DIRECTORY_GONE = "RUN_DIRECTORY_GONE"  # a stop: somebody removed it, so nobody watches over the job any more

_P, _E = AttemptState, PartEvent

PART_TABLE: dict[tuple[AttemptState, PartEvent], AttemptState] = {
    (_P.STARTING, _E.BEGUN): _P.STARTING,
    (_P.STARTING, _E.READY): _P.STARTING,
    (_P.STARTING, _E.STARTED): _P.RUNNING,
    (_P.STARTING, _E.LAUNCH_FAILED): _P.ENDED,
    (_P.STARTING, _E.EXITED): _P.ENDED,
    (_P.STARTING, _E.FENCED): _P.ENDED,
    (_P.STARTING, _E.REBOOTED): _P.ENDED,
    (_P.STARTING, _E.STOP_WANTED): _P.STOPPING,
    (_P.STARTING, _E.UNREACHABLE): _P.LOST,
    (_P.STARTING, _E.FOUND_ABSENT): _P.STARTING,  # the request got lost: it is sent again
    (_P.STARTING, _E.GONE): _P.STOPPING,
    (_P.STARTING, _E.ORPHANED): _P.STOPPING,
    (_P.STARTING, _E.STUCK): _P.STOPPING,
    (_P.RUNNING, _E.BEGUN): _P.RUNNING,
    (_P.RUNNING, _E.READY): _P.RUNNING,
    (_P.RUNNING, _E.STARTED): _P.RUNNING,
    (_P.RUNNING, _E.LAUNCH_FAILED): _P.ENDED,
    (_P.RUNNING, _E.EXITED): _P.ENDED,
    (_P.RUNNING, _E.FENCED): _P.ENDED,
    (_P.RUNNING, _E.REBOOTED): _P.ENDED,
    (_P.RUNNING, _E.STOP_WANTED): _P.STOPPING,
    (_P.RUNNING, _E.UNREACHABLE): _P.LOST,
    (_P.RUNNING, _E.FOUND_ABSENT): _P.RUNNING,  # an answer from before it began
    (_P.RUNNING, _E.GONE): _P.STOPPING,  # ended by its token
    (_P.RUNNING, _E.ORPHANED): _P.STOPPING,
    (_P.RUNNING, _E.STUCK): _P.STOPPING,
    (_P.STOPPING, _E.BEGUN): _P.STOPPING,
    (_P.STOPPING, _E.READY): _P.STOPPING,
    (_P.STOPPING, _E.STARTED): _P.STOPPING,
    (_P.STOPPING, _E.LAUNCH_FAILED): _P.ENDED,
    (_P.STOPPING, _E.EXITED): _P.ENDED,
    (_P.STOPPING, _E.FENCED): _P.ENDED,
    (_P.STOPPING, _E.REBOOTED): _P.ENDED,
    (_P.STOPPING, _E.STOP_WANTED): _P.STOPPING,
    (_P.STOPPING, _E.UNREACHABLE): _P.LOST,
    (_P.STOPPING, _E.FOUND_ABSENT): _P.STOPPING,  # the stop request lays the fence
    (_P.STOPPING, _E.GONE): _P.STOPPING,
    (_P.STOPPING, _E.ORPHANED): _P.STOPPING,
    (_P.STOPPING, _E.STUCK): _P.STOPPING,
    (_P.LOST, _E.BEGUN): _P.STARTING,
    (_P.LOST, _E.READY): _P.STARTING,
    (_P.LOST, _E.STARTED): _P.RUNNING,
    (_P.LOST, _E.LAUNCH_FAILED): _P.ENDED,
    (_P.LOST, _E.EXITED): _P.ENDED,
    (_P.LOST, _E.FENCED): _P.ENDED,
    (_P.LOST, _E.REBOOTED): _P.ENDED,
    (_P.LOST, _E.STOP_WANTED): _P.LOST,  # remembered in `stop`
    (_P.LOST, _E.UNREACHABLE): _P.LOST,
    (_P.LOST, _E.FOUND_ABSENT): _P.STARTING,
    (_P.LOST, _E.GONE): _P.STOPPING,
    (_P.LOST, _E.ORPHANED): _P.STOPPING,
    (_P.LOST, _E.STUCK): _P.STOPPING,
    (_P.LOST, _E.GIVEN_UP): _P.ENDED,
}

JOB_TABLE: dict[JobState, tuple[JobState, ...]] = {
    JobState.PENDING: (JobState.RUNNING, JobState.CANCELLED),
    JobState.RUNNING: (
        JobState.PENDING,  # tried again
        JobState.COMPLETED,
        JobState.FAILED,
        JobState.CANCELLED,
        JobState.TIMEOUT,
        JobState.NODE_FAIL,
    ),
}

NODE_TABLE: dict[NodeState, tuple[NodeState, ...]] = {
    NodeState.UNKNOWN: (NodeState.UP, NodeState.DOWN, NodeState.DRAINING),
    NodeState.UP: (NodeState.DOWN, NodeState.DRAINING),
    NodeState.DOWN: (NodeState.UP, NodeState.DRAINING),
    NodeState.DRAINING: (NodeState.DRAINED, NodeState.UP, NodeState.DOWN, NodeState.UNKNOWN),
    NodeState.DRAINED: (NodeState.UP, NodeState.DOWN, NodeState.UNKNOWN),
}


@dataclass(frozen=True, slots=True)
class News:
    """Something about one part, at a time of ours. Only what belongs to the event is filled in."""

    key: PartKey
    event: PartEvent
    at: float
    pid: int | None = None
    start_ticks: int | None = None
    boot_id: str = ""
    exit_code: int | None = None
    failure: FailureClass = FailureClass.NONE
    reason: str = ""
    stop: str = ""
    ended_by: str | None = None  # the stop that ended the command; "" = it ended by itself; None = the node cannot tell
    notice: str = ""
    sizes: tuple[int, int] | None = None  # of stdout and stderr in bytes, once nothing is written any more


def step_part(part: Part, news: News) -> Part:
    """Late news about an ended part changes nothing; the caller audits it."""
    if part.state is AttemptState.ENDED:
        return part
    if part.stop == START_HANGS and news.event is PartEvent.STARTED:
        part = _begun_before_the_stop(part)
    try:
        state = PART_TABLE[part.state, news.event]
    except KeyError:
        raise InvalidTransition(f"part {part.key} is {part.state}, and {news.event.value} comes") from None
    if state is AttemptState.STARTING and part.started is not None:
        state = AttemptState.RUNNING  # an answer from before it began
    stop = GIVEN_UP if news.event is PartEvent.GIVEN_UP else part.stop or _stop_of(news)
    if news.event is PartEvent.EXITED and news.ended_by is not None:
        stop = news.ended_by  # what we wanted meanwhile ended nothing
    if stop and state in (AttemptState.STARTING, AttemptState.RUNNING):
        state = AttemptState.STOPPING
    part = replace(
        part,
        state=state,
        stop=stop,
        pid=news.pid if news.pid is not None else part.pid,
        start_ticks=news.start_ticks if news.start_ticks is not None else part.start_ticks,
        boot_id=news.boot_id or part.boot_id,
        ready=part.ready or news.event is PartEvent.READY,
        lost_since=_lost_since(part, state, news),
        reason=news.reason or ("" if _found_again(part, state) else part.reason),
    )
    if news.event is PartEvent.STARTED and part.started is None:
        part = replace(part, started=news.at)
    return _end_part(part, news) if state is AttemptState.ENDED else part


def _begun_before_the_stop(part: Part) -> Part:
    """Such a stop ends nothing that has begun."""
    state = AttemptState.STARTING if part.state is AttemptState.STOPPING else part.state
    return replace(part, stop="", reason="", state=state)


def _stop_of(news: News) -> str:
    """Why it has to be ended from now on; "" = it need not."""
    if news.event is PartEvent.STOP_WANTED:
        return news.stop
    if news.event in (PartEvent.ORPHANED, PartEvent.STUCK):
        return news.stop or news.event.name
    if news.event is PartEvent.GONE:
        return RUN_DIRECTORY_GONE
    return ""


def _found_again(part: Part, state: AttemptState) -> bool:
    return part.state is AttemptState.LOST and state is not AttemptState.LOST


def _lost_since(part: Part, state: AttemptState, news: News) -> float | None:
    if state is not AttemptState.LOST:
        return None
    return part.lost_since if part.lost_since is not None else news.at


# Stops that come from trouble while the command runs: whatever it exits with then (0 too) is not its own end.
_ENDED_BY_US = {
    PartEvent.ORPHANED.name: FailureClass.SUPERVISOR,
    RUN_DIRECTORY_GONE: FailureClass.SUPERVISOR,
    START_HANGS: FailureClass.NODE_LOST,
}


def _end_part(part: Part, news: News) -> Part:
    failure = news.failure
    if news.event is PartEvent.REBOOTED:
        # a command that never ran can be tried again by anybody
        failure = FailureClass.NODE_LOST if part.started is not None else FailureClass.NODE
    elif news.event is PartEvent.GIVEN_UP:
        failure = FailureClass.NODE_LOST  # that nobody heard it begin is no proof that it did not
    elif news.event is PartEvent.FENCED:
        failure = FailureClass.SUPERVISOR if part.started is not None else FailureClass.STOPPED
    elif news.event is PartEvent.EXITED and failure is FailureClass.NONE:
        failure = _ENDED_BY_US.get(part.stop) or (FailureClass.EXIT if news.exit_code else FailureClass.NONE)
    reason = part.reason or ("its start took too long" if part.stop == START_HANGS else "")
    # an exit that nothing is to be read from needs no collecting
    never_ran = news.event in (PartEvent.FENCED, PartEvent.LAUNCH_FAILED)
    return replace(
        part,
        ended=max(news.at, part.started or 0.0),  # whatever its record says
        exit_code=news.exit_code,
        failure=failure,
        reason=reason,
        collected=part.collected or never_ran,
    )


@dataclass(frozen=True, slots=True)
class Settlement:
    """An attempt after its parts' news, with the conclusions drawn. `notes` are for the audit."""

    job: Job
    attempt: Attempt
    parts: tuple[Part, ...]
    notes: tuple[str, ...] = ()


def settle(
    job: Job, attempt: Attempt, parts: Sequence[Part], now: float, rules: retry.Rules, outlook: retry.Outlook
) -> Settlement:
    """Draw the conclusions upwards; the same input settles to the same output, and settling twice changes nothing."""
    parts = tuple(_spread_stop(job, attempt, parts, now))
    state = attempt_state(parts)
    started = min((part.started for part in parts if part.started is not None), default=None)
    attempt = replace(attempt, state=state, started=attempt.started if attempt.started is not None else started)
    if job.attempt != attempt.number or job.state is not JobState.RUNNING:
        return Settlement(job, attempt, parts)
    if state is not AttemptState.ENDED:
        return Settlement(_running(job, attempt, parts), attempt, parts)
    verdict = retry.judge(job, parts, now, rules, outlook)
    if verdict.state not in JOB_TABLE[job.state]:
        raise InvalidTransition(f"job {job.job_id} is {job.state}, and {verdict.state} comes")
    ended = max((part.ended for part in parts if part.ended is not None), default=now)
    attempt = replace(attempt, ended=ended, exit_code=verdict.exit_code, failure=verdict.failure, reason=verdict.detail)
    job = replace(
        job,
        state=verdict.state,
        reason=verdict.reason,
        detail=verdict.detail,
        exit_code=verdict.exit_code if verdict.state.final else None,
        start_time=attempt.started if attempt.started is not None else job.start_time,
        end_time=ended if verdict.state.final else None,
        not_before=verdict.not_before,
        failures=verdict.failures,
        avoid=verdict.avoid,
    )
    return Settlement(job, attempt, parts, (f"attempt {attempt.number} ended: {verdict.detail or verdict.state}",))


def _running(job: Job, attempt: Attempt, parts: Sequence[Part]) -> Job:
    reason, detail = "", ""
    lost = [part for part in parts if part.state is AttemptState.LOST]
    if lost:
        reason, detail = "ContactLost", f"contact lost with {', '.join(part.node for part in lost)}: {lost[0].reason}"
    elif attempt.state is AttemptState.STOPPING:
        reason, detail = "Stopping", next(part.stop for part in parts if part.stop)
    elif attempt.state is AttemptState.STARTING:
        reason, detail = "Starting", ""
    return replace(job, reason=reason, detail=detail, start_time=attempt.started)


def attempt_state(parts: Sequence[Part]) -> AttemptState:
    """The worst of the parts that live; RUNNING only when every one of them runs."""
    alive = [part.state for part in parts if part.state is not AttemptState.ENDED]
    for state in (AttemptState.LOST, AttemptState.STOPPING, AttemptState.STARTING, AttemptState.RUNNING):
        if state in alive:
            return state
    return AttemptState.ENDED


def _spread_stop(job: Job, attempt: Attempt, parts: Sequence[Part], now: float) -> list[Part]:
    """A wish to end the job reaches every part; so does the end of one part that the others cannot do without."""
    stop = job.stop.split(" ")[0] if job.attempt == attempt.number else ""
    if not stop and len(parts) > 1 and any(_broke(part) for part in parts):
        stop = retry.GANG
    for decided in ("TIMEOUT", REQUEUE):  # on one node, for all of the job
        stop = stop or (decided if any(part.stop == decided for part in parts) else "")
    if not stop:
        return list(parts)
    return [
        part
        if part.stop or part.state is AttemptState.ENDED
        else step_part(part, News(part.key, PartEvent.STOP_WANTED, now, stop=stop))
        for part in parts
    ]


def _broke(part: Part) -> bool:
    return part.state is AttemptState.ENDED and part.failure is not FailureClass.NONE


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


def end_array(array: Job, state: JobState, detail: str, code: int | None, now: float) -> Job:
    """The last of its tasks has ended, and none is to come. `code`: the highest exit code of any."""
    if state not in JOB_TABLE.get(array.state, ()) or array.rest:
        raise InvalidTransition(f"array {array.job_id} is {array.state} with tasks to come: {array.rest or 'none'}")
    return replace(array, state=state, reason="", detail=detail, exit_code=code, end_time=now)


def want_stop(job: Job, why: str) -> Job:
    """The wish is stored with the job and carried out by the master. `why`: `CANCEL by alice`."""
    return job if job.stop else replace(job, stop=why)
