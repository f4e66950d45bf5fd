"""What is held against a node or single GPUs of it beside what probes tell. Pure.

*Drained* is an operator's word and ends by one alone. *Suspect* becomes a GPU on which different jobs fail quickly, one
after the other, while others run elsewhere: it is used last, not refused, since the jobs may be to blame as well. A job
that ends well there, or runs for long, clears it. GPUs are known by UUID, so a mark survives that they are renumbered.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from mgpu.core import health
from mgpu.core.model import AttemptState, DeviceUuid, FailureClass, JobId, Part
from mgpu.core.observation import WHOLE, Mark, MarkKind, Node, Streak
from mgpu.core.retry import LEFTOVER

QUICKLY_S = 60.0
IN_A_ROW = 3
MOST_STREAKS = 128  # of a node: more than it has at once, of instances of GPUs that come and go
_BY_ITSELF = ("", LEFTOVER)  # stops of a part whose command ended by itself


# --- an operator's word ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Order:
    """Drain, or else resume: these devices, () = the node. `said`: when, as a Mark's `since`; `uid` and `origin` of who
    it is by, as an Audit's."""

    drain: bool
    by: str
    said: str
    reason: str = ""
    devices: tuple[DeviceUuid, ...] = ()
    uid: int | None = None
    origin: str = ""


def obey(node: Node, order: Order, unhealthy_after: int, now: float) -> Node:
    """Repeating an order changes nothing; to drain again with another reason takes that one."""
    targets = order.devices or (WHOLE,)
    if not order.drain:
        node = _without(node, targets, (MarkKind.DRAINED, MarkKind.SUSPECT))
        return node if order.devices else health.resume(node, unhealthy_after, now)
    given = [each for each in targets if order.reason or node.mark(MarkKind.DRAINED, each) is None]
    drained = tuple(Mark(MarkKind.DRAINED, order.by, order.said, order.reason, each) for each in given)
    marks = tuple(mark for mark in node.marks if mark.kind is not MarkKind.DRAINED or mark.device not in given)
    node = replace(node, marks=marks + drained)
    return node if order.devices else health.drain(node, now)


def _without(node: Node, devices: Iterable[DeviceUuid], kinds: Iterable[MarkKind]) -> Node:
    devices, kinds = tuple(devices), tuple(kinds)
    marks = tuple(mark for mark in node.marks if mark.device not in devices or mark.kind not in kinds)
    streaks = tuple(streak for streak in node.streaks if streak.device not in devices)
    return replace(node, marks=marks, streaks=streaks)


# --- what jobs went through -----------------------------------------------------------------------------------------


def ended_well(part: Part) -> bool:
    """It shows that its GPUs can be used: a success, or a long run, however that ended."""
    if not part.uuids or part.started is None or part.ended is None:
        return False
    if part.failure is FailureClass.NONE:
        return part.stop in _BY_ITSELF
    return part.failure in (FailureClass.EXIT, FailureClass.STOPPED) and part.ended - part.started >= QUICKLY_S


def failed_quickly(part: Part) -> bool:
    """The command went wrong by itself, soon after its start; what others ended tells nothing."""
    if not part.uuids or part.started is None or part.ended is None or part.stop not in _BY_ITSELF:
        return False
    return part.failure is FailureClass.EXIT and part.ended - part.started < QUICKLY_S


def after_end(node: Node, part: Part, others: Iterable[Part], since: str) -> Node:
    """What the end of a part says of the GPUs that it had. `others`: parts that run now or lately ended well."""
    if ended_well(part):
        known = {streak.device for streak in node.streaks} | {mark.device for mark in node.marks}
        spoken_for = known.intersection(part.uuids)
        return _without(node, spoken_for, (MarkKind.SUSPECT,)) if spoken_for else node
    if not failed_quickly(part):
        return node
    others = list(others)
    for uuid in part.uuids:
        node = _failed_on(node, uuid, part, others, since)
    return node


def _failed_on(node: Node, uuid: DeviceUuid, part: Part, others: list[Part], since: str) -> Node:
    before = next((streak.jobs for streak in node.streaks if streak.device == uuid), ())
    if any(job_id == part.job_id for job_id, _ in before):
        return node  # another attempt at it
    jobs = (*before, (part.job_id, part.started or 0.0))[-IN_A_ROW:]
    streaks = (*(streak for streak in node.streaks if streak.device != uuid), Streak(uuid, jobs))[-MOST_STREAKS:]
    node = replace(node, streaks=streaks)
    if len(jobs) < IN_A_ROW or node.mark(MarkKind.SUSPECT, uuid) or not _others_run(others, uuid, jobs):
        return node
    ids = ", ".join(str(job_id) for job_id, _ in jobs)
    reason = f"jobs {ids} failed there one after the other, each within {QUICKLY_S:.0f} s, while others ran"
    return replace(node, marks=(*node.marks, Mark(MarkKind.SUSPECT, "mgpu", since, reason, uuid)))


def _others_run(others: Iterable[Part], uuid: DeviceUuid, jobs: tuple[tuple[JobId, float], ...]) -> bool:
    """On another GPU a job outlasts all of these, or ended well meanwhile: so it is not that everything fails now."""
    failed, first = {job_id for job_id, _ in jobs}, jobs[0][1]
    for part in others:
        if not part.uuids or uuid in part.uuids or part.job_id in failed or part.started is None:
            continue
        if part.state is AttemptState.RUNNING and part.started <= first:
            return True
        if ended_well(part) and (part.ended or 0.0) >= first:
            return True
    return False


# --- in words -------------------------------------------------------------------------------------------------------


def words(mark: Mark) -> str:
    """`drained by alice: new fan (since 2026-12-01 08:00 UTC)`, `suspect: jobs 4, 5, 6 failed ...`"""
    since = f"(since {mark.since[:16].replace('T', ' ')} UTC)"
    if mark.kind is MarkKind.SUSPECT:
        return f"suspect, used last: {mark.reason} {since}"
    return f"drained by {mark.by}: {mark.reason} {since}" if mark.reason else f"drained by {mark.by} {since}"
