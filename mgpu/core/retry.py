"""What an ended attempt means: the job's end, or another try. A decision, not an act: nothing here sleeps or writes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mgpu.core.launchers import ends_with_rank_0
from mgpu.core.launchers.spawning import BROKEN
from mgpu.core.model import (
    GIVEN_UP,
    OUT_OF_MEMORY,
    PORT_IN_USE,
    REQUEUE,
    RESTART,
    FailureClass,
    Job,
    JobKind,
    JobState,
    NodeName,
    Part,
)
from mgpu.core.signals import SIGNALS

LEFTOVER = "LEFTOVER"  # a part's stop: its command has ended by itself, what it left behind has to be ended
GANG = "GANG"  # a part's stop: on another node the job has gone wrong, or is over
APART_S = 2.0  # by so much the times of two nodes may be wrong against each other
_NEVER_RAN = (
    *(FailureClass.NEWCOMER, FailureClass.PORT, FailureClass.NODE, FailureClass.DIRECTORY, FailureClass.NETWORK),
    *(FailureClass.LOGIN, FailureClass.STOPPED),
)
# what the next look shows, if it is still so, and then nothing starts there: it costs no retry
_SEEN_BEFORE_A_START = {FailureClass.NEWCOMER: "Newcomer", FailureClass.LOGIN: "LoginRefused"}
NEWCOMER_PAUSE_S = 5.0  # until the next look at a device that somebody else took


@dataclass(frozen=True, slots=True)
class Rules:
    """`maximum` tries that node trouble may cost; the pause doubles from `backoff_s` up to `backoff_max_s`. `requeues`:
    how often a job may have itself queued again."""

    maximum: int = 5
    backoff_s: float = 10.0
    backoff_max_s: float = 600.0
    requeues: int = 20


@dataclass(frozen=True, slots=True)
class Given:
    """What the judge cannot see from the job: `elsewhere` = some node that has not failed it could take it;
    `own_exits` = attempts that ended by the command's own non-zero exit, this one not counted; `requeues` likewise
    those after which the job had itself queued again, `ports` those whose port was in use; `jitter` in [0, 1)."""

    elsewhere: bool = True
    own_exits: int = 0
    requeues: int = 0
    ports: int = 0
    jitter: float = 0.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """`exit_code` is the attempt's, whether or not the job is tried again."""

    state: JobState
    reason: str
    detail: str
    failure: FailureClass
    exit_code: int | None = None
    not_before: float = 0.0
    failures: int = 0
    avoid: tuple[NodeName, ...] = ()


def judge(job: Job, parts: Sequence[Part], now: float, rules: Rules, given: Given) -> Verdict:
    """A job that is to be ended is not tried again, whatever went wrong meanwhile."""
    if job.stop.startswith(RESTART):
        return _restart(job, parts, now)
    parts = _those_that_count(job, parts)
    verdict = _judge(job, parts, now, rules, given)
    if job.stop and verdict.state is JobState.PENDING:
        return _end(
            job, JobState.CANCELLED, "Cancelled", _cancelled(job, parts), FailureClass.STOPPED, verdict.exit_code
        )
    return verdict


def _restart(job: Job, parts: Sequence[Part], now: float) -> Verdict:
    """Somebody wants it queued again, however it ended here: what it went through counts no more."""
    cause = decisive(parts)
    stopped = any(part.stop == RESTART for part in parts)
    failure = FailureClass.STOPPED if stopped else cause.failure
    detail = f"ended by {job.stop.partition(' by ')[2]} to be queued again"
    return Verdict(JobState.PENDING, "Requeued", detail, failure, cause.exit_code, now)


def _judge(job: Job, parts: Sequence[Part], now: float, rules: Rules, given: Given) -> Verdict:
    """Ordered rules, first match wins."""
    cause = decisive(parts)
    code = cause.exit_code
    if _timed_out(job, parts):
        return _end(job, JobState.TIMEOUT, "TimeLimit", "time limit reached", FailureClass.STOPPED, code)
    if job.stop and any(part.stop and not _by_itself(part) for part in parts):
        return _end(job, JobState.CANCELLED, "Cancelled", _cancelled(job, parts), FailureClass.STOPPED, code)
    if why := _wants_requeue(job, parts, cause):
        return _requeue(job, why, code, now, rules, given)
    refused = [part for part in parts if part.stop == PORT_IN_USE]
    if refused and not given.ports and not job.spec.input:
        in_use = f"{where_exit(refused[0])}: its port was in use there; tried again with another"
        return replace(_again(job, "PortInUse", in_use, FailureClass.PORT, now), exit_code=refused[0].exit_code)
    network = cause.failure is FailureClass.NETWORK  # its reason names both nodes
    where = cause.reason if network else f"on {cause.node}: {cause.reason}"
    if cause.failure in _NEVER_RAN and any(part.started is not None for part in parts):
        cause = replace(cause, failure=FailureClass.NODE_LOST)  # on another node of the job it did
    if cause.failure in _SEEN_BEFORE_A_START:
        pause = NEWCOMER_PAUSE_S * (1 + given.jitter)
        return _again(job, _SEEN_BEFORE_A_START[cause.failure], where, cause.failure, now + pause)
    if cause.failure is FailureClass.PORT:
        pause = NEWCOMER_PAUSE_S * (1 + given.jitter) if given.ports else 0.0
        return _again(job, "PortInUse", where, cause.failure, now + pause)
    if cause.failure in (FailureClass.NODE, FailureClass.DIRECTORY, FailureClass.NETWORK, FailureClass.STOPPED):
        return _launch_failed(job, cause, where, now, rules, given)
    if cause.failure is FailureClass.NODE_LOST:
        if job.spec.kind is JobKind.BATCH and job.spec.requeue and job.failures < rules.maximum:
            return _again(job, "Requeued", where, cause.failure, now, job.failures + 1, cause.node)
        return _end(job, JobState.NODE_FAIL, "NodeFail", where, cause.failure, code)
    if cause.failure is FailureClass.SUPERVISOR:
        return _end(job, JobState.FAILED, "SupervisorKilled", where, cause.failure, code)
    if cause.failure is FailureClass.EXIT:
        return _own_exit(job, cause, now, rules, given)
    return _end(job, JobState.COMPLETED, "", "", FailureClass.NONE, 0)


def _those_that_count(job: Job, parts: Sequence[Part]) -> Sequence[Part]:
    """Where all went well on the node whose end is the job's, nothing counts that came to the others afterwards; but
    what had gone wrong there before does, though its command knows nothing of it."""
    first = parts[0]
    well = first.exit_code == 0 and first.failure is FailureClass.NONE and not first.stop
    if not well or not ends_with_rank_0(job):
        return parts
    return [first, *(part for part in parts[1:] if _broken_before(part, first))]


def _broken_before(part: Part, first: Part) -> bool:
    """What it did was ended by a signal that was not ours, as it tells with its own end; or its node died."""
    if part.failure is FailureClass.EXIT:
        return part.stop == GANG and part.exit_code == BROKEN
    return part.failure is FailureClass.NODE_LOST and (part.ended or 0.0) < (first.ended or 0.0)


def _timed_out(job: Job, parts: Sequence[Part]) -> bool:
    """Whether the limit was reached while all went well. A part that was cut off and ran on until its limit, though the
    job had gone wrong on another node long before, does not count."""
    late = [part for part in parts if part.stop == "TIMEOUT"]
    limit = job.spec.time_limit_s
    if not late or limit is None:
        return bool(late)
    # the limit was not after the end; the time of the start may be told by a clock that we know badly
    at = min(min((part.started or 0.0) + limit, part.ended or math.inf) for part in late)
    others = [part for part in parts if part.stop != "TIMEOUT" and part.failure is not FailureClass.NONE]
    return not any((part.ended or at) + APART_S < at for part in others)


def decisive(parts: Sequence[Part]) -> Part:
    """The part whose end is the job's: the first to go wrong by itself, else the first to go wrong for another reason
    than that another one had, else rank 0."""
    broken = [part for part in parts if part.failure is not FailureClass.NONE]
    by_itself = [part for part in broken if _by_itself(part)]
    own_trouble = [part for part in broken if part.stop != GANG]
    return min(by_itself or own_trouble or broken or parts, key=lambda part: (part.ended or 0.0, part.rank))


def _by_itself(part: Part) -> bool:
    return part.stop in ("", OUT_OF_MEMORY, PORT_IN_USE, REQUEUE, LEFTOVER)


def _wants_requeue(job: Job, parts: Sequence[Part], cause: Part) -> str:
    """Why the job itself wants to be queued again; "" = it does not, or may not."""
    if job.spec.kind is not JobKind.BATCH or not job.spec.requeue:
        return ""
    if any(part.stop == REQUEUE for part in parts):
        return "the job asked for that"
    if cause.failure is FailureClass.EXIT and cause.exit_code in job.spec.requeue_exits:
        return where_exit(cause)
    return ""


def _requeue(job: Job, why: str, code: int | None, now: float, rules: Rules, given: Given) -> Verdict:
    if given.requeues >= rules.requeues:
        detail = f"{why}: to be queued again, but retries.requeues is {rules.requeues}"
        return _end(job, JobState.FAILED, "RequeueLimit", detail, FailureClass.REQUEUED, code)
    return replace(_again(job, "Requeued", f"queued again: {why}", FailureClass.REQUEUED, now), exit_code=code)


def _launch_failed(job: Job, cause: Part, where: str, now: float, rules: Rules, given: Given) -> Verdict:
    """The command never ran, so it may be tried on another node; the one that failed is avoided. A directory that is
    not there comes by no waiting, nor does a way between two nodes: others are asked at once, and then it ends."""
    failures = job.failures + 1
    missing = cause.failure in (FailureClass.DIRECTORY, FailureClass.NETWORK)
    if failures > rules.maximum or (missing and not given.elsewhere):
        before = [name for name in job.avoid if name != cause.node]
        detail = f"{where}; tried before on {', '.join(before)}" if before else where
        return _end(job, JobState.FAILED, "LaunchFailed", detail, cause.failure, None, failures)
    at_once = given.elsewhere and (missing or not job.failures)
    pause = 0.0 if at_once else _backoff(job.failures, rules, given)
    return _again(job, "LaunchFailed", where, cause.failure, now + pause, failures, cause.node)


def _own_exit(job: Job, cause: Part, now: float, rules: Rules, given: Given) -> Verdict:
    if given.own_exits < job.spec.retries:
        pause = _backoff(given.own_exits, rules, given)
        again = _again(job, "Retry", f"{where_exit(cause)}; tried again", cause.failure, now + pause)
        return replace(again, exit_code=cause.exit_code)
    reason = "OutOfMemory" if cause.stop == OUT_OF_MEMORY else "NonZeroExitCode"
    return _end(job, JobState.FAILED, reason, where_exit(cause), cause.failure, cause.exit_code)


def _backoff(earlier: int, rules: Rules, given: Given) -> float:
    pause = min(rules.backoff_max_s, rules.backoff_s * 2.0 ** min(earlier, 30))
    return pause * (0.75 + 0.5 * given.jitter)


def _end(
    job: Job,
    state: JobState,
    reason: str,
    detail: str,
    failure: FailureClass,
    code: int | None,
    failures: int | None = None,
) -> Verdict:
    count = job.failures if failures is None else failures
    return Verdict(state, reason, detail, failure, code, 0.0, count, job.avoid)


def _again(
    job: Job,
    reason: str,
    detail: str,
    failure: FailureClass,
    not_before: float,
    failures: int | None = None,
    avoid: NodeName | None = None,
) -> Verdict:
    nodes = job.avoid if avoid is None or avoid in job.avoid else (*job.avoid, avoid)
    count = job.failures if failures is None else failures
    return Verdict(JobState.PENDING, reason, detail, failure, None, not_before, count, nodes)


def _cancelled(job: Job, parts: Sequence[Part]) -> str:
    _, _, by = job.stop.partition(" by ")
    unproved = [f"on {part.node}: {part.reason}" for part in parts if part.stop == GIVEN_UP]
    return "; ".join((f"cancelled by {by}" if by else "cancelled", *unproved))


def where_exit(part: Part) -> str:
    """How the command ended, in words; the guess about memory is worded as one."""
    code = part.exit_code or 0
    if part.stop == OUT_OF_MEMORY:
        return f"killed by signal 9: out of memory (the kernel says so) on {part.node}"
    if code <= 128 or code - 128 not in SIGNALS:
        return f"exit code {code} on {part.node}"
    guess = ", possibly out of memory" if code == 137 else ""
    return f"killed by signal {code - 128} ({SIGNALS[code - 128]}{guess}) on {part.node}"
