"""GPUs in words, and words that mean GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mgpu.core import payload as read
from mgpu.core.errors import RequestError
from mgpu.core.plan import DeviceView
from mgpu.core.smi.mig import label, parse_label

NO_UUID = "INDEX-"  # begins the name of a GPU that has none
_INDEX = r"\d{1,3}|\d{1,2}\.\d{1,2}"
_INDICES = re.compile(rf"(?P<first>{_INDEX})(?:-(?P<last>{_INDEX}))?", re.ASCII)
_MAX_INDICES = 1000


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


def parse_indices(given: str, where: str) -> tuple[int, ...]:
    """`0,2-3` -> (0, 2, 3); `0.2` and `0.0-0.3` are instances of GPU 0. Raises RequestError, with `where` first."""
    found: list[int] = []
    for word in map(str.strip, given.split(",")):
        ends = _INDICES.fullmatch(word)
        if ends is None:
            instance = ", or 0.2 for instance 2 of GPU 0" if "." in word else ""
            raise RequestError(f"{where}: '{read.shown(word)}' is not a GPU index: write 0,1 or 0-3{instance}")
        found += _range(word, ends["first"], ends["last"] or ends["first"], where)
        if len(found) > _MAX_INDICES:
            raise RequestError(f"{where} names more than {_MAX_INDICES} GPUs of one node")
    double = next((index for index in found if found.count(index) > 1), None)
    if double is not None:
        raise RequestError(f"{where} names GPU {label(double)} twice: each GPU is given once")
    return tuple(found)


def _range(word: str, first: str, last: str, where: str) -> range:
    if "." in first + last and first.partition(".")[:2] != last.partition(".")[:2]:
        raise RequestError(f"{where}: the range '{word}' is not of instances of one GPU, as 0.0-0.3 is")
    low, high = parse_label(first), parse_label(last)
    if low > high:
        raise RequestError(f"{where}: the range '{word}' runs backwards")
    return range(low, high + 1)
