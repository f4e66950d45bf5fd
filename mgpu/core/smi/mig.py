"""MIG instances: devices of their own, from `nvidia-smi -L` (UUIDs and profiles) and the plain table (instance numbers
and memory). What the one calls Device 2 of a GPU is MIG Dev 2 in the other.

    GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-...)
      MIG 1g.10gb     Device  2: (UUID: MIG-...)

    | GPU  GI  CI  MIG |              Shared Memory-Usage | ...
    |  0    9   0   2  |               9MiB /  9984MiB    | ...
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from mgpu.core.model import DeviceUuid
from mgpu.core.observation import GpuReading
from mgpu.core.smi.text import lines

MOST_INSTANCES = 8 * 64  # of one machine
MIG_INDEX = 1000  # above every GPU's own
_GPU = re.compile(r"GPU (\d+): .*\(UUID: (GPU-[0-9A-Za-z-]+)\)", re.ASCII)
_INSTANCE = re.compile(r"MIG (\S+)\s+Device\s+(\d+): \(UUID: (MIG-[0-9A-Za-z/-]{1,100})\)", re.ASCII)
_ROW = re.compile(r"\|\s*(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s*\|\s*(\d+)MiB\s*/\s*(\d+)MiB\s*\|.*", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Row:
    instance: tuple[int, int]
    used_mib: int
    total_mib: int


def mig_index(gpu: int, device: int) -> int:
    """An index for an instance: 1000 + 100 x its GPU's + its own number there."""
    return MIG_INDEX + 100 * gpu + device


def label(index: int) -> str:
    """An index as people read it: 3, or 0.2 for instance 2 of GPU 0, or ? where nobody knows it any more."""
    if index < 0:
        return "?"
    return f"{(index - MIG_INDEX) // 100}.{index % 100}" if index >= MIG_INDEX else str(index)


def parse_label(text: str) -> int:
    """The index that `3` or `0.2` stands for."""
    gpu, dot, device = text.partition(".")
    return mig_index(int(gpu), int(device)) if dot else int(gpu)


def parse_instances(parents: Iterable[GpuReading], listed: str, table: str) -> list[GpuReading]:
    """The instances of all GPUs that are cut up. One whose numbers the table does not tell has `instance` None: then it
    cannot be said which processes are in it."""
    cut = {parent.uuid: parent for parent in parents if parent.mig and parent.uuid}
    rows = {(int(row[1]), int(row[4])): _row(row) for line in lines(table) if (row := _ROW.fullmatch(line))}
    found: list[GpuReading] = []
    parent: GpuReading | None = None
    for line in lines(listed)[: 2 * MOST_INSTANCES]:
        if head := _GPU.fullmatch(line):
            parent = cut.get(DeviceUuid(head[2]))
        elif parent is not None and parent.index is not None and (entry := _INSTANCE.fullmatch(line)):
            found.append(_instance(parent, parent.index, entry, rows.get((parent.index, int(entry[2])))))
    return found


def _row(row: re.Match[str]) -> _Row:
    return _Row((int(row[2]), int(row[3])), int(row[5]), int(row[6]))


def _instance(parent: GpuReading, index: int, entry: re.Match[str], row: _Row | None) -> GpuReading:
    return GpuReading(
        index=mig_index(index, int(entry[2])),
        uuid=DeviceUuid(entry[3]),
        bus_id=parent.bus_id,
        name=f"MIG {entry[1]}",
        memory_total_mib=row.total_mib if row else None,
        memory_used_mib=row.used_mib if row else None,
        fault=parent.fault,
        compute_mode=parent.compute_mode,
        parent=parent.uuid,
        instance=row.instance if row else None,
    )
