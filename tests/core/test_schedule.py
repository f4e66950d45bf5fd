"""Plans: who starts where, why the others wait, and what holds for every plan."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from cluster import LETTERS, counted, down, job, node, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st

from mgpu.core.ask import ask_for
from mgpu.core.feasible import examine
from mgpu.core.memory import Memory
from mgpu.core.model import DeviceUuid, JobId, NodeName
from mgpu.core.plan import Barred, Batch, DeviceState, DeviceView, NodeView, PendingJob, Snapshot, Wait
from mgpu.core.policies import POLICIES, Candidate
from mgpu.core.queue import Queue
from mgpu.core.rooms import alike, offer, room_of
from mgpu.core.schedule import plan
from mgpu.core.waits import Plan

R3090 = "NVIDIA GeForce RTX 3090"


def starts(planned: Plan) -> dict[int, list[str]]:
    """Job -> its parts in rank order, `a:0,1`."""
    return {
        start.job_id: [f"{part.node}:{','.join(map(str, part.devices))}" for part in start.parts]
        for start in planned.starts
    }


def wait(planned: Plan, number: int = 1) -> Wait:
    return planned.waits[JobId(number)]


def pins(*nodes: tuple[str, tuple[int, ...]]) -> tuple[tuple[NodeName, tuple[int, ...]], ...]:
    return tuple((NodeName(name), indices) for name, indices in nodes)


FREE = [node("a", "...."), node("b", "....")]
USED = [node("a", "hhh."), node("b", "h..."), node("c", "....")]

RACKS = [
    node("a", "....", switch="rack1"),
    node("b", "....", switch="rack1"),
    node("c", "....", switch="rack2"),
    node("x", "...."),
    node("d", "....", switch="rack2"),
    node("e", "....", switch="rack1"),
]
CUT = node("a", "...")  # a whole GPU, and two MIG instances
SIZES = [
    CUT._replace(
        devices=(
            CUT.devices[0],
            *(
                one._replace(uuid=DeviceUuid(f"MIG-{at}"), index=at, name="MIG 1g.10gb", memory_total_mib=9984)
                for at, one in zip((1000, 1001), CUT.devices[1:], strict=True)
            ),
        )
    ),
    node("b", "....", R3090, 24564),
    node("c", "hhh."),
]
PLACED: list[tuple[list[NodeView], dict[str, Any], list[str]]] = [
    (FREE, {}, ["a:0"]),
    (USED, {}, ["a:3"]),
    (USED, {"policy": "spread"}, ["c:0"]),
    (USED, {"gpus": 3}, ["b:1,2,3"]),
    (USED, {"gpus": 4}, ["c:0,1,2,3"]),
    (USED, {"gpus": 2, "nodes": 2}, ["a:3", "b:1"]),
    (USED, {"gpus": 2, "nodes": 2, "policy": "spread"}, ["b:1", "c:0"]),
    (USED, {"gpus": 5, "nodes": 2}, ["b:1,2,3", "c:0,1"]),
    (USED, {"gpus": 7}, ["b:1,2,3", "c:0,1,2,3"]),
    (USED, {"gpus": 5}, ["a:3", "c:0,1,2,3"]),
    (USED, {"gpus": 6}, ["b:1,2", "c:0,1,2,3"]),
    (USED, {"nodelist": ("c", "a")}, ["c:0", "a:3"]),
    (USED, {"nodelist": ("a", "c"), "gpus": 3}, ["a:3", "c:0,1"]),
    (USED, {"exclude": ("a",)}, ["b:1"]),
    (USED, {"gpu_ids": (2, 1)}, ["b:2,1"]),
    (USED, {"pins": pins(("c", (3, 0)), ("b", (2,)))}, ["c:3,0", "b:2"]),
    (USED, {"exclusive": True}, ["c:0,1,2,3"]),
    (USED, {"gpus": 0}, ["c:"]),
    (USED, {"gpus": 0, "nodes": 2}, ["a:", "c:"]),
    (USED, {"gpus": 0, "nodelist": ("b", "a")}, ["b:", "a:"]),
    (USED, {"gpus": 0, "exclusive": True}, ["c:"]),
    # All of one kind, even where two kinds together would do.
    ([node("a", "h...", R3090), node("b", "hh.."), node("c", "h...")], {"gpus": 5}, ["b:2,3", "c:1,2,3"]),
    ([node("a", "h...", R3090), node("b", "hhh.")], {"gpus": 4, "nodes": 2, "mixed": True}, []),
    ([node("a", "..", R3090), node("b", "..")], {"nodes": 2, "mixed": True}, ["a:0", "b:0"]),
    ([node("a", "..!x?.")], {"gpus": 3}, ["a:0,1,5"]),
    ([down("a", "off", "...."), node("b", "....")], {}, ["b:0"]),
    # Suspect GPUs come last: within a node, and a node with them after others.
    ([node("a", "s...")], {}, ["a:1"]),
    ([node("a", "s.s.")], {"gpus": 3}, ["a:0,1,3"]),
    ([node("a", "ss")], {}, ["a:0"]),
    ([node("a", "hhhs"), node("b", "....")], {}, ["b:0"]),
    ([node("a", "hhhs"), node("b", "....")], {"policy": "spread"}, ["b:0"]),
    ([node("a", "hhhs"), node("b", "hhhh")], {}, ["a:3"]),
    ([node("a", "s..."), node("b", "hh..")], {"gpus": 4}, ["a:0,1,2,3"]),
    ([node("a", "s..."), node("b", "....")], {"gpus": 6}, ["a:1,2", "b:0,1,2,3"]),
    ([node("a", "s..."), node("b", "....")], {"exclusive": True}, ["b:0,1,2,3"]),
    ([node("a", "s...")], {"exclusive": True}, ["a:0,1,2,3"]),
    ([node("a", "s...")], {"gpu_ids": (1, 0)}, ["a:1,0"]),
    ([node("a", "s..."), node("b", "....")], {"pins": pins(("a", (0,)))}, ["a:0"]),
    ([node("a", "s...")], {"gpus": 0}, ["a:"]),
    # Who asks for memory gets the smallest that suffice; what another driver shows of the same card is no difference.
    (SIZES, {}, ["a:0"]),
    (SIZES, {"gpu_memory_mib": 9 * 1024}, ["a:1000"]),
    (SIZES, {"gpu_memory_mib": 9 * 1024, "policy": "spread"}, ["a:1000"]),
    (SIZES, {"gpu_memory_mib": 9 * 1024, "gpus": 2}, ["a:1000,1001"]),
    (SIZES, {"gpu_memory_mib": 9 * 1024, "gpus": 3}, ["b:0,1,2"]),
    (SIZES, {"gpu_memory_mib": 9 * 1024, "gpus": 3, "mixed": True}, ["b:0,1,2"]),
    (SIZES[:1], {"gpu_memory_mib": 9 * 1024, "gpus": 2, "mixed": True}, ["a:1000,1001"]),
    (SIZES, {"gpu_memory_mib": 12 * 1024}, ["b:0"]),
    (SIZES, {"gpu_memory_mib": 40 * 1024}, ["a:0"]),
    (SIZES, {"gpu_memory_mib": 9 * 1024, "nodelist": (NodeName("c"),)}, ["c:3"]),
    ([node("a", "....", memory_mib=24564), node("b", "hhh.", memory_mib=24576)], {"gpu_memory_mib": 9 * 1024}, ["b:3"]),
    ([*FREE, node("c", "....", memory_mib=40960)], {"gpu_memory_mib": 9 * 1024, "gpus": 6}, ["a:0,1", "c:0,1,2,3"]),
    # Several parts at one switch, that with least free; across switches only where none has room.
    (RACKS, {"gpus": 8}, ["c:0,1,2,3", "d:0,1,2,3"]),
    (RACKS, {"gpus": 4, "nodes": 2}, ["c:0,1", "d:0,1"]),
    (RACKS, {"gpus": 12}, ["a:0,1,2,3", "b:0,1,2,3", "e:0,1,2,3"]),
    (RACKS, {"gpus": 16}, ["a:0,1,2,3", "b:0,1,2,3", "c:0,1,2,3", "e:0,1,2,3"]),
    (RACKS, {"gpus": 4, "nodes": 2, "policy": "spread"}, ["c:0,1", "d:0,1"]),
    (RACKS, {"nodelist": ("a", "c")}, ["a:0", "c:0"]),
    (RACKS, {}, ["a:0"]),
]


@pytest.mark.parametrize(("nodes", "request_", "parts"), PLACED, ids=range(len(PLACED)))
def test_where_a_job_starts(nodes: list[NodeView], request_: dict[str, Any], parts: list[str]) -> None:
    assert starts(plan(snapshot(nodes, job(1, **request_)))).get(1, []) == parts


def test_a_wide_job_takes_no_more_nodes_than_the_inventory_makes_necessary() -> None:
    scattered = [node(name, "hh..") for name in "abc"]
    assert wait(plan(snapshot(scattered, job(1, gpus=6)))).detail == (
        "needs 6 free GPUs on 2 nodes at the same time; 6 of 12 GPUs are free"
    )
    assert starts(plan(snapshot(scattered, job(1, gpus=6, nodes=3))))[1] == ["a:2,3", "b:2,3", "c:2,3"]


def test_order_and_what_earlier_starts_took() -> None:
    jobs = [job(1, gpus=3), job(2, gpus=2), job(3, gpus=4, priority=5), job(4), job(5)]
    planned = plan(snapshot(FREE, *jobs))
    assert starts(planned) == {3: ["a:0,1,2,3"], 1: ["b:0,1,2"], 4: ["b:3"]}
    assert {number: w.reason for number, w in planned.waits.items()} == {2: "Priority", 5: "Priority"}


def test_an_exclusive_start_closes_the_node_to_later_ones() -> None:
    planned = plan(snapshot([node("a", "")], job(1, gpus=0, exclusive=True), job(2, gpus=0)))
    assert starts(planned) == {1: ["a:"]}
    assert wait(planned, 2).nodes == (("a", "job 1 has the node for itself alone"),)


WAITS: list[tuple[list[NodeView], dict[str, Any], str, str]] = [
    (USED, {"not_before": 1042.0}, "BeginTime", "may start in 42 s at the earliest"),
    (USED, {"not_before": 91000.0}, "BeginTime", "may start in 1-01:00:00 at the earliest"),
    (USED, {"not_before": 1042.0, "failures": 2}, "Backoff", "tried again in 42 s, after 2 failed tries"),
    (USED, {"gpus": 4, "exclude": ("c",)}, "Resources", "needs 4 free GPUs on one node; 4 of 8 GPUs are free"),
    (
        USED,
        {"nodes": 3, "gpus": 6},
        "Resources",
        "needs 3 nodes with free GPUs (2 each) at the same time; 8 of 12 GPUs",
    ),
    (USED, {"pins": pins(("a", (0,)))}, "Resources", "a: 1 GPU, 0 free; GPU 0 held by job 12"),
    (USED, {"gpus": 13}, "BadConstraints", "needs 13 GPUs, there are 12: use -G 12"),
    (USED, {"policy": "mine"}, "PolicyError", "policy mine failed: not known"),
    ([down("a", "no route", "....")], {}, "NodeDown", "a: no route"),
    (
        [*(down(f"a{number}", "fans", "....") for number in range(9)), down("b", "dust", "....")],
        {},
        "NodeDown",
        "too few nodes that could do it are usable: a[0-8]: fans; b: dust",
    ),
    ([down("a", "fans", "....", barred=Barred.DRAINED)], {}, "NodeDrained", "a: fans"),
    ([down("a", "fans", "....", barred=Barred.MAINTENANCE)], {}, "Maintenance", "a: fans"),
    (
        [down("a", "fans", "....", barred=Barred.MAINTENANCE), down("b", "dust", "....", barred=Barred.DRAINED)],
        {},
        "NodeDrained",
        "too few nodes that could do it are usable: a: fans; b: dust",
    ),
    (
        [down("a", "off", "...."), node("b", "..")],
        {"gpus": 4},
        "NodeDown",
        "too few nodes that could do it are usable: a: off",
    ),
    ([down("a", "off", "...."), node("b", "....")], {"nodelist": ("b", "a")}, "ReqNodeNotAvail", "a: off"),
    ([node("a", "", reason="nvidia-smi not found")], {}, "GpusUnknown", "a: nvidia-smi not found"),
    ([node("a", "??", reason="hung"), node("b", "....")], {"nodelist": ("a",)}, "ReqNodeNotAvail", "a: hung"),
    ([node("a", "??")], {"nodelist": ("a",)}, "ReqNodeNotAvail", "a: GPU 0,1 unknown: nvidia-smi hung"),
]


@pytest.mark.parametrize(("nodes", "asked", "reason", "detail"), WAITS, ids=range(len(WAITS)))
def test_why_a_job_waits(nodes: list[NodeView], asked: dict[str, Any], reason: str, detail: str) -> None:
    planned = wait(plan(snapshot(nodes, job(1, **asked))))
    assert planned.reason == reason
    assert detail in planned.detail
    assert "\n" not in planned.detail


def test_a_waiting_job_has_a_reason_per_node_in_the_inventorys_order() -> None:
    nodes = [node("b", "h..."), node("a", "...."), down("c", "node is down: no route")]
    planned = wait(plan(snapshot(nodes, job(1, gpus=8, nodes=2))))
    assert planned.nodes == (
        ("b", "4 GPUs, 3 free; GPU 0 held by job 12"),
        ("a", "could take a part, but not all of the job fits"),
        ("c", "node is down: no route"),
    )


def test_avoided_nodes_are_the_last_resort() -> None:
    avoid = (NodeName("a"),)
    assert starts(plan(snapshot(FREE, job(1, avoid=avoid))))[1] == ["b:0"]
    full = [node("a", "...."), node("b", "hhhh")]
    assert wait(plan(snapshot(full, job(1, avoid=avoid)))).nodes[0] == (
        "a",
        "avoided: an attempt of this job failed there",
    )
    assert starts(plan(snapshot(FREE, job(1, gpus=8, avoid=avoid))))[1] == ["a:0,1,2,3", "b:0,1,2,3"]
    assert starts(plan(snapshot(FREE, job(1, pins=pins(("a", (1,))), avoid=avoid))))[1] == ["a:1"]


def broken(need: int, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
    raise KeyError("rack")


def last(need: int, candidates: Sequence[Candidate]) -> Sequence[Candidate]:
    return candidates[::-1]


def test_a_sites_own_policy() -> None:
    policies = {**POLICIES, "broken": broken, "last": last}
    jobs = [job(1, policy="broken"), job(2, policy="broken"), job(3), job(4, policy="spread")]
    planned = plan(snapshot(FREE, *jobs, default_policy="last"), policies)
    assert starts(planned) == {3: ["b:0"], 4: ["a:0"]}
    assert {number: (w.reason, w.detail) for number, w in planned.waits.items()} == dict.fromkeys(
        (1, 2), ("PolicyError", "policy broken failed: KeyError: 'rack'")
    )


# --- what holds for every plan --------------------------------------------------------------------------------------

NAMES = [NodeName(name) for name in "abcd"]
NODES = st.lists(
    st.builds(
        lambda *row: row,
        st.text("".join(LETTERS) + "...", max_size=5),
        st.sampled_from([R3090, "NVIDIA A100-SXM4-80GB"]),
        st.sampled_from([True, True, True, False]),
        st.integers(0, 2),
        st.sampled_from([None, None, 8, 3]),
    ),
    max_size=4,
).map(
    lambda rows: [
        counted(node(name, g, m, usable=u, jobs=j), c, (12, j))
        for name, (g, m, u, j, c) in zip(NAMES, rows, strict=False)
    ]
)
SMALL = st.none() | st.integers(0, 6)
COUNT = st.none() | st.integers(1, 3)
SOME = st.lists(st.sampled_from(NAMES), max_size=2, unique=True).map(tuple)
REQUESTS = st.one_of(
    st.fixed_dictionaries({"gpus": SMALL, "mixed": st.booleans(), "exclusive": st.booleans(), "exclude": SOME}),
    st.fixed_dictionaries({"nodes": COUNT, "gpus_per_node": SMALL, "policy": st.sampled_from(["", "spread"])}),
    st.fixed_dictionaries({"nodelist": SOME, "gpu_types": st.sampled_from([(), ("A100",), ("3090", "A100")])}),
    st.fixed_dictionaries({"gpu_ids": st.sampled_from([(0,), (1, 0)]), "nodes": COUNT}),
    st.fixed_dictionaries({"gpus": SMALL, "nodes": COUNT, "cpus": SMALL, "mixed": st.booleans()}),
    st.fixed_dictionaries({"pins": st.sampled_from([pins(("a", (0, 1))), pins(("b", (1,)), ("a", (0,)))])}),
)
JOBS = st.lists(st.tuples(REQUESTS, st.integers(0, 2), st.sampled_from([0.0, 2000.0]), SOME), max_size=8).map(
    lambda rows: [job(i + 1, **r, priority=p, not_before=t, avoid=a) for i, (r, p, t, a) in enumerate(rows)]
)
SNAPSHOTS = st.builds(lambda nodes, jobs: snapshot(nodes, *jobs), NODES, JOBS)


def pending_of(seen: Snapshot) -> list[PendingJob]:
    return [*(pending for batch in seen.batches for pending in batch.jobs), *seen.later]


@settings(max_examples=60, deadline=None)
@given(SNAPSHOTS)
def test_every_plan(seen: Snapshot) -> None:
    planned = plan(seen)
    assert planned == plan(seen)
    answered = [start.job_id for start in planned.starts] + list(planned.waits)
    assert sorted(answered) == sorted(pending.job_id for pending in pending_of(seen))
    assert all(w.reason and w.detail for w in planned.waits.values())
    free = {d.uuid for n in seen.nodes if n.usable for d in n.devices if d.state is DeviceState.FREE}
    taken = [uuid for start in planned.starts for part in start.parts for uuid in part.uuids]
    assert len(taken) == len(set(taken))
    assert free.issuperset(taken)
    for start in planned.starts:
        check_start(seen, start.job_id, [(p.rank, p.node, p.devices, p.uuids) for p in start.parts])


@settings(max_examples=60, deadline=None)
@given(st.lists(SNAPSHOTS, min_size=2, max_size=4))
def test_a_memory_changes_nothing(seen: list[Snapshot]) -> None:
    memory = Memory()
    for one in [*seen, seen[-1], *seen]:
        assert plan(one, memory=memory) == plan(one)


@settings(max_examples=60, deadline=None)
@given(SNAPSHOTS, st.data())
def test_a_memory_changes_nothing_when_a_node_changes(seen: Snapshot, data: st.DataObject) -> None:
    memory = Memory()
    for _ in range(3):
        assert plan(seen, memory=memory) == plan(seen)
        if not seen.nodes:
            return
        at = data.draw(st.integers(0, len(seen.nodes) - 1))
        state = data.draw(st.sampled_from([DeviceState.FREE, DeviceState.ALLOCATED, DeviceState.UNKNOWN]))
        devices = tuple(device._replace(state=state, reason="x") for device in seen.nodes[at].devices)
        changed = seen.nodes[at]._replace(usable=data.draw(st.booleans()), devices=devices)
        seen = replace(seen, nodes=(*seen.nodes[:at], changed, *seen.nodes[at + 1 :]))


def test_a_memory_keeps_nothing_of_jobs_that_wait_no_longer() -> None:
    """Whose queue changes with every plan, as many batches are made as plans."""
    memory, seen = Memory(), snapshot(USED)
    queue = Queue(job(number, gpus=8) for number in range(1, 100))

    def kept() -> int:
        return sum(isinstance(one, Batch) for one in gc.get_objects())

    before = kept()
    for number in range(1, 100):
        plan(replace(seen, batches=queue.at(0.0)[0]), memory=memory)
        queue.drop(JobId(number))
    gc.collect()
    assert kept() - before <= 2


@settings(max_examples=60, deadline=None)
@given(SNAPSHOTS)
def test_the_planner_and_the_words_agree(seen: Snapshot) -> None:
    """What `offer` gives is what `examine` finds, for each node and request."""
    for pending in pending_of(seen):
        ask = ask_for(pending.request, seen.nodes, pending.avoid)
        allowed = [view.name for view in seen.nodes if not ask.ruled_out(view)]
        for view in seen.nodes:
            verdict = examine(view, ask)
            assert offer(room_of(view, alike(view)), ask, allowed) == verdict.free
            assert offer(room_of(view, None), ask, allowed) == verdict.free


def check_start(seen: Snapshot, number: JobId, parts: list[tuple[int, NodeName, tuple[int, ...], Any]]) -> None:
    request = next(pending.request for pending in pending_of(seen) if pending.job_id == number)
    views = {view.name: view for view in seen.nodes}
    devices = [device for _, name, _, uuids in parts for device in views[name].devices if device.uuid in uuids]
    nodes = [name for _, name, _, _ in parts]
    assert [rank for rank, *_ in parts] == list(range(len(parts)))
    assert len(nodes) == len(set(nodes))
    assert all(views[name].usable for name in nodes)
    assert not set(nodes) & set(request.exclude)
    assert request.mixed or len({device.name for device in devices}) <= 1
    if request.pins:
        assert [(name, indices) for _, name, indices, _ in parts] == list(request.pins)
    elif request.nodelist:
        assert nodes == list(request.nodelist)
    if request.exclusive:
        assert all(views[name].jobs == 0 for name in nodes)
    elif request.gpus is not None:
        assert len(devices) == request.gpus


def all_free(view: NodeView) -> tuple[DeviceView, ...]:
    return tuple(device._replace(state=DeviceState.FREE) for device in view.devices)


@settings(max_examples=40, deadline=None)
@given(SNAPSHOTS)
def test_more_free_gpus_never_stop_the_first_job(seen: Snapshot) -> None:
    """What starts alone also starts when every node is idle and up."""
    for pending in pending_of(seen):
        alone = snapshot(list(seen.nodes), pending._replace(avoid=()))
        idle = tuple(n._replace(usable=True, jobs=0, claims=(), devices=all_free(n)) for n in seen.nodes)
        if plan(alone).starts:
            assert plan(replace(alone, nodes=idle)).starts


def test_ten_thousand_equal_jobs_share_one_answer() -> None:
    planned = plan(snapshot([node("a", "hhhh")], *(job(number, gpus=2) for number in range(1, 10001))))
    assert len(planned.waits) == 10000
    assert len({id(w) for w in planned.waits.values()}) == 1
