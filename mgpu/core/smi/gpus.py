"""`nvidia-smi --query-gpu=FIELDS --format=csv,noheader,nounits` -> GpuReadings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from mgpu.core.model import DeviceUuid
from mgpu.core.observation import GpuReading
from mgpu.core.smi.mig import MIG_INDEX
from mgpu.core.smi.text import SHOWN, WARNING, bus_id, bus_number, lines, number, value

# Every driver knows these; a row without them all is no row.
OLD_FIELDS = ("index", "uuid", "pci.bus_id", "name", "memory.total", "memory.used", "utilization.gpu")
# Those that an old driver does not know are left out, and that is remembered: see `probe` in the node's half.
FIELDS: tuple[str, ...] = (
    *OLD_FIELDS,
    "compute_mode",
    "mig.mode.current",
    "temperature.gpu",
    "power.draw",
    "ecc.errors.uncorrected.volatile.total",
    "remapped_rows.failure",
    "gpu_recovery_action",
)

MOST_GPUS = 64  # of one machine; what tells of more is not what we asked for
_NAME = OLD_FIELDS.index("name")
_UUID = re.compile(r"[0-9A-Za-z]+-[0-9A-Za-z-]{1,100}", re.ASCII)  # it names the lease on the node, too
_DEAD = re.compile(r"gpu is lost|requires reset|fallen off", re.IGNORECASE)
# What those that we use may say, if anything: a row that says something else is not what we take it for.
_WORDS = {
    "compute_mode": ("Default", "Exclusive_Thread", "Exclusive_Process", "Prohibited"),
    "mig.mode.current": ("Enabled", "Disabled"),
}
# What the driver itself says has to be done before the GPU can be used (nvidia-smi --help-query-gpu).
_RECOVERY = {"reset": "the GPU", "reboot": "the node", "drain and reset": "the GPU"}


def parse_gpus(fields: Sequence[str], text: str, notes: list[str]) -> tuple[GpuReading, ...]:
    """`fields`: those that were asked for, OLD_FIELDS first. What is no row goes to `notes`. Of more GPUs than a
    machine can have none is told, see `too_many`."""
    rows: list[GpuReading] = []
    errors: dict[tuple[int, ...], str] = {}
    told = lines(text, shown=None)
    if too_many(told):
        return ()
    for line in told:
        cells = [cell.strip() for cell in line.split(",")]
        if line.startswith(WARNING):
            notes.append(line[:200])
        elif len(cells) >= len(fields):
            rows.append(_reading(fields, cells))
        elif (slot := bus_number(line)) is not None and not cells[0].isdecimal():
            errors[slot] = line[:200]
        elif cells[0].isdecimal() and len(cells) > 1:
            fault = f"its row cannot be read: {line[:200]}"
            rows.append(GpuReading(_index(cells[0]), DeviceUuid(""), "", "", fault=fault))
        else:
            notes.append(line[:200])
    seen = {bus_number(row.bus_id) for row in rows}
    rows = [_with_error(row, errors) for row in rows]
    rows += [_lost(line) for slot, line in errors.items() if slot not in seen]
    return tuple(without_doubles(rows))


def too_many(told: Sequence[str]) -> bool:
    """Two lines for each GPU: its row, and what nvidia-smi has to say beside."""
    return len(told) > 2 * MOST_GPUS


def _reading(fields: Sequence[str], cells: list[str]) -> GpuReading:
    """From both ends, since a name might hold commas."""
    behind = len(fields) - _NAME - 1
    ends = [*cells[:_NAME], ", ".join(cells[_NAME : len(cells) - behind]), *cells[len(cells) - behind :]]
    cell = dict(zip(fields, ends, strict=True))
    index = _index(cell["index"])
    return GpuReading(
        index=index,
        uuid=DeviceUuid(cell["uuid"] if _UUID.fullmatch(cell["uuid"]) else ""),
        bus_id=value(cell["pci.bus_id"]),
        name=value(cell["name"]),
        memory_total_mib=number(cell["memory.total"]),
        memory_used_mib=number(cell["memory.used"]),
        utilization=number(cell["utilization.gpu"]),
        fault=_fault(cell, index),
        compute_mode=value(cell.get("compute_mode", "")),
        mig=cell.get("mig.mode.current", "") == "Enabled",
        temperature_c=number(cell.get("temperature.gpu", "")),
        power_w=number(cell.get("power.draw", "")),
        ecc_errors=number(cell.get("ecc.errors.uncorrected.volatile.total", "")),
    )


def _index(text: str) -> int | None:
    """Those from MIG_INDEX on are instances'."""
    index = number(text)
    return index if index is not None and index < MIG_INDEX else None


def _fault(cell: Mapping[str, str], index: int | None) -> str:
    """Only what we use may speak against a GPU: an error value in a field that is merely shown says nothing."""
    for text in cell.values():
        if _DEAD.search(text):
            return text.strip("[]")
    if index is None:
        return f"its index cannot be read: '{cell['index']}'"
    if not _UUID.fullmatch(cell["uuid"]):
        return f"its UUID cannot be read: '{cell['uuid'][:SHOWN]}'"
    for field, words in _WORDS.items():
        if value(cell.get(field, "")) not in ("", *words):
            return f"its {field} cannot be read: '{cell[field][:SHOWN]}'"
    action = cell.get("gpu_recovery_action", "").lower()
    if action in _RECOVERY:
        return f"the driver wants {_RECOVERY[action]} to be {'rebooted' if action == 'reboot' else 'reset'}"
    if cell.get("remapped_rows.failure", "").lower() in ("yes", "1"):
        return "its memory has faults that could not be mapped away (row remapping failed)"
    if cell.get("compute_mode", "") == "Prohibited":
        return "its compute mode is Prohibited: nvidia-smi -c 0 on the node allows jobs again"
    return ""


def _lost(line: str) -> GpuReading:
    return GpuReading(None, DeviceUuid(""), bus_id(line), "", fault=line)


def _with_error(row: GpuReading, errors: Mapping[tuple[int, ...], str]) -> GpuReading:
    slot = bus_number(row.bus_id)
    error = errors.get(slot, "") if slot else ""
    return replace(row, fault=error) if error and not row.fault else row


def without_doubles(rows: Sequence[GpuReading]) -> list[GpuReading]:
    """Two rows of one UUID or index cannot both be right: neither is given out."""
    uuids = Counter(row.uuid for row in rows if row.uuid)
    indices = Counter(row.index for row in rows if row.index is not None)

    def double(row: GpuReading) -> bool:
        return uuids[row.uuid] > 1 or (row.index is not None and indices[row.index] > 1)

    return [
        replace(row, fault="nvidia-smi reports its index or UUID twice") if double(row) and not row.fault else row
        for row in rows
    ]
