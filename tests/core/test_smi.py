"""What only some GPUs say: MIG, modes, recovery, links; and machines that tell less than the rest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mgpu.core.ask import ask_for
from mgpu.core.feasible import examine
from mgpu.core.model import DeviceUuid, JobId, NodeName, NodeState, Request
from mgpu.core.observation import Machine, Node, RawProbe
from mgpu.core.placement import joined
from mgpu.core.plan import DeviceState as S
from mgpu.core.plan import DeviceView, ExternalPolicy, NodeFacts, NodeHolds, NodeView
from mgpu.core.probe import parse_probe, renumbered
from mgpu.core.smi.gpus import FIELDS, parse_gpus
from mgpu.core.smi.mig import label
from mgpu.core.smi.processes import parse_processes
from mgpu.core.smi.topology import parse_topology
from mgpu.core.views import node_view
from tests.core.test_probe import GOOD, U0, U1, pids

NAME = NodeName("gpu01")
TAIL = "Default, Disabled, 41, 121.35, 0, No, None"
FULL0 = f"0, {U0}, 00000000:01:00.0, NVIDIA H100 80GB HBM3, 81559, 4, 0, {TAIL}"
FULL1 = f"1, {U1}, 00000000:02:00.0, NVIDIA H100 80GB HBM3, 81559, 4, 0, {TAIL}"
MODERN = replace(GOOD, gpu_text=f"{FULL0}\n{FULL1}\n", fields=FIELDS)


def seen(raw: RawProbe, external: ExternalPolicy | None = None, **facts: object) -> NodeView:
    node = Node(NAME, NodeState.UP, observation=parse_probe(NAME, raw, 1000.0))
    return node_view(NodeFacts(NAME, **facts), node, NodeHolds(), external or ExternalPolicy())  # type: ignore[arg-type]


def told(view: NodeView) -> list[str]:
    return [f"{label(device.index)} {device.state}: {device.reason}".rstrip(": ") for device in view.devices]


def changed(field: str, text: str) -> RawProbe:
    cells = FULL1.split(", ")
    cells[FIELDS.index(field)] = text
    return replace(MODERN, gpu_text=f"{FULL0}\n{', '.join(cells)}\n")


def test_what_a_modern_driver_tells_is_kept() -> None:
    gpu = parse_probe(NAME, MODERN, 1000.0).gpus[0]
    assert (gpu.compute_mode, gpu.mig, gpu.temperature_c, gpu.power_w, gpu.ecc_errors) == ("Default", False, 41, 121, 0)
    assert told(seen(MODERN)) == ["0 free", "1 free"]


@pytest.mark.parametrize(
    ("field", "text", "words"),
    [
        ("compute_mode", "Prohibited", "its compute mode is Prohibited: nvidia-smi -c 0 on the node allows jobs again"),
        ("compute_mode", "Enabled", "its compute_mode cannot be read: 'Enabled'"),
        ("mig.mode.current", "41", "its mig.mode.current cannot be read: '41'"),
        ("gpu_recovery_action", "Reset", "the driver wants the GPU to be reset"),
        ("gpu_recovery_action", "Reboot", "the driver wants the node to be rebooted"),
        ("remapped_rows.failure", "Yes", "its memory has faults that could not be mapped away"),
        ("power.draw", "[GPU requires reset]", "GPU requires reset"),
    ],
)
def test_what_speaks_against_a_gpu(field: str, text: str, words: str) -> None:
    first, second = told(seen(changed(field, text)))
    assert first == "0 free"
    assert second.startswith(f"1 unhealthy: unhealthy: {words}")


@pytest.mark.parametrize("field", FIELDS[2:])
@pytest.mark.parametrize(
    "text", ["[Unknown Error]", "ERR!", "[N/A]", "N/A", "", "[Requested functionality has been deprecated]"]
)
def test_an_error_in_a_field_that_is_merely_shown_is_harmless(field: str, text: str) -> None:
    raw = replace(changed(field, text), pids_text=pids())
    assert told(seen(raw)) == ["0 free", "1 free"]


def test_a_driver_that_does_not_know_all_fields() -> None:
    fields = tuple(field for field in FIELDS if field not in ("gpu_recovery_action", "mig.mode.current"))
    cells = [cell for field, cell in zip(FIELDS, FULL0.split(", "), strict=True) if field in fields]
    (gpu,) = parse_gpus(fields, ", ".join(cells), [])
    assert (gpu.name, gpu.temperature_c, gpu.mig, gpu.fault) == ("NVIDIA H100 80GB HBM3", 41, False, "")


def test_a_row_of_more_fields_than_were_asked_for_is_not_read_askew() -> None:
    (gpu,) = parse_gpus(FIELDS[:-1], FULL0.replace("Disabled", "Enabled"), [])
    assert (gpu.mig, gpu.fault) == (False, "its compute_mode cannot be read: 'Enabled'")


def test_one_process_alone_means_even_a_small_one() -> None:
    raw = replace(changed("compute_mode", "Exclusive_Process"), pids_text=pids((U0, 7, "1 MiB"), (U1, 8, "1 MiB")))
    tolerant = ExternalPolicy(memory_threshold_mib=500)
    assert [device.state for device in seen(raw, tolerant).devices] == ["free", "external"]


def test_who_only_draws_counts_like_who_computes() -> None:
    game = pids((U1, 4242, "9000 MiB")).replace(": C", ": G")
    raw = replace(MODERN, pids_text=game, process_text="4242 carol 60 4242 - game.x86_64\n")
    assert told(seen(raw)) == ["0 free", "1 external: external (carol, pid 4242, game.x86_64, 8.79 GiB, 1 min)"]
    desktop = ExternalPolicy(ignore=("game.x86_64",))
    assert told(seen(raw, desktop)) == ["0 free", "1 free"]


def test_who_is_where_is_read_with_kind_and_instance() -> None:
    text = pids((U0, 7, "9 MiB")).replace("GPU instance ID               : N/A", "GPU instance ID  : 2")
    found = parse_processes(text.replace("Compute instance ID           : N/A", "Compute instance ID : 0"))
    assert (found.driver, found.cuda) == ("580.1", "13.0")
    ((process,), nobody) = found.by_slot.values()
    assert (process.pid, process.memory_mib, process.kind, process.instance, nobody) == (7, 9, "C", (2, 0), [])


# --- MIG ------------------------------------------------------------------------------------------------------------

LISTED = f"""GPU 0: NVIDIA H100 80GB HBM3 (UUID: {U0})
  MIG 3g.40gb     Device  0: (UUID: MIG-a0)
  MIG 1g.10gb     Device  1: (UUID: MIG-a1)
  MIG 1g.10gb     Device  2: (UUID: MIG-a2)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: {U1})
"""
TABLE = """| MIG devices:                                                                            |
| GPU  GI  CI  MIG |              Shared Memory-Usage |        Vol|        Shared         |
|==================+==================================+===========+=======================|
|  0    2   0   0  |           11091MiB / 40448MiB    | 60      0 |  3   0    3    0    3 |
|                  |               0MiB / 24739MiB    |           |                       |
|  0    9   0   1  |               9MiB /  9984MiB    | 16      0 |  1   0    1    0    1 |
|  0   10   0   2  |               9MiB /  9984MiB    | 16      0 |  1   0    1    0    1 |
"""
CUT = replace(
    MODERN,
    gpu_text=f"{FULL0.replace('Default, Disabled', 'Default, Enabled')}\n{FULL1}\n",
    mig_list=LISTED,
    mig_table=TABLE,
)


def inside(gi: str, ci: str) -> str:
    text = pids((U0, 21180, "2296 MiB"))
    return text.replace("instance ID               : N/A", f"instance ID : {gi}").replace(
        "instance ID           : N/A", f"instance ID : {ci}"
    )


def test_instances_stand_for_their_gpu() -> None:
    view = seen(CUT)
    assert told(view) == ["1 free", "0.0 free", "0.1 free", "0.2 free"]
    assert [(device.uuid, device.name, device.memory_total_mib) for device in view.devices[1:]] == [
        ("MIG-a0", "MIG 3g.40gb", 40448),
        ("MIG-a1", "MIG 1g.10gb", 9984),
        ("MIG-a2", "MIG 1g.10gb", 9984),
    ]
    assert renumbered(parse_probe(NAME, CUT, 0.0))


def test_a_process_is_in_its_instance() -> None:
    assert [each[:12] for each in told(seen(replace(CUT, pids_text=inside("9", "0"))))] == [
        "1 free", "0.0 free", "0.1 external", "0.2 free",
    ]  # fmt: skip


@pytest.mark.parametrize(("gi", "table"), [("N/A", TABLE), ("9", ""), ("77", TABLE)])
def test_a_process_whose_instance_nobody_knows_may_be_in_any(gi: str, table: str) -> None:
    view = seen(replace(CUT, pids_text=inside(gi, "0"), mig_table=table))
    assert [device.state for device in view.devices] == ["free", "external", "external", "external"]


def test_a_gpu_that_is_cut_up_without_instances_is_no_device() -> None:
    first, _ = told(seen(replace(CUT, mig_list="")))
    assert first == "0 unhealthy: unhealthy: MIG mode is on, and it has no instances"


def test_two_instances_of_one_uuid_are_both_refused() -> None:
    twice = replace(CUT, mig_list=LISTED.replace("MIG-a2", "MIG-a1"))
    doubled = "unhealthy: unhealthy: nvidia-smi reports its index or UUID twice"
    assert told(seen(twice)) == ["1 free", "0.0 free", f"0.1 {doubled}", f"0.2 {doubled}"]


def test_the_inventorys_devices_are_gpus_with_their_instances() -> None:
    assert told(seen(CUT, devices=(0,))) == ["0.0 free", "0.1 free", "0.2 free"]
    assert told(seen(CUT, devices=(1,))) == ["1 free"]
    assert seen(CUT, gpu_count=2).reason == ""


@pytest.mark.parametrize(
    ("request_", "uuids"),
    [
        (Request(gpus=1), [U1]),
        (Request(gpus=1, gpu_types=("1g.10gb",)), ["MIG-a1", "MIG-a2"]),
        (Request(gpus=2, gpu_types=("1g.10gb",)), ["MIG-a1", "MIG-a2"]),
        (Request(gpus=1, gpu_types=("H100",)), [U1]),
        (Request(gpus=1, gpu_memory_mib=9 * 1024), [U1, "MIG-a0", "MIG-a1", "MIG-a2"]),
        (Request(gpus=1, gpu_memory_mib=39 * 1024), [U1, "MIG-a0"]),
        (Request(gpu_ids=(1001, 1002)), ["MIG-a1", "MIG-a2"]),
    ],
)
def test_who_gets_an_instance(request_: Request, uuids: list[str]) -> None:
    view = seen(CUT)
    choices = examine(view, ask_for(request_, [view])).free
    assert [device.uuid for devices in choices.values() for device in devices] == uuids


# --- machines that tell less ------------------------------------------------------------------------------------------

JETSON = "0, [N/A], [N/A], Orin (nvgpu), [N/A], [N/A], [N/A]\n"
UNIFIED = f"0, {U0}, 0000000F:01:00.0, NVIDIA GB10, [N/A], [N/A], 3\n"


def test_a_jetson_is_used_where_the_inventory_says_so() -> None:
    raw = replace(GOOD, gpu_text=JETSON, pids_text="")
    assert told(seen(raw)) == ["0 unhealthy: unhealthy: its UUID cannot be read: '[N/A]'"]
    assert told(seen(raw, gpu_count=1)) == ["0 unhealthy: unhealthy: its UUID cannot be read: '[N/A]'"]
    view = seen(raw, ExternalPolicy(policy="ignore"), gpu_count=1)
    assert told(view) == ["0 free"]
    assert view.devices[0].uuid == "INDEX-0"


def test_unified_memory_is_unknown_until_the_inventory_tells_it() -> None:
    raw = replace(GOOD, gpu_text=UNIFIED, pids_text=pids(slots=("0000000F:01:00.0",)))
    view = seen(raw)
    assert (told(view), view.devices[0].memory_total_mib) == (["0 free"], None)
    asks = Request(gpus=1, gpu_memory_mib=64 * 1024)
    assert examine(view, ask_for(asks, [view])).reason == "GPU memory unknown, 64 GiB asked"
    stated = seen(raw, gpu_memory_mib=131072)
    assert examine(stated, ask_for(asks, [stated])).reason == ""


# --- the node ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"keepout": "dave"}, "kept by dave (mgpu.keepout on the node)"),
        ({"keepout": "dave demo until\x1b 5 pm"}, "kept by dave (mgpu.keepout on the node): demo until? 5 pm"),
        ({"check_status": 1, "check_text": "\ndisk broken\nmore"}, "health check failed: disk broken"),
        ({"check_status": 3, "check_text": ""}, "health check failed: exit status 3"),
        ({"check_status": 124, "check_text": ""}, "health check took longer than health.check_timeout"),
        ({"check_status": 124, "check_text": "a disk\n"}, "health check took longer than health.check_timeout: a disk"),
        ({"check_status": 137, "check_text": ""}, "health check was ended by SIGKILL"),
        ({"check_status": 0, "check_text": "all well"}, ""),
    ],
)
def test_what_keeps_jobs_from_a_node(changes: dict[str, object], words: str) -> None:
    view = seen(replace(MODERN, **changes))
    assert (view.reason, view.usable) == (words, not words)
    assert told(view) == ["0 free", "1 free"]


FACTS = "cpus 64\nload 1.25\nmemory 1048576000 524288000\ndisk 20480\n"
TOPOLOGY = (
    "\t\x1b[4mGPU0\tGPU1\tGPU2\tCPU Affinity\x1b[0m\nGPU0\t X \tNV18\tSYS\t0-63\n"
    "GPU1\tNV18\t X \tSYS\t0-63\nGPU2\tSYS\tSYS\t X \t0\n"
)


def test_what_else_a_node_has() -> None:
    raw = replace(MODERN, facts_text=FACTS, topology_text=TOPOLOGY, kernel_text="Xid (PCI:0000:01:00): 79\n")
    first = parse_probe(NAME, raw, 0.0)
    assert first.machine == Machine(
        64, 1.25, 1024000, 512000, 20, "580.1", "13.0", ((0, 1, 18),), ("Xid (PCI:0000:01:00): 79",), True
    )
    less = replace(MODERN, facts_text="load 9\nmemory x\n")
    again = parse_probe(NAME, less, 1.0, first).machine
    assert (again.cpus, again.load, again.memory_total_mib, again.links) == (64, 9.0, None, ((0, 1, 18),))
    rebooted = parse_probe(NAME, replace(less, boot_id="other"), 1.0, first).machine
    assert (rebooted.cpus, rebooted.links) == (None, ())
    hidden = parse_probe(NAME, replace(MODERN, kernel_text="-\n"), 1.0, first).machine
    assert (hidden.xid, hidden.kernel_readable) == ((), False)


@pytest.mark.parametrize("text", ["", "rubbish", "\tGPU0\nGPU0\tX\n", TOPOLOGY.replace("NV18", "NVx")])
def test_links_that_cannot_be_read_are_none(text: str) -> None:
    assert parse_topology(text) == ()


@pytest.mark.parametrize(("index", "text"), [(0, "0"), (11, "11"), (1000, "0.0"), (1302, "3.2"), (-1, "?")])
def test_an_index_as_people_read_it(index: int, text: str) -> None:
    assert label(index) == text


def test_holds_of_instances_are_theirs() -> None:
    node = Node(NAME, NodeState.UP, observation=parse_probe(NAME, CUT, 1000.0))
    view = node_view(NodeFacts(NAME), node, NodeHolds({DeviceUuid("MIG-a1"): JobId(5)}), ExternalPolicy())
    assert told(view)[2] == "0.1 allocated: held by job 5"


PAIRS = ((0, 2, 4), (1, 3, 4), (0, 1, 1))


@pytest.mark.parametrize(
    ("links", "taken", "size", "wanted"),
    [
        ((), (), 2, (0, 1)),
        (PAIRS, (), 2, (0, 2)),
        (PAIRS, (0,), 2, (1, 3)),
        (PAIRS, (0, 1), 2, (2, 3)),
        (PAIRS, (), 3, (0, 1, 2)),
        (PAIRS, (), 4, (0, 1, 2, 3)),
        (PAIRS, (), 1, (0,)),
    ],
)
def test_a_job_gets_gpus_that_are_linked(
    links: tuple[tuple[int, int, int], ...], taken: tuple[int, ...], size: int, wanted: tuple[int, ...]
) -> None:
    free = [DeviceView(DeviceUuid(f"GPU-{i}"), i, "A100", "", None, S.FREE) for i in range(4) if i not in taken]
    assert tuple(device.index for device in joined(free, size, links)) == wanted
