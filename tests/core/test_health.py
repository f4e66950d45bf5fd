"""What probes and their failures mean for a node."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mgpu.core.health import ProbeFailure, drain, ebb, in_contact, next_probe_in, resume, seen, unseen
from mgpu.core.model import NodeName, NodeState
from mgpu.core.observation import Node, Observation

NAME = NodeName("node001")
GOOD = Observation(NAME, 50.0, "boot", "host")
SILENT = ProbeFailure("connection timed out")
LASTING = ProbeFailure("host key unknown", lasting=True)
N = NodeState


def node(state: NodeState, **more: object) -> Node:
    return Node(NAME, state, since=1.0, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "failures", "failure", "after"),
    [
        (N.UNKNOWN, 0, SILENT, N.DOWN),  # never seen: no reason to wait
        (N.UP, 0, SILENT, N.UP),
        (N.UP, 1, SILENT, N.UP),
        (N.UP, 2, SILENT, N.DOWN),
        (N.UP, 0, LASTING, N.DOWN),
        (N.DOWN, 9, SILENT, N.DOWN),
        (N.DRAINING, 9, SILENT, N.DRAINING),
        (N.DRAINED, 9, LASTING, N.DRAINED),
    ],
)
def test_failures(before: NodeState, failures: int, failure: ProbeFailure, after: NodeState) -> None:
    found = unseen(node(before, failures=failures, last_seen=2.0, observation=GOOD), failure, 60.0, 3)
    assert (found.state, found.failures) == (after, failures + 1)
    assert (found.last_seen, found.observation) == (2.0, GOOD)
    assert found.since == (60.0 if after is not before else 1.0)
    assert found.reason == failure.reason


@pytest.mark.parametrize("before", list(NodeState))
def test_a_good_answer_brings_back_what_nobody_drained(before: NodeState) -> None:
    found = seen(node(before, failures=7, reason="no route"), GOOD, 60.0)
    drained = before in (N.DRAINING, N.DRAINED)
    assert found.state is (before if drained else N.UP)
    assert (found.reason, found.failures, found.last_seen, found.observation) == ("", 0, 50.0, GOOD)
    assert found.since == (1.0 if drained or before is N.UP else 60.0)


def test_a_drained_node_is_done_when_its_last_job_is() -> None:
    draining = drain(node(N.UP, observation=GOOD), 60.0)
    assert (draining.state, draining.since) == (N.DRAINING, 60.0)
    assert ebb(draining, 1, 70.0) is draining
    drained = ebb(draining, 0, 70.0)
    assert (drained.state, drained.since) == (N.DRAINED, 70.0)
    assert drain(drained, 80.0) is ebb(drained, 0, 80.0) is drained
    up = node(N.UP)
    assert ebb(up, 0, 80.0) is resume(up, 3, 80.0) is up


@pytest.mark.parametrize(
    ("failures", "observation", "contact", "after"),
    [
        (0, GOOD, True, N.UP),
        (2, GOOD, True, N.UP),
        (3, GOOD, False, N.DOWN),
        (0, None, False, N.UNKNOWN),
        (1, None, False, N.DOWN),
    ],
)
@pytest.mark.parametrize("before", [N.DRAINING, N.DRAINED])
def test_a_resumed_node_is_what_it_would_be_if_nobody_had_drained_it(
    before: NodeState, failures: int, observation: Observation | None, contact: bool, after: NodeState
) -> None:
    drained = node(before, failures=failures, observation=observation)
    assert in_contact(drained, 3) is contact
    assert resume(drained, 3, 60.0) == replace(drained, state=after, since=60.0)


def test_gpus_that_cannot_be_read_are_a_reason_and_no_dead_node() -> None:
    found = seen(node(N.UP), replace(GOOD, fault="nvidia-smi not found"), 60.0)
    assert (found.state, found.reason) == (N.UP, "nvidia-smi not found")


def test_probes_come_soon_after_a_failure_and_then_ever_more_rarely() -> None:
    assert [next_probe_in(node(N.UP), 30.0, jitter) for jitter in (0.0, 0.5)] == [27.0, 30.0]
    slow = node(N.UP, observation=replace(GOOD, smi_took_s=45))
    assert [next_probe_in(slow, heartbeat_s, 0.5) for heartbeat_s in (30.0, 120.0)] == [90.0, 120.0]
    hung = [node(N.UP, observation=replace(GOOD, smi_took_s=45, hangs=count)) for count in range(1, 6)]
    assert [next_probe_in(one, 30.0, 0.5) for one in hung] == [90.0, 180.0, 360.0, 600.0, 600.0]
    assert next_probe_in(node(N.UP, observation=replace(GOOD, hangs=9999)), 900.0, 0.5) == 900.0
    pauses = [next_probe_in(node(N.DOWN, failures=count), 10.0, 0.5) for count in range(1, 9)]
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    assert next_probe_in(node(N.DOWN, failures=10_000), 120.0, 0.5) == 120.0
