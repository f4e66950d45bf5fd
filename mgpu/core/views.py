"""Inventory + observation + our own holds -> what the planner, `nodes` and `why` see of a node.

Each device gets one state and a reason in words. What we hold stays allocated whatever the probe says; then an
operator's word, faults and doubt come before use by others, and only what nothing speaks against is free.

A node whose GPUs cannot be read stays usable for jobs without GPUs: its devices are unknown, with that reason.
"""

from __future__ import annotations

from dataclasses import replace

from mgpu.core.amounts import gib
from mgpu.core.claims import Claim, claim_of, share_of
from mgpu.core.devices import NO_UUID
from mgpu.core.marks import words
from mgpu.core.model import DeviceUuid, JobId, NodeState
from mgpu.core.observation import WHOLE, GpuProcess, GpuReading, Machine, MarkKind, Node, Observation
from mgpu.core.plan import Barred, DeviceState, DeviceView, ExternalPolicy, NodeFacts, NodeHolds, NodeView
from mgpu.core.probe import UNREADABLE_PID, UNTOLD_PID
from mgpu.core.smi.text import printable

NO_INDEX = -1  # of a GPU that is lost: nvidia-smi no longer tells it
SLOW_S = 5  # of nvidia-smi: what is slower is told
_COMM = 15  # bytes that the kernel keeps of a program's name
_NAMED = 3  # processes named in one reason


def node_view(facts: NodeFacts, node: Node, holds: NodeHolds, external: ExternalPolicy) -> NodeView:
    readings = _ours(facts, node.observation, external)
    devices = [_device(facts, reading, node, holds, external) for reading in readings]
    seen = {device.uuid for device in devices}
    missed: dict[DeviceUuid, JobId | None] = {**dict.fromkeys(_drained_and_gone(facts, node)), **holds.devices}
    devices += [_unseen(facts, node, uuid, job) for uuid, job in missed.items() if uuid not in seen]
    devices.sort(key=lambda device: (device.index == NO_INDEX, device.index, device.uuid))
    expected = facts.gpu_count if facts.devices is None else len(facts.devices)
    trouble = node.observation.trouble if node.observation else ""
    drained, silent = _why_drained(node), _why_unusable(node)
    down = "; ".join(filter(None, (drained, silent))) or trouble
    there = _there(facts, node.observation)
    share = share_of(there, len(devices))
    return NodeView(
        name=facts.name,
        usable=not down,
        reason=down or _degraded(node, readings, expected),
        barred=(Barred.DOWN if silent else Barred.DRAINED) if down else None,
        devices=tuple(devices),
        partitions=facts.partitions,
        switch=facts.switch,
        jobs=holds.jobs,
        expected_gpus=expected,
        gpu_type=facts.gpu_type,
        exclusive=holds.exclusive,
        only=facts.devices,
        maintenance=facts.maintenance,
        links=node.observation.machine.links if node.observation else (),
        there=there,
        share=share,
        claims=tuple((job_id, claim_of(request, gpus, share)) for job_id, (request, gpus) in holds.asked.items()),
    )


def foreign(observation: Observation, uuid: DeviceUuid, holds: NodeHolds, external: ExternalPolicy) -> list[GpuProcess]:
    """The processes on a device that make it external, or are in conflict with the job that holds it."""
    holder = holds.devices.get(uuid)
    alone = any(gpu.uuid == uuid and gpu.compute_mode.startswith("Exclusive") for gpu in observation.gpus)
    return [
        process
        for process in observation.processes
        if process.uuid == uuid
        # a job's own child that ended between two looks is no outsider
        and not (holder is not None and not process.exists and process.pid > 0)
        and not (holder is not None and (_job_of(process, holds) == holder or _is_account_of(process, uuid, holds)))
        and _counts(process, external, alone)
    ]


def _there(facts: NodeFacts, seen: Observation | None) -> Claim:
    """Cores and memory that jobs may claim: the inventory's word, else what the node tells."""
    machine = seen.machine if seen else Machine()
    return Claim(
        machine.cpus if facts.cpus is None else facts.cpus,
        machine.memory_total_mib if facts.host_memory_mib is None else facts.host_memory_mib,
    )


# --- the node -------------------------------------------------------------------------------------------------------


def _why_unusable(node: Node) -> str:
    reason = f": {node.reason}" if node.reason else ""
    if node.state is NodeState.DOWN:
        return f"node is down{reason}"
    if node.failures:  # not yet down, but nothing is placed on what did not answer last time
        return f"does not answer{reason}"
    seen = node.state is not NodeState.UNKNOWN and node.observation is not None
    return "" if seen else node.reason or "not seen yet"


def _why_drained(node: Node) -> str:
    if node.state not in (NodeState.DRAINING, NodeState.DRAINED):
        return ""
    mark = node.mark(MarkKind.DRAINED, WHOLE)
    return words(mark) if mark else f"node is {node.state.value.lower()}"


def _degraded(node: Node, readings: list[GpuReading], expected: int | None) -> str:
    if node.observation is None:
        return ""
    if node.observation.fault:
        return "" if expected == 0 else node.observation.fault
    faults = [
        f"GPU {reading.bus_id or reading.index}: {reading.fault or reading.doubt}"
        for reading in readings
        if (reading.fault or reading.doubt) and not reading.parent
    ]
    seen = len({reading.parent or reading.uuid or reading.index for reading in readings if reading.index is not None})
    if expected is not None and seen < expected:
        faults.insert(0, f"{seen} of {expected} GPUs seen")
    return f"degraded: {'; '.join(faults)}" if faults else node.reason or _slow(node.observation)


def _slow(observation: Observation) -> str:
    if observation.smi_took_s < SLOW_S:
        return ""
    took = f"nvidia-smi takes {observation.smi_took_s} s to tell of the GPUs"
    return f"slow: {took}: nvidia-smi -pm 1 on the node (root) keeps the driver loaded"


def _ours(facts: NodeFacts, observation: Observation | None, external: ExternalPolicy) -> list[GpuReading]:
    """The devices that belong to mgpu: of a GPU that is cut up its instances. A lost one has no index: it counts as
    ours while one of ours is missing."""
    readings = list(observation.gpus) if observation else []
    if not any(reading.uuid for reading in readings):
        readings = [_by_index(facts, reading, external) for reading in readings]
    if facts.devices is not None:
        known = {reading.uuid: reading.index for reading in readings}
        missing = bool(set(facts.devices) - set(known.values()))
        indices = [known.get(each.parent) if each.parent else each.index for each in readings]
        readings = [
            each
            for each, index in zip(readings, indices, strict=True)
            if (missing if index is None else index in facts.devices)
        ]
    cut = {reading.parent for reading in readings if reading.parent}
    return [reading for reading in readings if not (reading.mig and reading.uuid in cut)]


def _by_index(facts: NodeFacts, reading: GpuReading, external: ExternalPolicy) -> GpuReading:
    """A Jetson tells neither UUID nor processes. Where the inventory says how many GPUs there are, and that outsiders
    do not matter, it is used all the same, under its index."""
    if (
        reading.index is None
        or facts.gpu_count is None
        or external.policy != "ignore"
        or reading.index >= facts.gpu_count
    ):
        return reading
    return replace(reading, uuid=DeviceUuid(f"{NO_UUID}{reading.index}"), fault="")


# --- the devices ----------------------------------------------------------------------------------------------------


def _device(
    facts: NodeFacts, reading: GpuReading, node: Node, holds: NodeHolds, external: ExternalPolicy
) -> DeviceView:
    job = holds.devices.get(reading.uuid)
    state, reason = DeviceState.FREE, ""
    observation = node.observation
    assert observation is not None  # readings come from it
    others = foreign(observation, reading.uuid, holds, external) if reading.uuid else []
    drained = node.mark(MarkKind.DRAINED, *_own_names(reading))
    suspect = node.mark(MarkKind.SUSPECT, *_own_names(reading))
    if job is not None:
        marks = [words(mark) for mark in (drained, suspect) if mark]
        state, reason = DeviceState.ALLOCATED, "; ".join([_held(job, reading, others, holds), *marks])
    elif drained:
        there = f"; external ({_several(others, holds)})" if others else ""
        state, reason = DeviceState.UNHEALTHY, f"{words(drained)}{there}"
    elif reading.fault or reading.mig:
        fault = reading.fault or "MIG mode is on, and it has no instances"
        state, reason = DeviceState.UNHEALTHY, f"unhealthy: {fault}"
    elif observation.fault:
        state, reason = DeviceState.UNKNOWN, f"unknown: {observation.fault}"
    elif node.failures:
        state, reason = DeviceState.UNKNOWN, "unknown: the node does not answer"
    elif reading.doubt:
        state, reason = DeviceState.UNKNOWN, f"unknown: {reading.doubt}"
    elif others and all(process.pid == UNTOLD_PID for process in others):
        state, reason = DeviceState.UNKNOWN, f"unknown: {_several(others, holds)}"
    elif others:
        state, reason = DeviceState.EXTERNAL, f"external ({_several(others, holds)})"
    elif suspect:
        reason = words(suspect)
    return DeviceView(
        uuid=reading.uuid,
        index=NO_INDEX if reading.index is None else reading.index,
        name=reading.name,
        kind="" if reading.parent else facts.gpu_type,
        memory_total_mib=facts.gpu_memory_mib if reading.memory_total_mib is None else reading.memory_total_mib,
        state=state,
        reason=reason,
        job_id=job,
        suspect=suspect is not None,
        conflict=_several(others, holds) if others and job is not None else "",
    )


def _own_names(reading: GpuReading) -> tuple[DeviceUuid, ...]:
    """What a mark may name: the GPU itself, or the one that an instance is cut from."""
    return tuple(filter(None, (reading.uuid, reading.parent)))


def _held(job: JobId, reading: GpuReading, others: list[GpuProcess], holds: NodeHolds) -> str:
    parts = [f"held by job {job}"]
    if reading.fault:
        parts.append(f"unhealthy: {reading.fault}")
    if others:
        parts.append(f"conflict with {_several(others, holds)}")
    return "; ".join(parts)


def _drained_and_gone(facts: NodeFacts, node: Node) -> list[DeviceUuid]:
    """What an operator has said of a GPU stays in sight."""
    gone = node.observation.gone if node.observation else ()
    ours = (gpu for gpu in gone if facts.devices is None or gpu.index is None or gpu.index in facts.devices)
    return [gpu.uuid for gpu in ours if node.mark(MarkKind.DRAINED, gpu.uuid)]


def _unseen(facts: NodeFacts, node: Node, uuid: DeviceUuid, job: JobId | None) -> DeviceView:
    """Held or drained; what was known of it is still said."""
    gone = node.observation.gone if node.observation else ()
    was = next((gpu for gpu in gone if gpu.uuid == uuid), None)
    index = NO_INDEX if was is None or was.index is None else was.index
    drained = node.mark(MarkKind.DRAINED, uuid)
    missed, drains = "the last probe did not see it", [words(drained)] if drained else []
    state, said = DeviceState.UNHEALTHY, [*drains, missed]
    if job is not None:
        state, said = DeviceState.ALLOCATED, [f"held by job {job}", missed, *drains]
    return DeviceView(uuid, index, was.name if was else "", facts.gpu_type, None, state, "; ".join(said), job)


# --- the processes --------------------------------------------------------------------------------------------------


def _job_of(process: GpuProcess, holds: NodeHolds) -> JobId | None:
    if process.token in holds.tokens:
        return holds.tokens[process.token]
    return None if process.session is None else holds.sessions.get(process.session)


def _is_account_of(process: GpuProcess, uuid: DeviceUuid, holds: NodeHolds) -> bool:
    """All that is known of it is whose it is, and that is whose job holds the device; or not even that, where a node
    hides processes of others (hidepid)."""
    unknown = process.pid > 0 and process.exists and not process.token and _job_of(process, holds) is None
    return unknown and uuid in holds.accounts and process.user in ("", holds.accounts[uuid])


def _counts(process: GpuProcess, external: ExternalPolicy, alone: bool) -> bool:
    """`alone`: the GPU's compute mode lets one process in, so any other keeps ours out however small it is."""
    if external.policy == "ignore":
        return False
    if process.pid <= 0 or (alone and process.kind != "G"):
        return True
    if process.memory_mib is not None and process.memory_mib < external.memory_threshold_mib:
        return False
    names = {process.command[:_COMM], program(process.command)[:_COMM]}
    return not any(name[:_COMM] in names for name in external.ignore)


def program(command: str) -> str:
    """`/usr/lib/xorg/Xorg vt2` -> `Xorg`."""
    return command.split(" ", 1)[0].rsplit("/", 1)[-1]


def _several(processes: list[GpuProcess], holds: NodeHolds) -> str:
    shown = "; ".join(_who(process, holds) for process in processes[:_NAMED])
    more = len(processes) - _NAMED
    return f"{shown}; and {more} more" if more > 0 else shown


def _who(process: GpuProcess, holds: NodeHolds) -> str:
    """`alice, pid 4242, python, 11 GiB, 3 h`"""
    memory = "memory unknown" if process.memory_mib is None else gib(process.memory_mib)
    if process.pid == UNTOLD_PID:
        return "nvidia-smi does not tell its processes"
    if process.pid == UNREADABLE_PID:
        return f"a process that nvidia-smi does not name, {memory}"
    if not process.exists:
        gone = [] if process.age_s is None else [f"since {_age(process.age_s)}"]
        told = f"orphan pid {process.pid}: nvidia-smi names it, the node has no such process"
        return ", ".join([told, memory, *gone])
    job = _job_of(process, holds)
    ours = [f"job {job}, outside its allocation"] if job is not None else []
    if job is None and process.token in holds.elsewhere:
        other, node = holds.elsewhere[process.token]
        ours = [f"job {other} on {node}, which is this machine too"]
    elif job is None and process.token:
        ours = ["left by a job that is over"]
    age = [] if process.age_s is None else [_age(process.age_s)]
    name = printable(program(process.command))[:40] or "?"
    return ", ".join([*ours, process.user or "unknown user", f"pid {process.pid}", name, memory, *age])


def _age(seconds: int) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"
