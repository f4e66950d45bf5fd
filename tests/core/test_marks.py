"""What an operator says of nodes and GPUs, and what jobs that fail there say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mgpu.core.marks import MOST_STREAKS, Order, after_end, ended_well, failed_quickly, obey
from mgpu.core.model import AttemptState, DeviceUuid, FailureClass, JobId, NodeName, NodeState, Part
from mgpu.core.observation import MarkKind, Node, Observation

NAME, SAID = NodeName("gpu01"), "2026-12-01T08:00:00Z"
UP = Node(NAME, NodeState.UP, since=1.0, observation=Observation(NAME, 5.0, "boot", "gpu01"))
FIVE, SIX = DeviceUuid("GPU-5"), DeviceUuid("GPU-6")


def said(node: Node, drain: bool, *devices: DeviceUuid, by: str = "alice", reason: str = "") -> Node:
    return obey(node, Order(drain, by, SAID, reason, devices), 3, 60.0)


def held(node: Node) -> list[tuple[str, str, str, str]]:
    return [(mark.kind.value, mark.device, mark.by, mark.reason) for mark in node.marks]


def part(job: int, *devices: DeviceUuid, started: float | None = 100.0, ran: float = 1.0, **more: Any) -> Part:
    """It exited with 1."""
    ended = None if started is None else started + ran
    usual = {"state": AttemptState.ENDED, "failure": FailureClass.EXIT, "exit_code": 1, "started": started}
    return Part(JobId(job), 1, 0, NAME, "train", (), devices, **{**usual, "ended": ended, **more})


RUNNING = part(99, SIX, started=50.0, state=AttemptState.RUNNING, failure=FailureClass.NONE, ended=None)


def after(*parts: Part, others: tuple[Part, ...] = (RUNNING,), node: Node = UP) -> Node:
    for each in parts:
        node = after_end(node, each, others, SAID)
    return node


def suspects(node: Node) -> list[DeviceUuid]:
    return [mark.device for mark in node.marks if mark.kind is MarkKind.SUSPECT]


# --- an operator's word ---------------------------------------------------------------------------------------------


def test_a_node_is_drained_and_resumed() -> None:
    drained = said(UP, True, reason="fan")
    assert (drained.state, held(drained)) == (NodeState.DRAINING, [("drained", "", "alice", "fan")])
    resumed = said(drained, False)
    assert resumed == replace(UP, since=60.0)
    assert said(UP, False) == UP


def test_gpus_are_drained_one_by_one_and_the_node_takes_jobs() -> None:
    drained = said(said(UP, True, FIVE, SIX, reason="fan"), True, reason="all of it")
    assert said(said(drained, False), False, SIX) == replace(
        UP, since=60.0, marks=tuple(mark for mark in drained.marks if mark.device == FIVE)
    )


def test_who_drained_first_stays_until_somebody_gives_another_reason() -> None:
    drained = said(UP, True, FIVE, reason="fan")
    assert said(drained, True, FIVE, by="bob") == drained
    again = said(drained, True, FIVE, SIX, by="bob", reason="smoke")
    assert held(again) == [("drained", FIVE, "bob", "smoke"), ("drained", SIX, "bob", "smoke")]


# --- what jobs went through -----------------------------------------------------------------------------------------


def test_three_jobs_that_fail_quickly_in_a_row_make_a_gpu_suspect() -> None:
    two = after(part(1, FIVE), part(2, FIVE, SIX, ran=59.0, stop="LEFTOVER"))
    assert suspects(two) == []
    three = after(part(3, FIVE), node=two)
    assert held(three) == [
        ("suspect", FIVE, "mgpu", "jobs 1, 2, 3 failed there one after the other, each within 60 s, while others ran")
    ]
    assert suspects(after(part(4, FIVE), node=three)) == [FIVE]
    assert held(said(three, False, FIVE)) == []
    assert said(three, False, FIVE).streaks == tuple(each for each in three.streaks if each.device == SIX)


@pytest.mark.parametrize(
    "between",
    [
        part(7, FIVE, failure=FailureClass.NONE, exit_code=0),
        part(7, FIVE, failure=FailureClass.NONE, exit_code=0, stop="LEFTOVER"),
        part(7, FIVE, ran=60.0),
        part(7, FIVE, ran=90.0, stop="CANCEL", exit_code=143),
    ],
    ids=["a success", "a success that left processes", "a long run", "a long run that was cancelled"],
)
def test_one_that_went_well_there_clears_it(between: Part) -> None:
    failed = [part(number, FIVE) for number in (1, 2, 3)]
    assert suspects(after(*failed[:2], between, failed[2])) == []
    cleared = after(*failed, between)
    assert (cleared.marks, cleared.streaks) == ((), ())
    drained = said(after(*failed), True, FIVE)
    assert held(after(between, node=drained)) == [("drained", FIVE, "alice", "")]


@pytest.mark.parametrize(
    "third",
    [
        replace(part(2, FIVE), attempt=2),
        part(3, FIVE, ran=0.5, stop="CANCEL"),
        part(3, FIVE, stop="GANG"),
        part(3, FIVE, stop="OOM", exit_code=137),
        part(3, FIVE, failure=FailureClass.NODE),
        part(3, FIVE, failure=FailureClass.NEWCOMER, started=None),
        part(3, FIVE, failure=FailureClass.NODE_LOST, ran=900.0),
        part(3, SIX),
        part(3),
    ],
    ids=["another attempt", "cancelled", "gang", "memory", "node", "never ran", "reboot", "another GPU", "no GPU"],
)
def test_what_is_not_the_commands_own_end_does_not_count(third: Part) -> None:
    before = after(part(1, FIVE), part(2, FIVE))
    node = after(third, node=before)
    assert suspects(node) == []
    assert suspects(after(part(4, FIVE), node=node)) == [FIVE]


@pytest.mark.parametrize(
    ("others", "suspect"),
    [
        ((), False),
        ((replace(RUNNING, uuids=(FIVE,)),), False),
        ((replace(RUNNING, uuids=()),), False),
        ((replace(RUNNING, started=101.0),), False),  # one more of a flood that fails everywhere
        ((part(98, SIX),), False),
        ((part(98, SIX, failure=FailureClass.NONE, exit_code=0),), True),
        ((part(98, SIX, failure=FailureClass.NONE, exit_code=0, started=20.0),), False),  # long before
    ],
)
def test_only_while_others_run(others: tuple[Part, ...], suspect: bool) -> None:
    node = after(*(part(number, FIVE) for number in (1, 2, 3)), others=others)
    assert bool(suspects(node)) is suspect
    assert suspects(after(part(4, FIVE), node=node)) == [FIVE]


def test_every_end_is_one_or_the_other_or_tells_nothing() -> None:
    for failure in FailureClass:
        for ran in (0.0, 59.9, 60.0, 1000.0):
            each = part(1, FIVE, ran=ran, failure=failure)
            assert not (ended_well(each) and failed_quickly(each))


def test_of_gpus_that_come_and_go_the_latest_are_remembered() -> None:
    """Instances of GPUs are called otherwise each time that they are made."""
    made = [DeviceUuid(f"MIG-{number}") for number in range(2 * MOST_STREAKS)]
    node = UP
    for number, uuid in enumerate(made):
        node = after_end(node, part(number + 1, uuid), [RUNNING], "now")
    assert [streak.device for streak in node.streaks] == made[-MOST_STREAKS:]
