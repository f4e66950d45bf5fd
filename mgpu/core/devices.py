"""GPUs in words."""

from __future__ import annotations

from collections.abc import Iterable

from mgpu.core.plan import DeviceView
from mgpu.core.smi.mig import label


def describe(devices: Iterable[DeviceView]) -> str:
    """`GPU 0,1 held by job 12, GPU 2 external (alice, pid 4242)`: devices grouped by their reason."""
    groups: dict[str, list[DeviceView]] = {}
    for device in devices:
        groups.setdefault(device.reason or str(device.state), []).append(device)
    return ", ".join(f"GPU {indices(group)} {reason}" for reason, group in groups.items())


def indices(devices: Iterable[DeviceView]) -> str:
    """`0,1,2`"""
    return listed(device.index for device in devices)


def listed(found: Iterable[int]) -> str:
    """`1,0.0,0.1` where GPU 0 is cut up"""
    return ",".join(map(label, found))


def labels(devices: Iterable[DeviceView]) -> str:
    return ", ".join(dict.fromkeys(device.kind or device.name or "unknown" for device in devices))
