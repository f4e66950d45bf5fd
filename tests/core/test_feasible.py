"""Feasibility: one reason each, and the nearest that is possible."""

from __future__ import annotations

from typing import Any

import pytest
from cluster import A100, down, node

from mgpu.core.ask import ask_for, impossible
from mgpu.core.feasible import examine
from mgpu.core.model import JobId, NodeName, Request
from mgpu.core.plan import NodeView

R3090 = "NVIDIA GeForce RTX 3090"


def pins(**nodes: tuple[int, ...]) -> tuple[tuple[NodeName, tuple[int, ...]], ...]:
    return tuple((NodeName(name), indices) for name, indices in nodes.items())


MIXED = node("a", "....", [A100, A100, R3090, R3090])

REASONS: list[tuple[NodeView, dict[str, Any], str]] = [
    (node("a", "...."), {}, ""),
    (node("a", "...."), {"exclude": ("a",)}, "excluded by the job"),
    (node("a", "...."), {"nodelist": ("b",)}, "not among the nodes asked for"),
    (node("a", "...."), {"partition": "train"}, "not in partition train"),
    (node("a", "....", partitions=("x", "train")), {"partition": "debug,train"}, ""),
    (down("a", "node is down: no route"), {}, "node is down: no route"),
    (node("a", "....", exclusive=JobId(7)), {"gpus": 0}, "job 7 has the node for itself alone"),
    (node("a", "....", jobs=1), {"exclusive": True}, "1 job there, --exclusive needs an empty node"),
    (
        node("a", "..x."),
        {"exclusive": True},
        "--exclusive needs all its GPUs free: GPU 2 external (alice, pid 4242, python, 11 GiB, 3 h)",
    ),
    (node("a", "..!."), {"exclusive": True}, ""),
    (node("a", "", reason="nvidia-smi not found"), {}, "nvidia-smi not found"),
    (node("a", "", reason="nvidia-smi not found"), {"gpus": 0}, ""),
    (node("a", ""), {}, "no GPUs seen there"),
    (node("a", ".."), {"gpu_ids": (0, 5)}, "has no GPU 5 (it has 0,1)"),
    (node("a", "..", R3090), {"gpu_types": ("A100",)}, f"its GPUs are {R3090}, not A100"),
    (node("a", "..", memory_mib=24564), {"gpu_memory_mib": 40960}, "its GPUs have 24 GiB, 40 GiB asked"),
    (node("a", "..", memory_mib=24564), {"gpu_memory_mib": 24576}, ""),
    (node("a", "..", memory_mib=None), {"gpu_memory_mib": 1024}, "GPU memory unknown, 1 GiB asked"),
    (node("a", ".."), {"gpus_per_node": 4}, "has 2 such GPUs, the job needs 4"),
    (MIXED, {"gpus_per_node": 4}, f"its GPUs are of several kinds ({A100}, {R3090}), the job needs 4 of one"),
    (MIXED, {"gpus_per_node": 4, "mixed": True}, ""),
    (
        node("a", "hhx."),
        {"gpus_per_node": 4},
        "4 GPUs, 1 free; GPU 0,1 held by job 12, GPU 2 external (alice, pid 4242, python, 11 GiB, 3 h)",
    ),
    (node("a", "??"), {}, "GPU 0,1 unknown: nvidia-smi hung"),
    (node("a", "h."), {"pins": pins(a=(0,))}, "1 GPU, 0 free; GPU 0 held by job 12"),
    (
        node("a", "h?", reason="nvidia-smi hung"),
        {},
        "2 GPUs, 0 free; GPU 0 held by job 12, GPU 1 unknown: nvidia-smi hung",
    ),
    (node("a", "h.", reason="odd"), {"gpus": 2}, "2 GPUs, 1 free; GPU 0 held by job 12 (odd)"),
    (node("a", "h."), {"pins": pins(a=(1,))}, ""),
]


@pytest.mark.parametrize(("seen", "request_", "reason"), REASONS, ids=[reason or "fits" for *_, reason in REASONS])
def test_one_reason_each(seen: NodeView, request_: dict[str, Any], reason: str) -> None:
    # A second node lets requests be possible that this one cannot meet.
    big = node("big", "........")
    assert examine(seen, ask_for(Request(**request_), [seen, big])).reason == reason


def test_free_devices_come_by_kind() -> None:
    free = examine(MIXED, ask_for(Request(gpus=2), [MIXED])).free
    assert [[device.index for device in devices] for devices in free.values()] == [[0, 1], [2, 3]]
    free = examine(MIXED, ask_for(Request(gpus=3, mixed=True), [MIXED])).free
    assert [[device.index for device in devices] for devices in free.values()] == [[0, 1, 2, 3]]


def test_a_lost_gpu_of_unknown_kind_makes_a_job_wait_and_not_impossible() -> None:
    lost = node("a", "...!")._replace(reason="degraded: 3 of 4 GPUs seen")
    lost = lost._replace(
        devices=(*lost.devices[:3], lost.devices[3]._replace(index=-1, name="", memory_total_mib=None))
    )
    assert impossible(Request(gpus=4), [lost]) == ""
    assert examine(lost, ask_for(Request(gpus=4), [lost])).reason == "4 GPUs, 3 free; GPU ? unhealthy: GPU is lost"
    typed = ask_for(Request(gpus=4, gpu_types=("A100",), gpu_memory_mib=40960), [lost])
    assert typed.impossible == ""
    assert examine(lost, typed).reason == "has 3 such GPUs, the job needs 4 (degraded: 3 of 4 GPUs seen)"
    assert impossible(Request(gpus=5), [lost]) != ""


TWO = [node("a", "...."), node("b", "hh..")]
TWO_KINDS = [node("a", "...."), node("b", "....", R3090, 24564)]
UNSEEN = down("new", "not seen yet")
CUT = node("a", "...")  # GPU 0 is
CUT = CUT._replace(devices=tuple(gpu._replace(index=at) for gpu, at in zip(CUT.devices, (1, 1000, 1001), strict=True)))

IMPOSSIBLE: list[tuple[list[NodeView], dict[str, Any], str]] = [
    (TWO, {}, ""),
    (TWO, {"gpus": 8}, ""),
    (TWO, {"gpus": 9}, "needs 9 GPUs, there are 8: use -G 8"),
    (TWO, {"gpus_per_node": 8}, "no node has 8 GPUs; the largest has 4: use -N 2 --gpus-per-node 4"),
    (TWO, {"gpus_per_node": 9}, "no node has 9 GPUs; the largest has 4: use --gpus-per-node 4"),
    (TWO, {"nodes": 1, "gpus": 6}, "no node has 6 GPUs; the largest has 4: use -N 2 --gpus-per-node 3"),
    (TWO, {"nodes": 3}, "needs 3 nodes, only 2 may be used: use -N 2"),
    (TWO, {"nodes": 3, "gpus": 0}, "needs 3 nodes, only 2 may be used: use -N 2"),
    (TWO, {"nodelist": ("a",), "gpus": 5}, "none of a has 5 GPUs; the largest has 4: use --gpus-per-node 4"),
    (TWO, {"exclude": ("a", "b")}, "no node may be used (a: excluded by the job; b: excluded by the job)"),
    (TWO, {"gpu_ids": (0, 4)}, "--gpu-ids: no node has all of these; a has no GPU 4: its GPUs are 0,1,2,3"),
    (TWO, {"gpu_ids": (4,), "nodelist": ("b",)}, "--gpu-ids: b has no GPU 4: its GPUs are 0,1,2,3"),
    ([node("a", "h"), node("b", "..")], {"gpu_ids": (1,)}, ""),
    (
        [node("a", "."), node("b", "..")],
        {"gpu_ids": (1,), "nodelist": ("a", "b")},
        "--gpu-ids: a has no GPU 1: its GPUs are 0",
    ),
    ([CUT], {"gpu_ids": (0,)}, "--gpu-ids: a has no GPU 0: its GPUs are 1,0.0,0.1"),
    (TWO, {"pins": pins(a=(0, 4))}, f"a: GPU 0,4 asked, it has 0,1,2,3 ({A100})"),
    (TWO, {"gpu_types": ("B200",)}, f"no GPU here is of type B200; the types are: {A100}"),
    (TWO, {"gpu_memory_mib": 204800}, "no GPU has 200 GiB; the largest has 80 GiB: use --gpu-mem 80G"),
    (TWO_KINDS, {"gpus": 8}, "needs 8 GPUs, there are 4 of one kind: use -G 4, or --gpu-type any"),
    (TWO_KINDS, {"gpus": 8, "mixed": True}, ""),
    (TWO_KINDS, {"nodes": 2, "gpus": 8}, "needs 2 nodes with 4 GPUs each, there are 1: use -N 1, or --gpu-type any"),
    (
        TWO_KINDS,
        {"nodelist": ("a", "b")},
        "a,b: only 1 of them with 1 GPU each of one kind: use -w for fewer nodes, or --gpu-type any",
    ),
    (TWO_KINDS, {"pins": pins(a=(0,), b=(0,))}, "the GPUs asked for are of several kinds: add --gpu-type any"),
    (TWO_KINDS, {"pins": pins(a=(0,), b=(0,)), "mixed": True}, ""),
    ([node("a", "")], {"gpus": 0}, ""),
    ([], {}, "no node may be used (the inventory is empty)"),
    # What nobody has seen yet counts, as far as the inventory lets it.
    ([*TWO, UNSEEN], {"gpus_per_node": 16}, ""),
    ([*TWO, UNSEEN], {"gpu_types": ("B200",)}, ""),
    ([*TWO, UNSEEN._replace(expected_gpus=8)], {"gpus_per_node": 8}, ""),
    (
        [*TWO, UNSEEN._replace(expected_gpus=8)],
        {"gpus_per_node": 16},
        # 4 + 4 + 8 cannot be split evenly.
        "no node has 16 GPUs; the largest has 8: use --gpus-per-node 8",
    ),
    ([node("a", "...", expected_gpus=4)], {"gpus": 4}, ""),
    ([node("a", "!!!!")], {"gpus": 4}, ""),
    ([down("a", "node is down", "....")], {"gpus": 4}, ""),
]


@pytest.mark.parametrize(("nodes", "request_", "reason"), IMPOSSIBLE, ids=range(len(IMPOSSIBLE)))
def test_impossible_requests_name_the_nearest(nodes: list[NodeView], request_: dict[str, Any], reason: str) -> None:
    assert impossible(Request(**request_), nodes) == reason


@pytest.mark.parametrize(
    ("gpus", "sizes", "most_parts"),
    [(1, (1,), 1), (4, (4,), 1), (5, (), 2), (8, (), 2)],
)
def test_a_job_is_split_only_if_no_node_could_hold_it(gpus: int, sizes: tuple[int, ...], most_parts: int) -> None:
    # A node of unknown size does not keep the job whole.
    ask = ask_for(Request(gpus=gpus), [*TWO, UNSEEN])
    assert (ask.sizes, ask.most_parts) == (sizes, most_parts)


def test_avoided_nodes_come_back_if_nothing_else_could_do_it() -> None:
    assert ask_for(Request(), TWO, [NodeName("a")]).shunned == {"a"}
    assert ask_for(Request(gpus=8), TWO, [NodeName("a")]).shunned == frozenset()
    assert ask_for(Request(nodelist=(NodeName("a"),)), TWO, [NodeName("a")]).shunned == frozenset()
