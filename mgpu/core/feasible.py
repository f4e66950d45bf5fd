"""Can this node start a part of this request now, and if not, why: ordered rules, the first match is the reason.

The planner asks `rooms`, which says no more than yes or no; a test holds the two against each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from mgpu.core import capacity as cap
from mgpu.core import claims
from mgpu.core.amounts import gib
from mgpu.core.ask import STATIC_RULES, Ask
from mgpu.core.devices import describe, indices, labels
from mgpu.core.gputype import kind_of
from mgpu.core.plan import DeviceState, DeviceView, NodeView


@dataclass(frozen=True, slots=True)
class Verdict:
    """`reason` "" = a part could start there now, on `free` devices by kind (one kind "" if kinds may differ).
    `of_host`: GPUs are free, and cores or memory are not."""

    reason: str
    free: dict[str, tuple[DeviceView, ...]] = field(default_factory=dict)
    of_host: bool = False


def examine(node: NodeView, ask: Ask) -> Verdict:
    for rule in RULES:
        if reason := rule(node, ask):
            return Verdict(reason)
    need = ask.need_on(node.name)
    most = claims.gpus_within(claims.left(node), ask.request, node.share)
    short = most is not None and most < need
    if not need:
        return Verdict(claims.short(node, ask.request, 0), of_host=True) if short else Verdict("", {"": ()})
    free = [device for device in _candidates(node, ask) if device.state is DeviceState.FREE]
    groups: dict[str, list[DeviceView]] = {}
    for device in free:
        groups.setdefault("" if ask.request.mixed else kind_of(device), []).append(device)
    enough = {kind: tuple(devices) for kind, devices in groups.items() if len(devices) >= need}
    if not enough:
        return Verdict(_busy(node, ask))
    if short:
        return Verdict(claims.short(node, ask.request, need), of_host=True)
    return Verdict("", {kind: within(devices, most) for kind, devices in enough.items()})


def partly(node: NodeView, ask: Ask) -> str:
    """Of a node that could take a part of a job that does not fit: what is missing there."""
    busy = _busy(node, ask) if any(d.state is not DeviceState.FREE for d in _candidates(node, ask)) else ""
    return f"could take a part, but not all of the job fits{f' ({busy})' if busy else ''}"


def within(devices: tuple[DeviceView, ...], most: int | None) -> tuple[DeviceView, ...]:
    """So many of them as cores and memory are there for, suspects last."""
    if most is None or most >= len(devices):
        return devices
    return tuple(sorted(devices, key=lambda device: device.suspect)[:most])


# --- the rules ------------------------------------------------------------------------------------------------------


def _unusable(node: NodeView, ask: Ask) -> str:
    if node.usable:
        return ask.closed[node.name].reason if node.name in ask.closed else ""
    return node.reason or "not usable"


def _taken_alone(node: NodeView, ask: Ask) -> str:
    return "" if node.exclusive is None else f"job {node.exclusive} has the node for itself alone"


def _not_empty(node: NodeView, ask: Ask) -> str:
    if not ask.request.exclusive:
        return ""
    if node.jobs:
        return f"{node.jobs} job{'' if node.jobs == 1 else 's'} there, --exclusive needs an empty node"
    taken = [d for d in node.devices if d.state not in (DeviceState.FREE, DeviceState.UNHEALTHY)]
    return f"--exclusive needs all its GPUs free: {describe(taken)}" if taken else ""


def _no_gpus(node: NodeView, ask: Ask) -> str:
    if not ask.need_on(node.name) or any(device.state is not DeviceState.UNKNOWN for device in node.devices):
        return ""
    return node.reason or describe(node.devices) or "no GPUs seen there"


def _no_such_index(node: NodeView, ask: Ask) -> str:
    there = {device.index for device in node.devices}
    missing = [str(index) for index in cap.wanted_indices(ask.request, node) if index not in there]
    return f"has no GPU {','.join(missing)} (it has {indices(node.devices)})" if missing else ""


def _wrong_kind(node: NodeView, ask: Ask) -> str:
    if not ask.need_on(node.name) or any(cap.is_of_kind(device, ask.kinds) for device in node.devices):
        return ""
    return f"its GPUs are {labels(node.devices)}, not {' or '.join(ask.request.gpu_types)}"


def _too_small(node: NodeView, ask: Ask) -> str:
    if not ask.need_on(node.name) or any(cap.has_memory(device, ask.request) for device in node.devices):
        return ""
    known = [device.memory_total_mib for device in node.devices if device.memory_total_mib]
    wanted = gib(ask.request.gpu_memory_mib or 0)
    return f"its GPUs have {gib(max(known))}, {wanted} asked" if known else f"GPU memory unknown, {wanted} asked"


def _too_few(node: NodeView, ask: Ask) -> str:
    need = ask.need_on(node.name)
    found = Counter("" if ask.request.mixed else kind_of(device) for device in _candidates(node, ask))
    unknown = found.pop("", 0)  # may be of any kind: that it is not free is another rule's reason
    if max(found.values(), default=0) + unknown >= need:
        return ""
    have = sum(found.values()) + unknown
    if have >= need:
        return f"its GPUs are of several kinds ({labels(node.devices)}), the job needs {need} of one"
    short = f"has {have} such GPU{'' if have == 1 else 's'}, the job needs {need}"
    return f"{short} ({node.reason})" if node.reason else short


RULES: tuple[Callable[[NodeView, Ask], str], ...] = (
    *STATIC_RULES,
    _unusable,
    _taken_alone,
    _not_empty,
    _no_gpus,
    _no_such_index,
    _wrong_kind,
    _too_small,
    _too_few,
)


def _candidates(node: NodeView, ask: Ask) -> list[DeviceView]:
    return cap.qualifying(node, ask.request, ask.kinds)


def _busy(node: NodeView, ask: Ask) -> str:
    devices = _candidates(node, ask)
    free = [device for device in devices if device.state is DeviceState.FREE]
    taken = [device for device in devices if device.state is not DeviceState.FREE]
    busy = f"{len(devices)} GPU{'' if len(devices) == 1 else 's'}, {len(free)} free; {describe(taken)}"
    # what the devices say already needs no second word
    said = node.reason.startswith(("degraded:", "slow:")) or node.reason in busy
    return busy if said else f"{busy} ({node.reason})"
