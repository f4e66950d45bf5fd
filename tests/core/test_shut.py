"""Nodes that are shut to some, since their account there cannot be entered."""

from __future__ import annotations

from dataclasses import replace

from mgpu.core.memory import Memory
from mgpu.core.model import JobId, NodeName
from mgpu.core.outlook import expected_starts
from mgpu.core.plan import Barred, Closed, NodeView, Owner, Running, Shut
from mgpu.core.schedule import plan
from mgpu.core.waits import Plan
from tests.core.cluster import job, node, snapshot

WHY = "ann is not enrolled: ann runs `mgpu enroll` once"
ANN, BOB = Owner("ann"), Owner("bob")


def planned(nodes: list[NodeView], closed: dict[Owner, list[str]], *wanted: tuple[Owner, int], **more: object) -> Plan:
    """`wanted`: whose job, and of how many GPUs, in the order of the queue."""
    jobs = [job(number, gpus=gpus)._replace(owner=owner, span_s=60.0) for number, (owner, gpus) in enumerate(wanted, 1)]
    seen = replace(snapshot(nodes, *jobs), **more)  # type: ignore[arg-type]
    shut: dict[Owner | None, Closed] = {
        owner: tuple([(NodeName(name), Shut(WHY, Barred.LOGIN)) for name in names]) for owner, names in closed.items()
    }
    batches = tuple([batch._replace(closed=shut.get(batch.owner, ())) for batch in seen.batches])
    return plan(replace(seen, batches=batches), memory=Memory())


def test_it_goes_where_it_may_and_others_are_not_kept_away() -> None:
    told = planned([node("a", "."), node("b", ".")], {ANN: ["a"]}, (ANN, 1), (BOB, 1))
    assert {start.job_id: start.parts[0].node for start in told.starts} == {1: "b", 2: "a"}


def test_the_reason_is_said_with_its_nodes() -> None:
    told = planned([node("a", "."), node("b", ".")], {ANN: ["a", "b"]}, (ANN, 1), (BOB, 1))
    wait = told.waits[JobId(1)]
    assert wait.reason == "LoginRefused"
    assert wait.detail == f"too few nodes that could do it are usable: a,b: {WHY}" or f"[a-b]: {WHY}" in wait.detail
    assert wait.nodes == (("a", WHY), ("b", WHY))
    assert [start.job_id for start in told.starts] == [2]


def test_nothing_is_kept_free_for_who_cannot_come_in() -> None:
    """With a reservation on the node for the first, the second, which runs longer, would have to wait."""
    running = (Running(JobId(9), 1030.0, ((NodeName("a"), (node("a", "h").devices[0].uuid,)),)),)
    shut = planned([node("a", "h.")], {ANN: ["a"]}, (ANN, 2), (BOB, 1), running=running)
    assert [start.job_id for start in shut.starts] == [2]
    open_ = planned([node("a", "h.")], {}, (ANN, 2), (BOB, 1), running=running)
    assert open_.starts == ()


def test_one_that_could_start_where_it_is_shut_out_is_told_that_and_not_that_gpus_are_missing() -> None:
    told = planned([node("a", "h"), node("c", "."), node("b", ".")], {ANN: ["b", "c"]}, (ANN, 1))
    assert told.waits[JobId(1)].reason == "LoginRefused"
    assert told.waits[JobId(1)].detail == f"what is free is shut to it: [b-c]: {WHY}".replace("[b-c]", "b,c")
    full = planned([node("a", "h"), node("b", "h")], {ANN: ["b"]}, (ANN, 1))
    assert full.waits[JobId(1)].reason == "Resources"


def test_no_start_is_promised_on_what_is_shut() -> None:
    wanted = job(1, gpus=1)._replace(owner=ANN, span_s=60.0)
    seen = snapshot([node("a", "."), node("b", "h")], wanted)
    shut = ((NodeName("a"), Shut(WHY, Barred.LOGIN)),)
    closed = replace(seen, batches=tuple([batch._replace(closed=shut) for batch in seen.batches]))
    assert expected_starts(seen)[JobId(1)].parts[0].node == "a"
    assert expected_starts(closed) == {}
    until = Running(JobId(9), seen.now + 30.0, ((NodeName("b"), (node("b", "h").devices[0].uuid,)),))
    later = expected_starts(replace(closed, running=(until,)))[JobId(1)]
    assert (later.at, later.parts[0].node) == (seen.now + 30.0, "b")
