"""The states of jobs, attempts and nodes, and how one leads to another: tables and pictures, made of the tables that
the master goes by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mgpu.core.lifecycle import JOB_TABLE, NODE_TABLE, PART_TABLE, PartEvent
from mgpu.core.model import AttemptState, JobState, NodeState
from scripts.pages.picture import Arrow, draw
from scripts.pages.table import code, table

OF_JOBS = {
    "PENDING": "waits; `mgpu why` tells for what ([the words](life-of-a-job.md#why-a-job-waits))",
    "RUNNING": "an attempt at it holds GPUs; also while contact with its node is lost (ContactLost)",
    "COMPLETED": "its command ended with exit code 0",
    "FAILED": "its command ended otherwise, or could not be started; OutOfMemory where the kernel says so",
    "CANCELLED": "somebody's word; or, before it began, a dependency that can never be met",
    "TIMEOUT": "its time limit came first",
    "NODE_FAIL": "its node failed, and it is not to be tried again",
}
OF_ATTEMPTS = {
    "STARTING": "its node is told, or is to be told, to start it; only a node that says so makes it anything else",
    "RUNNING": "its command runs",
    "STOPPING": "it is being ended: cancelled, over its time, or after trouble",
    "LOST": "there is no contact with its node: an observation, never a verdict; it keeps its GPUs",
    "ENDED": "nothing of it is left on the node: its GPUs are free",
}
OF_NODES = {
    "UNKNOWN": "not asked yet",
    "UP": "answers; jobs start there",
    "DRAINING": "nothing new starts there, what runs goes on",
    "DRAINED": "and nothing runs there any more",
    "DOWN": "does not answer, again and again (`health.unhealthy_after`)",
}
EVENTS = {
    "begun": "its supervisor lives and prepares",
    "ready": "prepared, waits for the other nodes",
    "started": "the command runs",
    "launch_failed": "the command never ran",
    "exited": "the command ended, and nothing of it is left",
    "fenced": "it never started and never will",
    "rebooted": "the node has another boot id",
    "stop_wanted": "a cancel, a time limit, trouble elsewhere in the gang",
    "unreachable": "no contact",
    "found_absent": "the node answers and has no record of it: the request got lost",
    "gone": "somebody removed its run directory",
    "orphaned": "its supervisor is gone; what is left has to be ended",
    "stuck": "a process of it cannot be killed",
    "given_up": "an operator's word: `mgpu node down`",
}
PAGE = """\
# States

Made of the tables in `mgpu/core/lifecycle`, outside of which nothing changes a state.

## Jobs

![From which state of a job to which](states-of-jobs.svg)

{jobs}
A job that ended is PENDING again when somebody queues it again (`mgpu requeue`).

## Attempts

One numbered try at a job; on several nodes each has a part of its own, in one of the same states. What a node tells, or
that it tells nothing, moves a part along one arrow; the attempt's state follows from its parts, and the job's from the
attempt's. All but ENDED hold GPUs.

![From which state of an attempt to which](states-of-attempts.svg)

{attempts}
What happens to a part, and what it is then (`·`: stays as it is; nothing: cannot happen):

{events}
| event | what is known |
| --- | --- |
{meanings}

## Nodes

![From which state of a node to which](states-of-nodes.svg)

{nodes}
Idle, mixed and allocated are computed from what is held, never stored. Drained, suspect and unhealthy are also states
of single GPUs ([gpus.md](gpus.md)).
"""


def page() -> str:
    return PAGE.format(
        jobs=_states(OF_JOBS, (state.value for state in JobState), JOB_TABLE),
        attempts=table(("state", "meaning"), ((code(state.value), OF_ATTEMPTS[state.value]) for state in AttemptState)),
        events=_events(),
        meanings="\n".join(f"| {code(event.value)} | {EVENTS[event.value]} |" for event in PartEvent),
        nodes=_states(OF_NODES, (state.value for state in NodeState), NODE_TABLE),
    )


def _states(meanings: Mapping[str, str], states: Iterable[str], arrows: Mapping[Any, Iterable[str]]) -> str:
    rows = ((code(each), meanings[each], ", ".join(arrows[each])) for each in states)
    return table(("state", "meaning", "then"), rows)


def _events() -> str:
    before = [state for state in AttemptState if state is not AttemptState.ENDED]

    def cell(state: AttemptState, event: PartEvent) -> str:
        to = next((to for (at, each), to in PART_TABLE.items() if at is state and each is event), None)
        return "" if to is None else "·" if to is state else to.value

    rows = ((code(event.value), *(cell(state, event) for state in before)) for event in PartEvent)
    return table(("event", *(state.value for state in before)), rows)


def pictures() -> dict[str, str]:
    """By file name. Where states stand is chosen by hand, what leads where comes from the tables."""
    again = [state.value for state in JobState if state.final]
    jobs = [Arrow(at.value, to.value) for at, several in JOB_TABLE.items() for to in several if at.value not in again]
    parts = {(at.value, to.value) for (at, _), to in PART_TABLE.items() if at is not to}
    nodes = [Arrow(at.value, to.value) for at, several in NODE_TABLE.items() for to in several]
    return {
        "states-of-jobs.svg": draw(
            {"PENDING": (0, 2), "RUNNING": (1, 2), **{state: (2, row) for row, state in enumerate(again)}}, jobs
        ),
        "states-of-attempts.svg": draw(
            {"STARTING": (0, 1), "RUNNING": (1, 0), "LOST": (1, 2), "STOPPING": (2, 1), "ENDED": (3, 1)},
            [Arrow(*pair) for pair in sorted(parts)],
        ),
        "states-of-nodes.svg": draw(
            {"UNKNOWN": (0, 1), "UP": (1, 0), "DOWN": (1, 2), "DRAINING": (2, 1), "DRAINED": (3, 1)}, nodes
        ),
    }
