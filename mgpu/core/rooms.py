"""What each node has to give while a plan is made, and what of it a request may use.

`feasible` says in words why a node cannot take a part; here is the same question asked ten thousand times a second, so
it says no more than yes or no. A test holds the two against each other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from mgpu.core import capacity as cap
from mgpu.core.feasible import Ask
from mgpu.core.gputype import kind_of
from mgpu.core.model import DeviceUuid, NodeName
from mgpu.core.plan import DeviceState, DeviceView, NodeView

Devices = tuple[DeviceView, ...]
Offer = Mapping[str, Devices]  # free devices by kind; one kind "" if kinds may differ
NOTHING: Offer = {}
NO_DEVICES: Offer = {"": ()}


class Room(NamedTuple):
    """`alike`: the kind of all its devices, if nothing tells them apart; None = each is looked at."""

    view: NodeView
    free: Devices
    alike: str | None


def room_of(view: NodeView, alike: str | None) -> Room:
    free = tuple([device for device in view.devices if device.state is DeviceState.FREE])
    return Room(view, free, alike)


def alike(view: NodeView) -> str | None:
    first = view.devices[0] if view.devices else None
    if first is None or not first.name:
        return None
    marks = {(device.kind, device.name, device.memory_total_mib, device.slice) for device in view.devices}
    return kind_of(first) if len(marks) == 1 and not first.slice else None


def offer(room: Room, ask: Ask, allowed: Collection[NodeName]) -> Offer:
    """NOTHING = no part of the job can start there now."""
    view, request = room.view, ask.request
    if not view.usable or view.exclusive is not None or view.name in ask.closed or view.name not in allowed:
        return NOTHING
    if request.exclusive and (view.jobs or not _all_free(room)):
        return NOTHING
    need = ask.need_on(view.name)
    if not need:
        return NO_DEVICES
    if len(room.free) < need:
        return NOTHING
    if room.alike is not None and not request.gpu_ids and not request.pins:
        if not cap.is_of_kind(room.free[0], ask.kinds) or not cap.has_memory(room.free[0], request):
            return NOTHING
        return {"" if request.mixed else room.alike: room.free}
    indices = cap.wanted_indices(request, view)
    groups: dict[str, list[DeviceView]] = {}
    for device in room.free:
        if cap.qualifies(device, indices, request, ask.kinds):
            groups.setdefault("" if request.mixed else kind_of(device), []).append(device)
    return {kind: tuple(devices) for kind, devices in groups.items() if len(devices) >= need}


def _all_free(room: Room) -> bool:
    sound = sum(1 for device in room.view.devices if device.state is not DeviceState.UNHEALTHY)
    return sound == len(room.free)


def without(room: Room, uuids: Collection[DeviceUuid]) -> Room:
    return room._replace(free=tuple([device for device in room.free if device.uuid not in uuids]))
