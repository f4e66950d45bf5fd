"""Conclusions drawn upwards: from parts to their attempt, from an attempt to its job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mgpu.core import retry
from mgpu.core.errors import InvalidTransition
from mgpu.core.launchers import ends_with_rank_0
from mgpu.core.lifecycle.parts import News, PartEvent, step_part
from mgpu.core.lifecycle.tables import JOB_TABLE
from mgpu.core.model import REQUEUE, Attempt, AttemptState, FailureClass, Job, JobState, Part


@dataclass(frozen=True, slots=True)
class Settlement:
    """An attempt after its parts' news, with the conclusions drawn."""

    job: Job
    attempt: Attempt
    parts: tuple[Part, ...]


def settle(
    job: Job, attempt: Attempt, parts: Sequence[Part], now: float, rules: retry.Rules, given: retry.Given
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
    verdict = retry.judge(job, parts, now, rules, given)
    if verdict.state not in JOB_TABLE[job.state]:
        raise InvalidTransition(f"job {job.job_id} is {job.state}, and {verdict.state} comes")
    ended = max((part.ended for part in parts if part.ended is not None), default=now)
    attempt = replace(attempt, ended=ended, exit_code=verdict.exit_code, failure=verdict.failure, reason=verdict.detail)
    again = verdict.state is JobState.PENDING
    started = attempt.started if attempt.started is not None else job.start_time
    job = replace(
        job,
        state=verdict.state,
        reason=verdict.reason,
        detail=verdict.detail,
        exit_code=verdict.exit_code if verdict.state.final else None,
        start_time=None if again else started,
        end_time=ended if verdict.state.final else None,
        stop="" if again else job.stop,
        not_before=verdict.not_before,
        failures=verdict.failures,
        avoid=verdict.avoid,
    )
    return Settlement(job, attempt, parts)


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
    broken = len(parts) > 1 and any(_broke(part) for part in parts)
    over = ends_with_rank_0(job) and parts[0].state is AttemptState.ENDED
    if not stop and (broken or over):
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
