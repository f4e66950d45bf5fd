"""What the node's half, the same that the master runs, says of its GPUs and of what is left there."""

from __future__ import annotations

from collections.abc import Iterator

from mgpu import clock
from mgpu.core.finding import Finding, failure, ok, skipped, warning
from mgpu.core.model import NodeState
from mgpu.core.observation import Node
from mgpu.core.plan import DeviceState, NodeHolds
from mgpu.core.probe import parse_probe
from mgpu.core.views import node_view
from mgpu.doctor.case import Case
from mgpu.doctor.patience import within
from mgpu.remote.errors import RemoteError
from mgpu.remote.runner import ProbeWanted

SLOW_PROBE_S = 5.0
RESIDUE_S = 20.0
MANY_RUNS = 1000
MUCH_KIB = 10 << 20
NO_LEASES = "lock path obstructed: "  # by nothing of anybody: it is their folder that cannot be written


def nvidia_smi(case: Case) -> Iterator[Finding]:
    node = case.node
    wanted = ProbeWanted(
        node.nvidia_smi, case.config.probe_timeout_s, check=node.check, check_timeout_s=node.check_timeout_s
    )
    began = clock.monotonic()
    try:
        raw = case.ask().probe(wanted)
    except RemoteError as error:
        yield failure(
            "nvidia-smi", f"the GPUs could not be asked for: {error.message}", "mend what is said above first"
        )
        return
    took = clock.monotonic() - began
    case.observation = parse_probe(node.name, raw, clock.now())
    fault = case.observation.fault
    if not raw.smi_path and node.facts.gpu_count == 0:
        yield ok("nvidia-smi", "none, and none is needed: the inventory says gpu_count: 0")
    elif fault:
        what, _, todo = fault.partition(": ")
        if raw.smi_path or node.nvidia_smi or node.facts.gpu_count:
            yield failure("nvidia-smi", what, todo or "run nvidia-smi on the node by hand")
        else:  # perhaps there are no GPUs at all
            yield warning("nvidia-smi", what, f"{todo}, or gpu_count: 0 if it has no GPUs")
    elif took > SLOW_PROBE_S:
        hint = "nvidia-smi -pm 1 on the node (persistence mode, root) keeps the driver loaded"
        yield warning("nvidia-smi", f"{raw.smi_path} works, but a look at the GPUs takes {took:.1f} s", hint)
    else:
        yield ok("nvidia-smi", f"{raw.smi_path}; a look at the GPUs takes {took:.1f} s")


def gpus(case: Case) -> Iterator[Finding]:
    seen = case.observation
    if seen is None or seen.fault:
        yield skipped("gpus", "nvidia-smi does not tell them")
        return
    if seen.gpus and all(gpu.doubt.startswith(NO_LEASES) for gpu in seen.gpus):
        yield skipped("gpus", "no lease can be made there: see locks")
        return
    facts = case.node.facts
    node = Node(facts.name, NodeState.UP, observation=seen, last_seen=seen.at)
    view = node_view(facts, node, NodeHolds(), case.node.external)
    number = len({gpu.parent or gpu.uuid or gpu.index for gpu in seen.gpus})
    wanted = view.expected_gpus
    sick = [device.reason for device in view.devices if device.state is DeviceState.UNHEALTHY]
    absent = sorted(set(facts.devices or ()) - {gpu.index for gpu in seen.gpus})
    degraded = view.reason if view.reason.startswith("degraded") else ""
    if absent:
        text = f"the inventory's devices {', '.join(map(str, absent))} are not there, {number} GPUs are seen"
        hint = "correct `devices:` in the inventory, or look at dmesg on the node"
        yield failure("gpus", f"{text}; {degraded}" if degraded else text, hint)
    elif degraded:
        hint = "do what is said there, or look at dmesg on the node (Xid): a reset may help; else correct gpu_count"
        yield failure("gpus", degraded, hint)
    elif sick:
        yield failure("gpus", "; ".join(sick), "mgpu nodes shows it beside the GPU")
    elif facts.devices is None and wanted is not None and number > wanted:
        yield warning("gpus", f"{number} seen, the inventory says {wanted}: all are used", f"gpu_count: {number}")
    else:
        names = ", ".join(dict.fromkeys(device.name for device in view.devices if device.name))
        told = "as the inventory says" if wanted is not None else "the inventory does not say how many (gpu_count)"
        yield ok("gpus", f"{len(view.devices)} x {names or 'GPU'}, {told}" if view.devices else f"none, {told}")
    if seen.trouble:
        yield warning("health", f"nothing may start there: {seen.trouble}", "who withholds it has to say yes again")


def residue(case: Case) -> Iterator[Finding]:
    try:
        found = within(RESIDUE_S, lambda: case.ask().residue())
    except RemoteError as error:
        yield skipped("residue", error.message)
        return
    except TimeoutError:
        yield skipped("residue", f"no answer in {RESIDUE_S:.0f} s")
        return
    size = sum(run.size_kib for run in found.runs)
    alive = sum(run.condition == "alive" for run in found.runs)
    text = f"{len(found.runs)} run directories, {alive} alive, {size} KiB"
    if size > MUCH_KIB or len(found.runs) > MANY_RUNS:
        hint = f"mgpu doctor --residue {case.node.name} lists it, mgpu node clean {case.node.name} removes what is over"
        yield warning("residue", text, hint)
    else:
        yield ok("residue", text)
