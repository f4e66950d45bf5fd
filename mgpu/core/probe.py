"""What the node brought back -> an Observation. Nothing here may raise on what a node prints, or take doubt for
free."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mgpu.core.model import DeviceUuid, NodeName
from mgpu.core.observation import GpuProcess, GpuReading, Machine, Observation, RawProbe
from mgpu.core.signals import signal_name
from mgpu.core.smi.facts import HUNG, KIB, STILL_HANGS, TOO_MUCH, parse_machine, parse_obstructed, parse_trouble
from mgpu.core.smi.gpus import MOST_GPUS, OLD_FIELDS, parse_gpus, too_many, without_doubles
from mgpu.core.smi.mig import parse_instances
from mgpu.core.smi.processes import MOST_PROCESSES, SmiProcess, SmiProcesses, parse_processes
from mgpu.core.smi.text import SHOWN, bus_number, lines, number

UNREADABLE_PID = 0  # of a process whose number could not be read
UNTOLD_PID = -1  # stands for all of a GPU of which nvidia-smi does not tell the processes

_MISMATCH = 18
_MOST_NOTES = 20


def parse_probe(node: NodeName, raw: RawProbe, now: float, before: Observation | None = None) -> Observation:
    """`before`: the last one, for facts that are not asked for every time."""
    notes: list[str] = []
    gpus = parse_gpus(raw.fields if raw.fields[: len(OLD_FIELDS)] == OLD_FIELDS else OLD_FIELDS, raw.gpu_text, notes)
    fault = _gpu_fault(raw, any(gpu.index is not None for gpu in gpus))
    gpus = (*gpus, *without_doubles(parse_instances(gpus, raw.mig_list, raw.mig_table)))
    known = before if before is not None and before.boot_id == raw.boot_id else None
    if known:
        gpus = tuple(_identified(gpus, known) if gpus else map(_of_before, known.gpus))
    obstructed = parse_obstructed(raw.obstructed)
    if obstructed:
        gpus = tuple(replace(gpu, doubt=obstructed.get(gpu.uuid, "")) for gpu in gpus)
    told = parse_processes(raw.pids_text)
    processes: tuple[GpuProcess, ...] = ()
    if not fault:
        if raw.gpu_status:
            notes.append(f"nvidia-smi ended with exit status {raw.gpu_status}")
        if (why := _cut_short(raw.pids_status)) or told.too_many or (raw.pids_status and not told.by_slot):
            why = why or ("far too many" if told.too_many else f"exit status {raw.pids_status}")
            fault = f"nvidia-smi could not list processes ({why})"
        else:
            found = _processes(gpus, told, raw.process_text, notes)
            processes = tuple(_with_age(process, now, known) for process in found)
    return Observation(
        node=node,
        at=now,
        boot_id=raw.boot_id,
        hostname=raw.hostname,
        gpus=gpus,
        gone=tuple(_gone(gpus, known)) if known else (),
        processes=processes,
        fault=fault,
        clock_offset_s=_clock_offset(raw, now, known),
        notes=tuple(notes[:_MOST_NOTES]),
        trouble=parse_trouble(raw),
        machine=parse_machine(raw, told.driver, told.cuda, known.machine if known else Machine()),
        smi_took_s=raw.took_s,
        hangs=1 + (known.hangs if known else 0) if {raw.gpu_status, raw.pids_status} & {HUNG, STILL_HANGS} else 0,
    )


def _identified(gpus: tuple[GpuReading, ...], known: Observation) -> Iterable[GpuReading]:
    """Of a GPU that is lost no more than its slot is told; which one was there is known from before."""
    uuids, indices = {gpu.uuid for gpu in gpus}, {gpu.index for gpu in gpus}
    before = {bus_number(gpu.bus_id): gpu for gpu in known.gpus if gpu.uuid and gpu.parent is None}
    for gpu in gpus:
        slot = bus_number(gpu.bus_id)
        was = before.get(slot) if slot and not gpu.uuid else None
        if was is None or was.uuid in uuids:
            yield gpu
        else:
            index = was.index if gpu.index is None and was.index not in indices else gpu.index
            yield replace(gpu, index=index, uuid=was.uuid, name=gpu.name or was.name)


def _gone(gpus: tuple[GpuReading, ...], known: Observation) -> Iterable[GpuReading]:
    """An index is an old one's only while no other has it."""
    uuids, indices = {gpu.uuid for gpu in gpus}, {gpu.index for gpu in gpus}
    whole = [gpu for gpu in (*known.gpus, *known.gone) if gpu.uuid and gpu.parent is None]
    for gpu in [gpu for gpu in whole if gpu.uuid not in uuids][:MOST_GPUS]:
        yield replace(_of_before(gpu), index=None if gpu.index in indices else gpu.index)


def _of_before(gpu: GpuReading) -> GpuReading:
    """Of a GPU that was seen since the node has booted: that it was there, not how it was."""
    return replace(
        gpu, doubt="", memory_used_mib=None, utilization=None, temperature_c=None, power_w=None, ecc_errors=None
    )


def _with_age(process: GpuProcess, now: float, known: Observation | None) -> GpuProcess:
    """Nobody tells how long it is that a process is gone: it counts from when we first missed it."""
    if process.exists or not process.pid:
        return process
    gone = (each for each in known.processes if not each.exists) if known else ()
    before = next((each for each in gone if (each.pid, each.uuid) == (process.pid, process.uuid)), None)
    age_s = 0 if before is None or known is None else (before.age_s or 0) + max(0, round(now - known.at))
    return replace(process, age_s=age_s)


def _clock_offset(raw: RawProbe, now: float, known: Observation | None) -> float:
    if raw.epoch_s is None:
        return known.clock_offset_s if known else 0.0
    return raw.epoch_s - now


def renumbered(observation: Observation) -> bool:
    """CUDA may count the GPUs otherwise than nvidia-smi does: it leaves out those that do not work, so the ones behind
    them move up, and those that are cut up are no devices to it; and it counts in the order of the slots, as we ask it
    to. Then only a UUID says which is meant."""
    whole = [reading for reading in observation.gpus if reading.parent is None]
    slots = {reading.index: bus_number(reading.bus_id) for reading in whole if reading.index is not None}
    indices = sorted(slots)
    known = [slot for index in indices if (slot := slots[index])]
    moved = indices != list(range(len(indices))) or known != sorted(known)
    return moved or any(reading.fault or reading.mig for reading in whole)


def _gpu_fault(raw: RawProbe, any_row: bool) -> str:
    """Why no GPU of the node can be trusted, and what to do; "" = the rows hold."""
    text = raw.gpu_text
    told = lines(text)
    first = next(iter(told), "it printed nothing")
    if raw.gpu_status == HUNG:
        return "nvidia-smi hung and was killed: look at dmesg on the node, a reboot may be needed"
    if raw.gpu_status == STILL_HANGS:
        return "nvidia-smi hangs and cannot be ended: look at dmesg on the node, a reboot may be needed"
    if how := _cut_short(raw.gpu_status):
        return f"nvidia-smi {how}"
    if raw.gpu_status == _MISMATCH or "version mismatch" in text:
        return f"NVIDIA driver and library differ after an upgrade: reboot the node ({first})"
    if any_row:
        return ""
    if too_many(told):
        return f"nvidia-smi printed {len(told)} lines: not its usual output; run it on the node"
    if raw.gpu_status == 127 and raw.smi_path:
        return f"{raw.smi_path} is not there or cannot be run: see nvidia_smi of this node in the inventory"
    if not raw.smi_path:
        where = f" (not in PATH={raw.searched})" if raw.searched else ""
        return f"nvidia-smi not found: install NVIDIA's driver there, or set nvidia_smi in the inventory{where}"
    if "No devices were found" in text:
        return "nvidia-smi finds no GPUs: check the driver with dmesg on the node, or use the node with --gpus 0"
    if "communicate with the NVIDIA driver" in text:
        return "the NVIDIA driver is not running: load or install it on the node (nvidia-smi says so)"
    return f"nvidia-smi gave no GPUs (exit status {raw.gpu_status}): run it on the node ({first})"


def _cut_short(status: int) -> str:
    """Why what it printed is not all that it had to say; "" = it is."""
    if status == HUNG:
        return "it took too long"
    if status == TOO_MUCH:
        return f"printed more than {KIB} KiB: not its usual output; run it on the node"
    if not 128 < status <= 128 + 64:
        return ""
    return f"was ended by {signal_name(status - 128)}: look for who did that, and at dmesg on the node"


# --- processes ------------------------------------------------------------------------------------------------------


def _processes(
    gpus: tuple[GpuReading, ...], told: SmiProcesses, process_text: str, notes: list[str]
) -> Iterable[GpuProcess]:
    """Of a GPU of which nobody told the processes one stands for whoever may be there."""
    details = _details(process_text, notes)
    whole = [gpu for gpu in gpus if gpu.parent is None]
    in_order = list(told.by_slot.values()) if len(told.by_slot) == len(whole) else []
    for place, gpu in enumerate(whole):
        if not gpu.uuid:
            continue
        slot = bus_number(gpu.bus_id)
        seen = told.by_slot.get(slot) if slot else None
        if slot is None and in_order:
            seen = in_order[place]
        if seen is None:
            if not gpu.fault:
                notes.append(f"GPU {gpu.index}: nvidia-smi does not tell its processes")
                seen = [SmiProcess(UNTOLD_PID)]
            else:
                seen = []
        for process in seen:
            for uuid in _places(gpu, gpus, process):
                yield _process(uuid, process, details, notes)


def _places(gpu: GpuReading, gpus: tuple[GpuReading, ...], process: SmiProcess) -> list[DeviceUuid]:
    """The devices that it may be on: the GPU; of one that is cut up its instance, or all of them where that is not
    known."""
    instances = [other for other in gpus if other.parent == gpu.uuid]
    if not instances:
        return [gpu.uuid]
    exact = [other.uuid for other in instances if process.instance and other.instance == process.instance]
    return exact or [other.uuid for other in instances]


def _process(uuid: DeviceUuid, seen: SmiProcess, details: dict[int, GpuProcess], notes: list[str]) -> GpuProcess:
    if seen.pid == UNTOLD_PID:
        return GpuProcess(UNTOLD_PID, uuid, exists=False)
    if not seen.pid:
        notes.append(f"a process on {uuid} whose number cannot be read")
        return GpuProcess(UNREADABLE_PID, uuid, seen.memory_mib, kind=seen.kind)
    known = details.get(seen.pid)
    if known is None:
        return GpuProcess(seen.pid, uuid, seen.memory_mib, exists=False, kind=seen.kind)
    return replace(known, uuid=uuid, memory_mib=seen.memory_mib, kind=seen.kind)


def _details(text: str, notes: list[str]) -> dict[int, GpuProcess]:
    """`pid user age_s session token command`, "-" for what is not told; the command comes last and may hold spaces, or
    be missing."""
    found: dict[int, GpuProcess] = {}
    for line in lines(text, shown=None)[:MOST_PROCESSES]:
        fields = line.split(None, 5)
        pid = number(fields[0])
        if pid is None:
            notes.append(f"unreadable process: {line[:SHOWN]}")
            continue
        user, age, session, token, command = ("" if told == "-" else told for told in (*fields[1:], *[""] * 5)[:5])
        found[pid] = GpuProcess(
            pid,
            DeviceUuid(""),
            user=user,
            command=command,
            age_s=number(age),
            session=number(session),
            token=token,
        )
    return found
