"""What becomes of a part: `PART_TABLE`, and what news about it changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from mgpu.core.errors import InvalidTransition
from mgpu.core.model import GIVEN_UP, AttemptState, FailureClass, Part, PartKey


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
