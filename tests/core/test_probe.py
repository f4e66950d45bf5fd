"""Probes: rows and errors as nvidia-smi mixes them. Nothing that cannot be read may look free."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgpu.core.model import DeviceUuid, JobId, NodeName, NodeState
from mgpu.core.observation import Mark, MarkKind, Node, Observation, RawProbe
from mgpu.core.plan import DeviceState as S
from mgpu.core.plan import ExternalPolicy, NodeFacts, NodeHolds
from mgpu.core.probe import parse_probe, renumbered
from mgpu.core.smi.text import bus_number
from mgpu.core.views import node_view

U0, U1 = "GPU-0a", "GPU-1b"
ROW0 = f"0, {U0}, 00000000:01:00.0, NVIDIA A100-SXM4-80GB, 81920, 4, 0"
ROW1 = f"1, {U1}, 00000000:02:00.0, NVIDIA A100-SXM4-80GB, 81920, 11000, 97"
LOST = (
    "Unable to determine the device handle for GPU1: 0000:02:00.0: GPU is lost.  Reboot the system to recover this GPU"
)
SLOTS = {U0: "00000000:01:00.0", U1: "00000000:02:00.0"}


def pids(*processes: tuple[str, object, object], slots: tuple[str, ...] = tuple(SLOTS.values())) -> str:
    """As `nvidia-smi -q -d PIDS` prints them: (GPU's UUID, pid, memory)."""
    text = "==============NVSMI LOG==============\n\nDriver Version : 580.1\nCUDA Version : 13.0\n\nAttached GPUs : 2\n"
    for slot in slots:
        there = [(pid, memory) for uuid, pid, memory in processes if SLOTS.get(uuid, uuid) == slot]
        text += f"GPU {slot}\n    Processes" + ("\n" if there else "                     : None\n")
        for pid, memory in there:
            text += "        GPU instance ID               : N/A\n        Compute instance ID           : N/A\n"
            text += f"        Process ID                    : {pid}\n            Type                      : C\n"
            text += "            Name                      : /opt/a b/x --f=1,2,3\n"
            text += f"            Used GPU Memory           : {memory}\n\n"
    return text


GOOD = RawProbe(
    "boot",
    "gpu01",
    1002.5,
    0,
    f"{ROW0}\n{ROW1}\n",
    0,
    pids(),
    "",
    smi_path="/usr/bin/nvidia-smi",
    searched="/usr/bin:/bin",
)


def parsed(**changes: object):
    return parse_probe(NodeName("gpu01"), replace(GOOD, **changes), 1000.0)


def states(**changes: object) -> list[tuple[int, S]]:
    up = Node(NodeName("gpu01"), NodeState.UP, observation=parsed(**changes))
    view = node_view(NodeFacts(NodeName("gpu01")), up, NodeHolds(), ExternalPolicy())
    return [(device.index, device.state) for device in view.devices]


def test_a_good_probe() -> None:
    seen = parsed(
        pids_text=pids((U1, 4242, "10990 MiB")), process_text="4242 alice 10800 4200 - python train.py --lr 1\n"
    )
    assert (seen.boot_id, seen.hostname, seen.at, seen.clock_offset_s) == ("boot", "gpu01", 1000.0, 2.5)
    assert [(g.index, g.uuid, g.memory_total_mib, g.memory_used_mib, g.utilization, g.fault) for g in seen.gpus] == [
        (0, U0, 81920, 4, 0, ""),
        (1, U1, 81920, 11000, 97, ""),
    ]
    (process,) = seen.processes
    assert (process.pid, process.uuid, process.memory_mib, process.exists) == (4242, U1, 10990, True)
    assert (process.user, process.age_s, process.session, process.token) == ("alice", 10800, 4200, "")
    assert process.command == "python train.py --lr 1"
    assert (seen.fault, seen.notes) == ("", ())


@pytest.mark.parametrize("status", [0, 6, 15, 255])
def test_a_lost_gpu_among_good_rows(status: int) -> None:
    seen = parsed(gpu_text=f"{ROW0}\n{LOST}\n", gpu_status=status)
    assert [(gpu.index, gpu.bus_id) for gpu in seen.gpus] == [(0, "00000000:01:00.0"), (None, "0000:02:00.0")]
    assert seen.gpus[1].fault == LOST
    assert states(gpu_text=f"{ROW0}\n{LOST}\n", gpu_status=status) == [(0, S.FREE), (-1, S.UNHEALTHY)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (f"{ROW0}\n{ROW1}\n", False),
        (f"{ROW1}\n{ROW0}\n", False),
        ("", False),
        (f"{ROW0}\n{LOST}\n", True),
        (f"{ROW0}\n{ROW1}\n{LOST}\n", True),
        (f"{ROW1}\n", True),  # GPU 0 is not listed, so CUDA calls this one 0
        (f"1, {ROW0[3:]}\n0, {ROW1[3:]}\n", True),  # not in the order of the slots, in which CUDA counts
        (f"{ROW0}\n{ROW0.replace(SLOTS[U0], '[N/A]')}\n", True),
    ],
)
def test_when_an_index_says_no_longer_which_gpu(text: str, wanted: bool) -> None:
    assert renumbered(parsed(gpu_text=text)) is wanted


def test_an_error_line_belongs_to_the_row_with_its_bus_id() -> None:
    assert states(gpu_text=f"{ROW0}\n{ROW1}\n{LOST}\n") == [(0, S.FREE), (1, S.UNHEALTHY)]


@pytest.mark.parametrize("nothing", ["[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", "ERR!", ""])
def test_missing_values_are_harmless_where_we_only_show_them(nothing: str) -> None:
    row = f"0, {U0}, {nothing}, {nothing}, {nothing}, {nothing}, {nothing}"
    (gpu,) = parsed(gpu_text=row, pids_text=pids(slots=(SLOTS[U0],))).gpus
    assert (gpu.fault, gpu.name, gpu.bus_id) == ("", "", "")
    assert (gpu.memory_total_mib, gpu.memory_used_mib, gpu.utilization) == (None, None, None)
    assert states(gpu_text=row, pids_text=pids(slots=(SLOTS[U0],))) == [(0, S.FREE)]


TAIL = "00000000:02:00.0, NVIDIA A100, 81920, 4, 0"


@pytest.mark.parametrize(
    "text",
    ["[N/A]", "N/A", "[Unknown Error]", "ERR!", "", "-", "..", "00000000", "GPU-a b", "GPU-$(id)", f"GPU-{'a' * 300}"],
)
def test_without_a_uuid_a_gpu_is_faulty(text: str) -> None:
    assert states(gpu_text=f"{ROW0}\n1, {text}, {TAIL}") == [(0, S.FREE), (1, S.UNHEALTHY)]
    assert parsed(gpu_text=f"{ROW0}\n1, {text}, {TAIL}").gpus[1].uuid == ""


def test_a_jetson_may_tell_its_uuid_without_a_prefix() -> None:
    (gpu,) = parsed(gpu_text="0, 54a86b5c-1a3c-57a0-b5bb-4c8bf0d1ff3a, [N/A], Orin (nvgpu), [N/A], [N/A], [N/A]").gpus
    assert (gpu.uuid, gpu.fault) == ("54a86b5c-1a3c-57a0-b5bb-4c8bf0d1ff3a", "")


@pytest.mark.parametrize("text", ["[N/A]", "N/A", "[Unknown Error]", "ERR!", "", "-1", "1000"])
def test_without_an_index_a_gpu_is_faulty(text: str) -> None:
    assert states(gpu_text=f"{ROW0}\n{text}, {U1}, {TAIL}") == [(0, S.FREE), (-1, S.UNHEALTHY)]


def test_a_warning_speaks_against_no_gpu() -> None:
    """nvidia-smi ends with 14 then, and says so below whatever it was asked."""
    warning = "WARNING: infoROM is corrupted at gpu 0000:02:00.0"
    told = {"gpu_text": f"{ROW0}\n{ROW1}\n{warning}\n", "pids_text": f"{pids()}{warning}\n"}
    assert states(**told, gpu_status=14, pids_status=14) == [(0, S.FREE), (1, S.FREE)]
    assert parsed(**told).notes == (warning,)


@pytest.mark.parametrize(
    "second",
    [
        f"1, {U1}, 00000000:02:00.0, NVIDIA A100, [GPU is lost], [GPU is lost], [GPU is lost]",
        f"1, {U1}, 00000000:02:00.0, NVIDIA A100, 81920, [GPU requires reset], 0",
        f"1, {U1}, garbage",
        f"1, {U0}, 00000000:02:00.0, NVIDIA A100, 81920, 0, 0",
    ],
)
def test_rows_that_speak_against_a_gpu(second: str) -> None:
    assert (1, S.UNHEALTHY) in states(gpu_text=f"{ROW0}\n{second}")


def test_two_rows_of_one_uuid_are_both_refused() -> None:
    assert states(gpu_text=f"{ROW0}\n{ROW0}") == [(0, S.UNHEALTHY), (0, S.UNHEALTHY)]


def test_a_name_may_hold_commas_and_an_old_driver_omits_the_maker() -> None:
    (gpu,) = parsed(gpu_text=f"3, {U0}, 00000000:01:00.0, ACME, the big one, 81920, 0, 0").gpus
    assert (gpu.index, gpu.name, gpu.memory_total_mib) == (3, "ACME, the big one", 81920)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"gpu_status": 18, "gpu_text": "Failed to initialize NVML: Driver/library version mismatch\nx"},
            "reboot the node",
        ),
        ({"gpu_status": 18, "gpu_text": "Failed to initialize NVML: Unknown Error\n"}, "reboot the node"),
        ({"gpu_status": 6, "gpu_text": "No devices were found\n"}, "finds no GPUs"),
        (
            {"gpu_status": 127, "gpu_text": "", "smi_path": ""},
            "not found: install NVIDIA's driver there, or set nvidia_smi in the inventory (not in PATH=/usr/bin:/bin)",
        ),
        (
            {"gpu_status": 127, "gpu_text": "", "smi_path": "/opt/x/nvidia-smi"},
            "/opt/x/nvidia-smi is not there or cannot be run: see nvidia_smi",
        ),
        ({"gpu_status": 124}, "hung"),
        ({"gpu_status": 137, "gpu_text": ROW0}, "nvidia-smi was ended by SIGKILL"),
        ({"gpu_status": 139, "gpu_text": ROW0}, "SIGSEGV"),
        ({"gpu_status": 153, "gpu_text": ""}, "printed more than 1024 KiB: not its usual output"),
        ({"gpu_text": f"{ROW0}\n" * 45454}, "printed 45454 lines: not its usual output"),
        ({"gpu_text": "\x1b[2J\x07\ufffd\n"}, "(exit status 0): run it on the node (?[2J?"),
        (
            {
                "gpu_status": 9,
                "gpu_text": "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
            },
            "driver",
        ),
        ({"gpu_status": 0, "gpu_text": ""}, "printed nothing"),
        ({"gpu_status": 2, "gpu_text": 'Field "x" is not a valid field to query.'}, "exit status 2"),
        ({"pids_status": 9, "pids_text": ""}, "could not list processes"),
        ({"pids_status": 124, "pids_text": pids()}, "could not list processes"),
        ({"pids_status": 137, "pids_text": pids()}, "could not list processes (was ended by SIGKILL"),
        ({"pids_status": 153, "pids_text": ""}, "could not list processes (printed more than 1024 KiB"),
        ({"pids_text": pids(*[(U1, 7, "9 MiB")] * 5000)}, "could not list processes (far too many)"),
    ],
)
def test_faults_of_the_whole_node(changes: dict[str, object], words: str) -> None:
    seen = parsed(**changes)
    assert words in seen.fault
    assert seen.fault.isprintable()
    assert len(seen.gpus) + len(seen.processes) + len(seen.notes) < 50
    assert not [index for index, state in states(**changes) if state is S.FREE]


@pytest.mark.parametrize(
    ("pid", "memory", "known", "mib"),
    [
        ("4242", "512 MiB", 4242, 512),
        ("4242", "N/A", 4242, None),
        ("4242", "[Insufficient Permissions]", 4242, None),
        ("[N/A]", "512 MiB", 0, 512),
        ("-5", "512 MiB", 0, 512),
    ],
)
def test_a_process_makes_its_gpu_taken(pid: str, memory: str, known: int, mib: int | None) -> None:
    text = pids((U1, pid, memory))
    (process,) = parsed(pids_text=text).processes
    assert (process.pid, process.memory_mib, process.exists) == (known, mib, known == 0)
    assert states(pids_text=text) == [(0, S.FREE), (1, S.EXTERNAL)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rubbish",
        pids(slots=(SLOTS[U0],)),
        pids().replace("None", "N/A", 2).replace("N/A", "None", 1),
        pids((U1, 7, "9 MiB")).replace("Process ID", "Prozess-ID"),
        pids((U1, 7, "9 MiB")).replace("Processes\n", "Clients\n"),
    ],
)
def test_who_is_on_a_gpu_must_be_told_or_it_is_taken(text: str) -> None:
    assert {(1, S.EXTERNAL), (1, S.UNKNOWN)} & set(states(pids_text=text))
    assert (0, S.FREE) in states(pids_text=text) or "GPU 00" not in text


def test_the_lost_gpu_is_not_asked_for_its_processes() -> None:
    both = {"gpu_text": f"{ROW0}\n{LOST}", "pids_text": pids(slots=(SLOTS[U0],)), "gpu_status": 15, "pids_status": 15}
    assert states(**both) == [(0, S.FREE), (-1, S.UNHEALTHY)]


def test_a_gpu_whose_lease_is_obstructed_is_unknown_until_the_path_is_clean() -> None:
    assert states(obstructed=f"{U1} mallory\nGPU-other root\n") == [(0, S.FREE), (1, S.UNKNOWN)]
    assert states() == [(0, S.FREE), (1, S.FREE)]
    node = Node(NodeName("gpu01"), NodeState.UP, observation=parsed(obstructed=f"{U1} mallory\x1b\n"))
    view = node_view(NodeFacts(NodeName("gpu01")), node, NodeHolds(), ExternalPolicy())
    assert view.devices[1].reason.startswith("unknown: lock path obstructed by something of mallory?: /tmp/mgpu.lease.")
    assert "lock path obstructed" in view.reason
    assert view.usable


def test_bus_ids_are_compared_as_numbers() -> None:
    assert bus_number("0000:0A:00.0") == bus_number("00000000:0a:00.0") == (0, 10, 0, 0)
    assert bus_number("GPU00010000:0A:00.1: x") == (0x10000, 10, 0, 1)
    assert bus_number("[N/A]") is None


def test_how_often_on_end_it_hung() -> None:
    seen, counts = parsed(), []
    for status, pids in ((124, 127), (75, 75), (0, 124), (0, 0), (124, 127)):
        raw = replace(GOOD, gpu_status=status, pids_status=pids)
        seen = parse_probe(NodeName("gpu01"), raw, 1002.0, seen)
        counts.append(seen.hangs)
    assert counts == [1, 2, 3, 0, 1]
    left = replace(GOOD, gpu_status=75, pids_status=75, gpu_text="")
    assert parse_probe(NodeName("gpu01"), left, 1002.0).fault.startswith("nvidia-smi hangs and cannot be ended: ")


@pytest.mark.parametrize("boot", ["boot", "another"])
def test_gpus_of_a_driver_that_hangs_are_listed_as_unknown_until_the_next_boot(boot: str) -> None:
    before = parsed()
    hung = parse_probe(NodeName("gpu01"), replace(GOOD, boot_id=boot, gpu_status=124, gpu_text=""), 1002.0, before)
    for _ in range(2):
        view = node_view(
            NodeFacts(NodeName("gpu01")),
            Node(NodeName("gpu01"), NodeState.UP, observation=hung),
            NodeHolds(),
            ExternalPolicy(),
        )
        listed = [(device.index, device.state, device.memory_total_mib) for device in view.devices]
        assert listed == ([(0, S.UNKNOWN, 81920), (1, S.UNKNOWN, 81920)] if boot == "boot" else [])
        assert all(gpu.memory_used_mib is None and gpu.utilization is None for gpu in hung.gpus)
        hung = parse_probe(NodeName("gpu01"), replace(GOOD, boot_id=boot, gpu_status=18, gpu_text="x"), 1004.0, hung)


def test_which_gpu_was_lost_is_known_from_before() -> None:
    name, before = NodeName("gpu01"), parsed()
    raw = replace(GOOD, gpu_text=f"{ROW0}\n{LOST}\n", gpu_status=15, pids_text=pids(slots=(SLOTS[U0],)))
    for _ in range(2):
        before = parse_probe(name, raw, 1002.0, before)
        lost = before.gpus[1]
        assert (lost.index, lost.uuid, lost.name, lost.fault) == (1, U1, "NVIDIA A100-SXM4-80GB", LOST)
    holds = NodeHolds({lost.uuid: JobId(60)}, jobs=1)
    view = node_view(
        NodeFacts(name, gpu_count=2), Node(name, NodeState.UP, observation=before), holds, ExternalPolicy()
    )
    assert [(device.index, device.state, device.reason) for device in view.devices] == [
        (0, S.FREE, ""),
        (1, S.ALLOCATED, f"held by job 60; unhealthy: {LOST}"),
    ]
    assert renumbered(before)
    moved = replace(raw, gpu_text=f"{ROW0.replace('0, ', '1, ', 1)}\n{LOST}\n")
    assert [gpu.index for gpu in parse_probe(name, moved, 1003.0, before).gpus] == [1, None]
    rebooted = replace(raw, boot_id="another")
    assert [gpu.uuid for gpu in parse_probe(name, rebooted, 1004.0, before).gpus] == [U0, ""]


def test_a_gpu_that_is_no_longer_told_of_keeps_its_index_where_somebody_has_it() -> None:
    name, before = NodeName("gpu01"), parsed()
    raw = replace(GOOD, gpu_text=f"{ROW0}\n")
    facts, mark = NodeFacts(name, gpu_count=2), Mark(MarkKind.DRAINED, "root", "today", "a new fan", DeviceUuid(U1))

    def seen(observation: Observation, *marks: Mark, **holds: JobId) -> list[tuple[int, S, str]]:
        node = Node(name, NodeState.UP, observation=observation, marks=marks)
        held = NodeHolds({DeviceUuid(U1): job for job in holds.values()}, jobs=len(holds))
        view = node_view(facts, node, held, ExternalPolicy())
        assert view.reason == "degraded: 1 of 2 GPUs seen"
        return [(device.index, device.state, device.reason) for device in view.devices[1:]]

    for _ in range(2):
        before = parse_probe(name, raw, 1002.0, before)
        assert [(gpu.index, gpu.uuid) for gpu in before.gone] == [(1, U1)]
    missed = "the last probe did not see it"
    assert seen(before) == []
    assert seen(before, job=JobId(60)) == [(1, S.ALLOCATED, f"held by job 60; {missed}")]
    drained = [(1, S.UNHEALTHY, f"drained by root: a new fan (since today UTC); {missed}")]
    assert seen(before, mark) == drained
    hung = parse_probe(name, replace(raw, gpu_status=124, gpu_text=""), 1003.0, before)
    assert [gpu.uuid for gpu in hung.gone] == [U1]
    other = parse_probe(name, replace(raw, gpu_text=ROW0.replace("0, ", "1, ", 1)), 1003.0, before)
    assert [(gpu.index, gpu.uuid) for gpu in other.gone] == [(None, U1)]
    assert parse_probe(name, replace(raw, boot_id="another"), 1004.0, before).gone == ()
    assert parse_probe(name, GOOD, 1004.0, before).gone == ()


def test_how_long_a_process_is_gone() -> None:
    raw = replace(GOOD, pids_text=pids((U1, 77, "512 MiB")))
    first = parse_probe(NodeName("gpu01"), raw, 1000.0)
    second = parse_probe(NodeName("gpu01"), raw, 1060.0, first)
    third = parse_probe(NodeName("gpu01"), raw, 1300.0, second)
    assert [seen.processes[0].age_s for seen in (first, second, third)] == [0, 60, 300]
    other = parse_probe(NodeName("gpu01"), replace(raw, boot_id="another"), 1400.0, third)
    assert other.processes[0].age_s == 0


def test_odd_process_lines_become_notes() -> None:
    seen = parsed(pids_text=pids((U0, 7, 9), (U1, 8, 9)), process_text="x y\n7 bob\n")
    assert seen.notes == ("unreadable process: x y",)
    assert [(p.pid, p.user, p.exists) for p in seen.processes] == [(7, "bob", True), (8, "", False)]


def test_a_process_that_the_node_does_not_show_is_no_orphan() -> None:
    seen = parsed(pids_text=pids((U0, 7, 9), (U1, 8, 9)), process_text="7 - - - -\n8 bob - - -\n")
    assert [(p.pid, p.user, p.age_s, p.token, p.exists) for p in seen.processes] == [
        (7, "", None, "", True),
        (8, "bob", None, "", True),
    ]
    node = Node(NodeName("gpu01"), NodeState.UP, observation=seen)
    held = NodeHolds({DeviceUuid(U1): JobId(60)}, jobs=1)
    view = node_view(NodeFacts(NodeName("gpu01")), node, held, ExternalPolicy())
    assert [device.reason for device in view.devices] == [
        "external (unknown user, pid 7, ?, 9 MiB)",
        "held by job 60; conflict with bob, pid 8, ?, 9 MiB",
    ]


PIECES = st.sampled_from(
    ["0", "1", U0, U1, "[N/A]", ",", ", ", "\n", ROW0, ROW1, LOST, "4242", "MiB", "GPU-", "é", "\t", pids(),
     "MIG 1g.5gb", "GPU 00000000:02:00.0\n", "Processes : ", "None", "Process ID : 7\n", "Processes\n",
     "Device 0: (UUID: MIG-1)\n"]
)  # fmt: skip
TEXTS = st.lists(PIECES, max_size=12).map("".join)


@given(TEXTS, TEXTS, TEXTS, TEXTS, st.text(max_size=40))
def test_nothing_that_a_node_prints_raises_or_doubles_a_free_gpu(
    gpus: str, told: str, listed: str, table: str, processes: str
) -> None:
    raw = {"gpu_text": gpus, "pids_text": told, "mig_list": listed, "mig_table": table, "process_text": processes}
    free = [index for index, state in states(**raw) if state is S.FREE]
    assert len(free) == len(set(free))
    assert all(index >= 0 for index in free)
