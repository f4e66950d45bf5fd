"""Drain and resume: an operator's word about a node or single GPUs of it, named by index and remembered by UUID."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mgpu import clock
from mgpu.core import payload as read
from mgpu.core.errors import RequestError
from mgpu.core.marks import Order
from mgpu.core.model import DeviceUuid, NodeName, NodeState
from mgpu.core.observation import Mark, Node
from mgpu.core.plan import NodeView
from mgpu.core.smi.mig import label
from mgpu.ops.context import Caller, Context, require_operator
from mgpu.ops.nodes import show_node
from mgpu.ops.render import Json, said

_KEYS = ("gpus", "reason")
_RANGE = re.compile(r"(\d{1,4})-(\d{1,4})", re.ASCII)
_MOST_GPUS = 256
_LONGEST_REASON = 300
_LOST = "?"  # the index of a GPU that nvidia-smi no longer tells


def drain(context: Context, caller: Caller, name: str, payload: Mapping[str, Any]) -> Json:
    """Nothing new starts there until it is resumed; what runs goes on. `gpus` absent = the whole node."""
    return _order(context, caller, name, payload, drain=True)


def resume(context: Context, caller: Caller, name: str, payload: Mapping[str, Any]) -> Json:
    """Also clears the suspicion against the GPUs named. Those drained one by one are resumed one by one."""
    return _order(context, caller, name, payload, drain=False)


def _order(context: Context, caller: Caller, name: str, payload: Mapping[str, Any], drain: bool) -> Json:
    require_operator(context, caller, f"{'drain' if drain else 'resume'} nodes")
    config = context.node_config(name)
    read.only_keys(payload, _KEYS, "the key")
    reason = read.line({"--reason": payload.get("reason")}, "--reason", _LONGEST_REASON).strip()
    words = _words(payload.get("gpus"))
    view = next((view for view in context.control.views() if view.name == config.name), None)
    before = _stored(context, config.name)
    gpus = _devices(name, words, before, view)
    order = Order(drain, caller.user, said(clock.now()), reason, tuple(gpus), caller.uid, caller.origin)
    context.control.order(config.name, order)
    context.waker.wake()
    after = _stored(context, config.name)
    shown = show_node(context, caller, name)
    return {
        "node_id": config.name,
        "gpus": list(gpus.values()),
        "changed": _held_against(after) != _held_against(before),
        "state": shown["state"],
        "reason": shown["reason"],
        "running": _running(context, config.name, gpus),
        "still_drained": [gpu_label(gpu["index"]) for gpu in shown["gpus"] if gpu["drain"]],
    }


def gpu_label(index: int | None) -> str:
    return _LOST if index is None else label(index)


def _stored(context: Context, name: NodeName) -> Node:
    with context.store.read() as r:
        return r.node(name) or Node(name)


def _held_against(node: Node) -> tuple[tuple[Mark, ...], bool]:
    return node.marks, node.state in (NodeState.DRAINING, NodeState.DRAINED)


def _running(context: Context, name: NodeName, gpus: Mapping[DeviceUuid, str]) -> list[int]:
    with context.store.read() as r:
        parts = r.open_parts()
    there = [part for part in parts if part.node == name and part.state.holds_devices]
    return sorted({part.job_id for part in there if not gpus or not gpus.keys().isdisjoint(part.uuids)})


# --- which GPUs -----------------------------------------------------------------------------------------------------


def _words(given: object) -> list[str]:
    """`0`, `0.2`, UUIDs; a range `0-3` is written out."""
    if given is None:
        return []
    if not isinstance(given, list) or not given or not all(isinstance(each, (str, int)) for each in given):
        raise RequestError("gpus must be a list of GPU indices or UUIDs", "leave it out for the whole node")
    words: list[str] = []
    for each in given:
        word = read.checked_text(str(each), "gpus", 100).strip()
        words += _range(*map(int, ends.groups())) if (ends := _RANGE.fullmatch(word)) else [word]
        if len(words) > _MOST_GPUS:
            raise RequestError(f"more than {_MOST_GPUS} GPUs of one node are named")
    return words


def _range(first: int, last: int) -> list[str]:
    if first > last:  # it would name no GPU, and without any the whole node is meant
        raise RequestError(f"gpus: the range '{first}-{last}' runs backwards")
    return [str(index) for index in range(first, last + 1)]


def _devices(name: str, words: Sequence[str], node: Node, view: NodeView | None) -> dict[DeviceUuid, str]:
    """What is known of each, by UUID: its label. Raises RequestError for one that the node does not have."""
    if not words:
        return {}
    there = _known(node, view)
    by_word = {shown: uuid for uuid, shown in there.items() if shown != _LOST}
    by_word |= {str(uuid): uuid for uuid in there}
    unknown = [word for word in words if word not in by_word]
    if unknown:
        missing = ",".join(read.shown(word) for word in unknown)
        if not there:
            raise RequestError(f"{name} has no GPU {missing}: its GPUs are not known yet", f"mgpu node probe {name}")
        listed = ",".join(shown if shown != _LOST else uuid for uuid, shown in there.items())
        raise RequestError(f"{name} has no GPU {missing}: its GPUs are {listed}")
    return {by_word[word]: there[by_word[word]] for word in words}


def _known(node: Node, view: NodeView | None) -> dict[DeviceUuid, str]:
    """Of mgpu's own devices there, those that are cut up too, those that were there before, and those that something is
    held against."""
    devices: Iterable[tuple[DeviceUuid, int | None]] = (
        (device.uuid, device.index if device.index >= 0 else None) for device in (view.devices if view else ())
    )
    found = {uuid: gpu_label(index) for uuid, index in devices if uuid}
    readings = {gpu.uuid: gpu for gpu in (node.observation.gpus if node.observation else ()) if gpu.uuid}
    for uuid in [gpu.parent for gpu in readings.values() if gpu.parent and gpu.uuid in found]:
        found.setdefault(uuid, gpu_label(readings[uuid].index if uuid in readings else None))
    gone = node.observation.gone if node.observation else ()
    marked = {mark.device for mark in node.marks if mark.device}
    for gpu in gone:
        if gpu.uuid in marked or gpu.index is not None:
            found.setdefault(gpu.uuid, gpu_label(gpu.index))
    for device in marked:
        found.setdefault(device, _LOST)
    return found
