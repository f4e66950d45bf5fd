"""What node.sh brought back -> an Observation. Nothing here may raise on what a node prints, or take doubt for free.

nvidia-smi mixes error lines into its rows, leaves values out in several spellings and names processes that are gone.
Rows are kept by their own index, UUID and bus id. A value that we only show may be missing; an index or UUID that
cannot be read makes that GPU faulty; a process row that cannot be read makes its GPU taken, and all of them where it
does not say which.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from mgpu.core.model import DeviceUuid, NodeName
from mgpu.core.observation import GpuProcess, GpuReading, Observation, RawProbe

GPU_FIELDS = ("index", "uuid", "pci.bus_id", "name", "memory.total", "memory.used", "utilization.gpu")
APP_FIELDS = ("gpu_uuid", "pid", "used_memory")

UNREADABLE_PID = 0  # stands for a process whose row could not be read

_BUS_ID = re.compile(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-9A-Fa-f])")
_NUMBER = re.compile(r"(\d{1,12})(?:\.\d+)?(?: ?(?:MiB|%))?", re.ASCII)
_DEAD = re.compile(r"gpu is lost|requires reset|fallen off", re.IGNORECASE)
_NO_VALUE = frozenset({"", "n/a", "err!", "unknown error", "not supported"})
_HUNG = (124, 137)
_MISMATCH = 18
_SHOWN = 200  # characters of a node's own words in ours


def parse_probe(node: NodeName, raw: RawProbe, now: float) -> Observation:
    notes: list[str] = []
    gpus = _parse_gpus(raw.gpu_text, notes)
    fault = _gpu_fault(raw, any(gpu.index is not None for gpu in gpus))
    processes: tuple[GpuProcess, ...] = ()
    if not fault:
        if raw.gpu_status:
            notes.append(f"nvidia-smi ended with exit status {raw.gpu_status}")
        processes, fault = _parse_processes(raw, gpus, notes)
    return Observation(
        node=node,
        at=now,
        boot_id=raw.boot_id,
        hostname=raw.hostname,
        gpus=gpus,
        processes=processes,
        fault=fault,
        clock_offset_s=raw.epoch_s - now,
        notes=tuple(notes),
    )


def bus_number(text: str) -> tuple[int, ...] | None:
    """Domain, bus, device, function: the same slot is written 0000:0A:00.0 and 00000000:0a:00.0."""
    found = _BUS_ID.search(text)
    return tuple(int(part, 16) for part in found.groups()) if found else None


def renumbered(observation: Observation) -> bool:
    """CUDA may count the GPUs otherwise than nvidia-smi does: it leaves out those that do not work, so the ones behind
    them move up. Then only a UUID says which is meant."""
    indices = sorted(reading.index for reading in observation.gpus if reading.index is not None)
    return indices != list(range(len(indices))) or any(reading.fault for reading in observation.gpus)


# --- GPUs -----------------------------------------------------------------------------------------------------------


def _parse_gpus(text: str, notes: list[str]) -> tuple[GpuReading, ...]:
    rows: list[GpuReading] = []
    errors: dict[tuple[int, ...], str] = {}
    for line in _lines(text):
        fields = [field.strip() for field in line.split(",")]
        if len(fields) >= len(GPU_FIELDS):
            rows.append(_reading(fields))
        elif (slot := bus_number(line)) is not None and not fields[0].isdecimal():
            errors[slot] = line
        elif fields[0].isdecimal() and len(fields) > 1:
            rows.append(GpuReading(_number(fields[0]), DeviceUuid(""), "", "", fault=f"its row cannot be read: {line}"))
        else:
            notes.append(line)
    seen = {bus_number(row.bus_id) for row in rows}
    rows = [_with_error(row, errors) for row in rows]
    rows += [_lost(line) for slot, line in errors.items() if slot not in seen]
    return tuple(_without_doubles(rows))


def _reading(fields: list[str]) -> GpuReading:
    """From both ends, since a name might hold commas."""
    index, uuid = _number(fields[0]), fields[1]
    total, used, utilization = (_number(field) for field in fields[-3:])
    dead = next((field.strip("[]") for field in fields if _DEAD.search(field)), "")
    fault = dead
    if not fault and index is None:
        fault = f"its index cannot be read: '{fields[0]}'"
    if not fault and _absent(uuid):
        fault = f"its UUID cannot be read: '{uuid}'"
    return GpuReading(
        index=index,
        uuid=DeviceUuid("" if _absent(uuid) or _DEAD.search(uuid) else uuid),
        bus_id="" if _absent(fields[2]) else fields[2],
        name=_value(", ".join(fields[3:-3])),
        memory_total_mib=total,
        memory_used_mib=used,
        utilization=utilization,
        fault=fault,
    )


def _lost(line: str) -> GpuReading:
    found = _BUS_ID.search(line)
    return GpuReading(None, DeviceUuid(""), found.group() if found else "", "", fault=line)


def _with_error(row: GpuReading, errors: Mapping[tuple[int, ...], str]) -> GpuReading:
    slot = bus_number(row.bus_id)
    error = errors.get(slot, "") if slot else ""
    return replace(row, fault=error) if error and not row.fault else row


def _without_doubles(rows: list[GpuReading]) -> list[GpuReading]:
    """Two rows of one UUID or index cannot both be right: neither is given out."""
    uuids = Counter(row.uuid for row in rows if row.uuid)
    indices = Counter(row.index for row in rows if row.index is not None)

    def double(row: GpuReading) -> bool:
        return uuids[row.uuid] > 1 or (row.index is not None and indices[row.index] > 1)

    return [
        replace(row, fault="nvidia-smi reports its index or UUID twice") if double(row) and not row.fault else row
        for row in rows
    ]


def _gpu_fault(raw: RawProbe, any_row: bool) -> str:
    """Why no GPU of the node can be trusted, and what to do; "" = the rows hold."""
    text = raw.gpu_text
    first = next(iter(_lines(text)), "it printed nothing")
    if raw.gpu_status in _HUNG:
        return "nvidia-smi hung and was killed: look at dmesg on the node, a reboot may be needed"
    if raw.gpu_status == _MISMATCH or "version mismatch" in text:
        return f"NVIDIA driver and library differ after an upgrade: reboot the node ({first})"
    if any_row:
        return ""
    if raw.gpu_status == 127 or not raw.smi_path:
        where = f" in PATH={raw.searched}" if raw.searched else ""
        return f"nvidia-smi not found{where}: set nvidia_smi for this node in the inventory"
    if "No devices were found" in text:
        return "nvidia-smi finds no GPUs: check the driver with dmesg on the node, or use the node with --gpus 0"
    if "communicate with the NVIDIA driver" in text:
        return "the NVIDIA driver is not running: load or install it on the node (nvidia-smi says so)"
    return f"nvidia-smi gave no GPUs (exit status {raw.gpu_status}): {first}"


# --- processes ------------------------------------------------------------------------------------------------------


def _parse_processes(
    raw: RawProbe, gpus: tuple[GpuReading, ...], notes: list[str]
) -> tuple[tuple[GpuProcess, ...], str]:
    """The processes, and the fault that makes all GPUs unknown: then nobody knows which are in use."""
    known = {gpu.uuid for gpu in gpus if gpu.uuid}
    details = _details(raw.process_text, notes)
    found: list[GpuProcess] = []
    excused = False
    for line in _lines(raw.apps_text):
        fields = [field.strip() for field in line.split(",")]
        uuid = DeviceUuid(fields[0])
        if uuid in known:
            found.append(_process(uuid, fields, details, notes))
        elif bus_number(line) is not None and len(fields) < len(APP_FIELDS):
            excused = True  # the line of a lost GPU, which also explains the exit status
        elif uuid.startswith("GPU-"):
            notes.append(f"a process on a GPU that is not listed: {line}")
        elif not (raw.apps_status == 0 and line.lower().startswith("no running")):
            notes.append(line)
            return tuple(found), f"nvidia-smi's list of processes cannot be read, all GPUs count as taken: {line}"
    if raw.apps_status and not excused:
        return tuple(found), f"nvidia-smi could not list processes (exit status {raw.apps_status})"
    return tuple(found), ""


def _process(uuid: DeviceUuid, fields: list[str], details: dict[int, GpuProcess], notes: list[str]) -> GpuProcess:
    """From both ends, since a name between pid and memory may hold commas."""
    pid = _number(fields[1]) if len(fields) > 1 else None
    memory = _number(fields[-1]) if len(fields) >= len(APP_FIELDS) else None
    if not pid:
        notes.append("unreadable process row: " + ", ".join(fields))
        return GpuProcess(UNREADABLE_PID, uuid, memory)
    known = details.get(pid)
    if known is None:
        return GpuProcess(pid, uuid, memory, exists=False)
    return replace(known, uuid=uuid, memory_mib=memory)


def _details(text: str, notes: list[str]) -> dict[int, GpuProcess]:
    """`pid user age_s session token command`; the command comes last and may hold spaces, or be missing."""
    found: dict[int, GpuProcess] = {}
    for line in _lines(text, shown=None):
        fields = line.split(None, 5)
        pid = _number(fields[0])
        if pid is None:
            notes.append(f"unreadable process: {line[:_SHOWN]}")
            continue
        user, age, session, token, command = (*fields[1:], "", "", "", "", "")[:5]
        found[pid] = GpuProcess(
            pid,
            DeviceUuid(""),
            user=user,
            command=command,
            age_s=_number(age),
            session=_number(session),
            token="" if token == "-" else token,
        )
    return found


# --- values ---------------------------------------------------------------------------------------------------------


def _lines(text: str, shown: int | None = _SHOWN) -> list[str]:
    return [line.strip()[:shown] for line in text.split("\n") if line.strip()]


def _absent(text: str) -> bool:
    return text.startswith("[") or text.lower() in _NO_VALUE


def _value(text: str) -> str:
    return "" if _absent(text) else text


def _number(text: str) -> int | None:
    found = _NUMBER.fullmatch(text)
    return int(found[1]) if found else None
