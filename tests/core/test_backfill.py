"""What may start behind a job that does not fit, and what is kept for that job."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from cluster import counted, down, job, node, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st

from mgpu.core.claims import claim_of
from mgpu.core.model import DeviceUuid, JobId, NodeName
from mgpu.core.plan import Backfill, DeviceState, NodeView, PendingJob, Reservation, Running, Snapshot, Start
from mgpu.core.schedule import plan
from mgpu.core.waits import Plan

HOUR = 3600.0


def runs(number: int, until: float, *devices: str) -> Running:
    """`devices`: a0 is GPU 0 of node a."""
    by_node: dict[NodeName, list[DeviceUuid]] = {}
    for device in devices:
        by_node.setdefault(NodeName(device[0]), []).append(DeviceUuid(f"GPU-{device[0]}-{device[1:]}"))
    return Running(JobId(number), until, tuple((name, tuple(uuids)) for name, uuids in by_node.items()))


def waiting(number: int, span_s: float = HOUR, **request: Any) -> PendingJob:
    return job(number, **request)._replace(span_s=span_s)


def planned(nodes: list[NodeView], running: list[Running], *jobs: PendingJob, **more: Any) -> Plan:
    return plan(snapshot(nodes, *jobs, running=tuple(running), **more))


def starts(made: Plan) -> dict[int, list[str]]:
    return {one.job_id: [f"{part.node}{index}" for part in one.parts for index in part.devices] for one in made.starts}


def kept(made: Plan) -> tuple[int, float, list[str]] | None:
    """(job, at, devices) of the reservation; the snapshot is of 1000.0."""
    one = made.reservation
    if one is None:
        return None
    return one.job_id, one.at, [f"{part.node}{index}" for part in one.parts for index in part.devices]


TWO = [node("a", "hh.."), node("b", "hhh.")]
RUNNING = [runs(90, 2000.0, "a0", "a1"), runs(91, 5000.0, "b0", "b1", "b2")]


def test_the_first_that_does_not_fit_gets_devices_and_a_time() -> None:
    made = planned(TWO, RUNNING, waiting(1, gpus=4))
    assert kept(made) == (1, 2000.0, ["a0", "a1", "a2", "a3"])
    assert made.waits[JobId(1)].start == 2000.0
    assert made.waits[JobId(1)].reason == "Resources"
    # what comes back is kept before what is free
    assert kept(planned([node("a", "hh..")], [runs(90, 2000.0, "a0", "a1")], waiting(1, gpus=3))) == (
        1, 2000.0, ["a0", "a1", "a2"],
    )  # fmt: skip


def test_what_would_delay_it_does_not_start() -> None:
    jobs = [waiting(1, gpus=4), waiting(2, 999.0, gpus=2), waiting(3, 1000.0), waiting(4, 1001.0), waiting(5, 9e9)]
    made = planned(TWO, RUNNING, *jobs)
    # 2 is over before; then a3 and b3 go to whoever may have them
    assert starts(made) == {2: ["a2", "a3"], 3: ["b3"]}
    assert {made.waits[JobId(number)].reason for number in (4, 5)} == {"Priority"}
    long_ones = planned(TWO, RUNNING, waiting(1, gpus=4), *(waiting(number, 9e9) for number in (2, 3)))
    assert starts(long_ones) == {2: ["b3"]}
    assert long_ones.waits[JobId(3)].detail == "what it needs is kept for job 1, which is ahead of it"


def test_only_one_is_kept_for() -> None:
    made = planned(TWO, RUNNING, waiting(1, gpus=4), waiting(2, gpus=3, nodelist=("b",)), waiting(3, 9e9))
    assert kept(made) == (1, 2000.0, ["a0", "a1", "a2", "a3"])
    assert starts(made) == {3: ["b3"]}


def test_a_node_alone_is_kept_whole() -> None:
    made = planned([node("a", "h...")], [runs(90, 2000.0, "a0")], waiting(1, exclusive=True), waiting(2, 9e9, gpus=0))
    assert kept(made) == (1, 2000.0, ["a0", "a1", "a2", "a3"])
    assert starts(made) == {}
    short = planned([node("a", "h...")], [runs(90, 2000.0, "a0")], waiting(1, exclusive=True), waiting(2, 9.0, gpus=0))
    assert starts(short) == {2: []}


def test_those_that_started_in_the_same_plan_end_too() -> None:
    made = planned([node("a", "....")], [], waiting(1, 500.0, gpus=3), waiting(2, gpus=4), waiting(3, 501.0))
    assert starts(made) == {1: ["a0", "a1", "a2"]}
    assert kept(made) == (2, 1500.0, ["a0", "a1", "a2", "a3"])


@pytest.mark.parametrize(
    "nodes",
    [
        [node("a", "hx.."), node("b", ".")],  # external
        [node("a", "h!.."), node("b", ".")],  # broken
        [node("a", "h?.."), node("b", ".")],  # not known
        [node("a", "hh.."), node("b", ".")],  # held by one that is out of sight, or by another
        [down("a", "off", "h..."), node("b", ".")],
    ],
)
def test_what_nobody_can_tell_is_kept_for_nobody(nodes: list[NodeView]) -> None:
    made = planned(nodes, [runs(90, 2000.0, "a0")], waiting(1, gpus=4), waiting(2, 9e9))
    assert kept(made) is None
    assert made.waits[JobId(1)].start is None
    assert list(starts(made)) == [2]
    # and the one behind it is the first that can be told a time
    then = planned(nodes[:1], [runs(90, 2000.0, "a0")], waiting(1, gpus=4), waiting(2, gpus=3))
    assert kept(then) == ((2, 2000.0, ["a0", "a2", "a3"]) if nodes[0].usable else None)


def test_in_strict_order_nobody_passes_in_the_same_partition() -> None:
    nodes = [node("a", "hh..", partitions=("p",)), node("b", "hh..", partitions=("q",))]
    running = [runs(90, 2000.0, "a0", "a1"), runs(91, 5000.0, "b0", "b1")]
    jobs = [waiting(1, gpus=4, partition="p"), waiting(2, 9.0, partition="p"), waiting(3, 9.0, partition="q")]
    made = planned(nodes, running, *jobs, backfill=Backfill.NONE)
    assert list(starts(made)) == [3]
    assert made.waits[JobId(2)].detail == "job 1 is ahead of it, and none passes it (scheduling: backfill: none)"
    impossible = planned(
        nodes, [], waiting(1, gpus=4, partition="p"), waiting(2, partition="p"), backfill=Backfill.NONE
    )
    assert list(starts(impossible)) == [2]
    assert list(starts(planned(nodes, running, *jobs, backfill=Backfill.SKIP))) == [2, 3]


# --- what holds for every plan ------------------------------------------------------------------------------------


CORES = st.none() | st.integers(0, 8)
REQUESTS = st.fixed_dictionaries(
    {"gpus": st.integers(0, 6), "exclusive": st.booleans(), "cpus": st.none() | st.none() | st.integers(0, 5)}
)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    nodes, running, number = [], [], 100
    for name in draw(st.sampled_from([["a"], ["a", "b"], ["a", "b", "c"]])):
        letters = draw(st.text("...hhhhx!", min_size=1, max_size=4))
        nodes.append(node(name, letters))
        for index, letter in enumerate(letters):
            if letter == "h" and draw(st.booleans()):
                running.append(runs(number, 1000.0 + draw(st.integers(0, 5)) * 100, f"{name}{index}"))
                number += 1
        held = [one.job_id for one in running if one.parts[0][0] == name]
        nodes[-1] = counted(nodes[-1], draw(CORES), *[(job_id, draw(st.integers(0, 2))) for job_id in held])
    jobs = [waiting(1 + at, draw(st.integers(1, 8)) * 100.0, **draw(REQUESTS)) for at in range(draw(st.integers(1, 6)))]
    return snapshot(nodes, *jobs, running=tuple(running), backfill=draw(st.sampled_from(list(Backfill))))


@st.composite
def crowded(draw: st.DrawFn) -> Snapshot:
    """The first job does not fit, on a node with few cores, and small ones are behind it."""
    held, free = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    running = tuple(runs(100 + at, 1000.0 + draw(st.integers(1, 5)) * 100, f"a{at}") for at in range(held))
    claims = [(one.job_id, draw(st.integers(0, 3))) for one in running]
    view = counted(node("a", "h" * held + "." * free), draw(st.integers(2, 12)), *claims)
    first = waiting(1, gpus=draw(st.integers(free + 1, held + free)), cpus=draw(st.integers(0, 6)))
    others = [
        waiting(at, draw(st.integers(1, 9)) * 100.0, gpus=draw(st.integers(0, 1)), cpus=draw(st.integers(0, 5)))
        for at in range(2, 5)
    ]
    return snapshot([view], first, *others, running=running)


@settings(max_examples=150, deadline=None)
@given(snapshots() | crowded())
def test_no_plan_breaks_what_it_promises(seen: Snapshot) -> None:
    made = plan(seen)
    assert made == plan(seen)
    given_out = Counter(uuid for one in made.starts for part in one.parts for uuid in part.uuids)
    assert not given_out or max(given_out.values()) == 1
    promise = made.reservation
    if promise is None or seen.backfill is not Backfill.EASY:
        return
    span = {one.job_id: one.span_s for batch in seen.batches for one in batch.jobs}
    wanted = {uuid for part in promise.parts for uuid in part.uuids}
    rank = {one.job_id: one.rank for batch in seen.batches for one in batch.jobs}
    for one in made.starts:
        if rank[one.job_id] < rank[promise.job_id]:
            continue  # ahead of it
        late = seen.now + span[one.job_id] > promise.at
        assert not late or not wanted & {uuid for part in one.parts for uuid in part.uuids}
        alone = promise.request.exclusive
        assert not late or not alone or not {p.node for p in one.parts} & {p.node for p in promise.parts}
    for view in seen.nodes:
        check_cores(seen, view, made.starts, promise)
    # and at that time all of it is free
    ends = {uuid: one.until for one in seen.running for _, uuids in one.parts for uuid in uuids}
    ends |= {uuid: seen.now + span[one.job_id] for one in made.starts for p in one.parts for uuid in p.uuids}
    free = {d.uuid for n in seen.nodes for d in n.devices if d.state is DeviceState.FREE}
    for uuid in wanted:
        assert uuid in free - given_out.keys() or ends[uuid] <= promise.at


def check_cores(seen: Snapshot, view: NodeView, made: Sequence[Start], promise: Reservation) -> None:
    """At no time are more cores given out than there are, or than there were already; what is promised among them."""
    if view.there.cpus is None:
        return
    request = {one.job_id: one.request for batch in seen.batches for one in batch.jobs}
    span = {one.job_id: one.span_s for batch in seen.batches for one in batch.jobs}
    until = {one.job_id: one.until for one in seen.running}
    claimed = [(claim.cpus or 0, seen.now, until.get(job_id, math.inf)) for job_id, claim in view.claims]
    before = sum(cpus for cpus, _, _ in claimed)
    for one in made:
        for part in (part for part in one.parts if part.node == view.name):
            claim = claim_of(request[one.job_id], len(part.uuids), view.share)
            claimed.append((claim.cpus or 0, seen.now, seen.now + span[one.job_id]))
    for part in (part for part in promise.parts if part.node == view.name):
        claim = claim_of(promise.request, len(part.uuids), view.share)
        claimed.append((claim.cpus or 0, promise.at, math.inf))
    for at in (seen.now, promise.at):
        given = sum(cpus for cpus, begin, end in claimed if begin <= at < end)
        assert given <= max(view.there.cpus, before), (view.name, at, claimed)
