"""Node views: each device has one state and a reason in words; doubt is never free."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mgpu.core.model import DeviceUuid, JobId, NodeName, NodeState
from mgpu.core.observation import GpuProcess, GpuReading, Mark, MarkKind, Node, Observation
from mgpu.core.plan import ExternalPolicy, NodeFacts, NodeHolds, NodeView
from mgpu.core.probe import UNREADABLE_PID
from mgpu.core.views import node_view

NAME = NodeName("gpu01")
FACTS = NodeFacts(NAME)
GPUS = tuple(GpuReading(i, DeviceUuid(f"GPU-{i}"), f"0000:0{i}:00.0", "NVIDIA A100", 81920, 0, 0) for i in range(3))
SEEN = Observation(NAME, 0.0, "boot", "gpu01", GPUS)
DRAINED, SINCE = MarkKind.DRAINED, "2026-12-01T08:00:00Z"
ALICE = GpuProcess(4242, DeviceUuid("GPU-1"), 11264, "alice", "/usr/bin/python train.py", 10800, 4200)


def view(
    *processes: GpuProcess,
    holds: NodeHolds | None = None,
    external: ExternalPolicy | None = None,
    facts: NodeFacts = FACTS,
    node: dict[str, Any] | None = None,
    **observed: Any,
) -> NodeView:
    up = Node(NAME, NodeState.UP, observation=replace(SEEN, processes=processes, **observed))
    return node_view(facts, replace(up, **(node or {})), holds or NodeHolds(), external or ExternalPolicy())


def told(seen: NodeView) -> list[str]:
    return [f"{device.index} {device.state} {device.reason}".strip() for device in seen.devices]


def holds(index: int, job: int = 12, **more: Any) -> NodeHolds:
    return NodeHolds({DeviceUuid(f"GPU-{index}"): JobId(job)}, jobs=1, **more)


def test_nothing_speaks_against_them() -> None:
    seen = view()
    assert (seen.usable, seen.reason) == (True, "")
    assert told(seen) == ["0 free", "1 free", "2 free"]


def test_a_foreign_process_is_named() -> None:
    assert told(view(ALICE))[1] == "1 external external (alice, pid 4242, python, 11 GiB, 3 h)"


def test_what_a_job_left_behind_is_named_as_such() -> None:
    left = replace(ALICE, token="ab" * 16)
    assert told(view(left))[1].startswith("1 external external (left by a job that is over, alice, pid 4242, python")


def test_a_job_that_runs_there_under_the_machines_other_name_is_not_called_over() -> None:
    ours = replace(ALICE, token="ab" * 16)
    holds = NodeHolds(elsewhere={"ab" * 16: (JobId(5), NodeName("gpu02"))})
    said = told(view(ours, holds=holds))[1]
    assert said.startswith("1 external external (job 5 on gpu02, which is this machine too, alice, pid 4242, python")


def test_a_job_on_another_jobs_gpu_is_a_conflict_with_its_number() -> None:
    two = NodeHolds({DeviceUuid("GPU-1"): JobId(5), DeviceUuid("GPU-2"): JobId(7)}, tokens={"t7": JobId(7)}, jobs=2)
    seen = told(view(replace(ALICE, token="t7"), holds=two))[1]
    assert seen.startswith("1 allocated held by job 5; conflict with job 7, outside its allocation, alice, pid 4242")


def test_an_orphan_pid_keeps_its_gpu() -> None:
    orphan = GpuProcess(77, DeviceUuid("GPU-1"), 100, exists=False)
    assert told(view(orphan))[1].startswith("1 external external (orphan pid 77")


@pytest.mark.parametrize(
    "more", [{"tokens": {"t0k": JobId(12)}}, {"sessions": {4200: JobId(12)}}], ids=["by token", "by session"]
)
def test_our_own_process_is_no_conflict(more: dict[str, Any]) -> None:
    mine = replace(ALICE, token="t0k")
    seen = view(mine, holds=holds(1, **more))
    assert told(seen)[1] == "1 allocated held by job 12"
    assert (seen.devices[1].job_id, seen.jobs) == (12, 1)


def test_a_foreign_process_on_a_held_gpu_is_a_conflict() -> None:
    line = "1 allocated held by job 12; conflict with alice, pid 4242, python, 11 GiB, 3 h"
    assert told(view(ALICE, holds=holds(1)))[1] == line


def test_our_process_on_a_gpu_that_its_job_does_not_hold_is_foreign_there() -> None:
    seen = view(ALICE, holds=holds(0, sessions={4200: JobId(12)}))
    assert told(seen)[1].startswith("1 external external (job 12, outside its allocation, alice, pid 4242")


@pytest.mark.parametrize(
    ("policy", "state"),
    [
        (ExternalPolicy(), "external"),
        (ExternalPolicy("ignore"), "free"),
        (ExternalPolicy(ignore=("python",)), "free"),
        (ExternalPolicy(ignore=("pytho", "train.py")), "external"),
        (ExternalPolicy(memory_threshold_mib=11264), "external"),
        (ExternalPolicy(memory_threshold_mib=11265), "free"),
    ],
)
def test_which_processes_count(policy: ExternalPolicy, state: str) -> None:
    assert view(ALICE, external=policy).devices[1].state == state


@pytest.mark.parametrize(
    "process", [replace(ALICE, memory_mib=None), GpuProcess(0, DeviceUuid("GPU-1"), 1)], ids=["memory", "row"]
)
def test_what_is_not_known_is_above_every_threshold(process: GpuProcess) -> None:
    assert view(process, external=ExternalPolicy(memory_threshold_mib=600)).devices[1].state == "external"


def test_how_long_an_orphan_is_one() -> None:
    orphan = GpuProcess(77, DeviceUuid("GPU-1"), 512, exists=False, age_s=300)
    said = "orphan pid 77: nvidia-smi names it, the node has no such process, 512 MiB, since 5 min"
    assert told(view(orphan))[1] == f"1 external external ({said})"


def test_a_slow_nvidia_smi_is_said_and_keeps_nobody_away() -> None:
    slow = view(smi_took_s=12)
    assert (slow.usable, slow.reason.partition(":")[0]) == (True, "slow")
    assert "nvidia-smi takes 12 s" in slow.reason and "nvidia-smi -pm 1" in slow.reason
    assert told(slow) == ["0 free", "1 free", "2 free"]
    assert view(smi_took_s=4).reason == ""


def test_a_node_that_is_to_have_no_gpus_needs_no_nvidia_smi() -> None:
    none = view(gpus=(), fault="nvidia-smi not found", facts=NodeFacts(NAME, gpu_count=0))
    assert (none.usable, none.reason) == (True, "")


def test_faults() -> None:
    broken = (GPUS[0], replace(GPUS[1], fault="GPU is lost"), GPUS[2])
    seen = view(gpus=broken)
    assert told(seen) == ["0 free", "1 unhealthy unhealthy: GPU is lost", "2 free"]
    assert (seen.usable, seen.reason) == (True, "degraded: GPU 0000:01:00.0: GPU is lost")
    assert told(view(gpus=broken, holds=holds(1)))[1] == "1 allocated held by job 12; unhealthy: GPU is lost"


def test_fewer_gpus_than_the_inventory_says() -> None:
    seen = view(facts=NodeFacts(NAME, gpu_count=4))
    assert (seen.usable, seen.reason, seen.expected_gpus) == (True, "degraded: 3 of 4 GPUs seen", 4)
    assert told(seen) == ["0 free", "1 free", "2 free"]


def test_gpus_that_cannot_be_read_leave_the_node_for_jobs_without() -> None:
    seen = view(fault="nvidia-smi hung", holds=holds(2))
    assert (seen.usable, seen.reason) == (True, "nvidia-smi hung")
    unknown = "unknown unknown: nvidia-smi hung"
    assert told(seen) == [f"0 {unknown}", f"1 {unknown}", "2 allocated held by job 12"]


def test_a_held_device_that_is_gone_stays_listed() -> None:
    seen = view(gpus=GPUS[:2], holds=holds(2))
    assert told(seen) == ["0 free", "1 free", "-1 allocated held by job 12; the last probe did not see it"]


def test_only_some_devices_are_ours() -> None:
    facts = NodeFacts(NAME, devices=(0, 1), gpu_type="A100")
    seen = view(facts=facts)
    assert told(seen) == ["0 free", "1 free"]
    assert (seen.expected_gpus, seen.only, seen.devices[0].kind) == (2, (0, 1), "A100")
    lost = GpuReading(None, DeviceUuid(""), "0000:09:00.0", "", fault="lost")
    assert told(view(facts=facts, gpus=(*GPUS, lost))) == ["0 free", "1 free"]
    assert told(view(facts=facts, gpus=(GPUS[0], lost))) == ["0 free", "-1 unhealthy unhealthy: lost"]


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ({"state": NodeState.UNKNOWN}, "not seen yet"),
        ({"state": NodeState.UP, "observation": None}, "not seen yet"),
        (
            {"state": NodeState.DOWN, "reason": "host key unknown, run mgpu node trust gpu01"},
            "node is down: host key unknown, run mgpu node trust gpu01",
        ),
        ({"state": NodeState.UP, "failures": 1, "reason": "no route"}, "does not answer: no route"),
        ({"state": NodeState.DRAINED}, "node is drained"),
        (
            {"state": NodeState.DRAINING, "marks": (Mark(DRAINED, "alice", SINCE, "fan"),)},
            "drained by alice: fan (since 2026-12-01 08:00 UTC)",
        ),
        (
            {"state": NodeState.DRAINED, "marks": (Mark(DRAINED, "al", SINCE),), "failures": 4, "reason": "no route"},
            "drained by al (since 2026-12-01 08:00 UTC); does not answer: no route",
        ),
    ],
)
def test_unusable_nodes_say_why(node: dict[str, Any], reason: str) -> None:
    seen = view(node=node)
    assert (seen.usable, seen.reason) == (False, reason)


def marked(kind: MarkKind, index: int, reason: str, uuid: str = "") -> dict[str, Any]:
    return {"marks": (Mark(kind, "alice", SINCE, reason, DeviceUuid(uuid or f"GPU-{index}")),)}


def test_a_drained_gpu_is_unhealthy_and_keeps_its_job() -> None:
    drained = marked(DRAINED, 1, "fan")
    assert told(view(node=drained))[1] == "1 unhealthy drained by alice: fan (since 2026-12-01 08:00 UTC)"
    assert told(view(ALICE, node=drained))[1].startswith("1 unhealthy drained by alice")
    kept = told(view(node=drained, holds=holds(1)))
    assert kept[1] == "1 allocated held by job 12; drained by alice: fan (since 2026-12-01 08:00 UTC)"
    lost = view(node=drained, holds=holds(1), gpus=GPUS[:1]).devices[-1]
    assert "did not see it; drained by alice: fan" in lost.reason


def test_a_drained_gpu_is_known_by_its_uuid() -> None:
    renumbered = tuple(replace(gpu, index=2 - (gpu.index or 0)) for gpu in GPUS)
    seen = view(node=marked(DRAINED, 0, "fan"), gpus=renumbered)
    assert [device.state for device in seen.devices] == ["free", "free", "unhealthy"]


def test_with_a_gpu_all_that_is_cut_from_it_is_drained() -> None:
    parts = tuple(
        replace(GPUS[0], index=1000 + number, uuid=DeviceUuid(f"MIG-{number}"), parent=GPUS[0].uuid)
        for number in range(2)
    )
    cut = (replace(GPUS[0], mig=True), *GPUS[1:], *parts)
    states = {device.uuid: device.state for device in view(node=marked(DRAINED, 0, "fan"), gpus=cut).devices}
    assert states == {"GPU-1": "free", "GPU-2": "free", "MIG-0": "unhealthy", "MIG-1": "unhealthy"}
    one = view(node=marked(DRAINED, 0, "fan", uuid="MIG-1"), gpus=cut)
    assert [device.state for device in one.devices if device.slice] == ["free", "unhealthy"]


def test_a_suspect_gpu_is_free_and_says_why() -> None:
    seen = view(node=marked(MarkKind.SUSPECT, 2, "jobs 4, 5, 6 failed there"))
    assert told(seen)[2] == "2 free suspect, used last: jobs 4, 5, 6 failed there (since 2026-12-01 08:00 UTC)"
    assert [device.suspect for device in seen.devices] == [False, False, True]


def test_control_characters_of_a_process_stay_out_of_reasons() -> None:
    nasty = replace(ALICE, command="\x1b[31mred\nline x")
    assert view(nasty).devices[1].reason == "external (alice, pid 4242, ?[31mred?line, 11 GiB, 3 h)"


def test_under_an_account_of_its_user_all_of_that_user_is_the_jobs() -> None:
    """Nothing more of it can be read: not its token, and it has left the session."""
    held = holds(1, accounts={DeviceUuid("GPU-1"): "alice"})
    assert told(view(ALICE, holds=held))[1] == "1 allocated held by job 12"
    assert "conflict with bob" in told(view(replace(ALICE, user="bob"), holds=held))[1]
    assert "conflict with alice" in told(view(ALICE, holds=holds(1)))[1]  # under mgpu's own login it could be read
    hidden = GpuProcess(4242, DeviceUuid("GPU-1"), 11264)
    assert told(view(hidden, holds=held))[1] == "1 allocated held by job 12"
    assert "conflict with" in told(view(replace(hidden, pid=UNREADABLE_PID), holds=held))[1]
    elsewhere = replace(ALICE, uuid=DeviceUuid("GPU-2"))
    assert told(view(elsewhere, holds=held))[2].startswith("2 external external (alice, pid 4242")
    of_another = replace(held, sessions={4200: JobId(13)})
    assert "conflict with job 13" in told(view(ALICE, holds=of_another))[1]
