"""The nodes: what is there, who has it, and whether they are who they say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from mgpu import clock
from mgpu.config.model import NodeConfig
from mgpu.core.devices import NO_UUID
from mgpu.core.errors import RequestError
from mgpu.core.model import AttemptState, DeviceUuid, NodeName
from mgpu.core.observation import Node
from mgpu.core.plan import NodeView
from mgpu.ops import render
from mgpu.ops.context import Caller, Context, HostKey, record, require_operator
from mgpu.ops.named import call_by_name
from mgpu.ops.privacy import sight_of
from mgpu.ops.render import Json
from mgpu.store.filters import JobFilter


def list_nodes(context: Context, caller: Caller) -> Json:
    """In the inventory's order."""
    return {"nodes": _rendered(context, caller, context.config.nodes)}


def show_node(context: Context, caller: Caller, name: str) -> Json:
    return _rendered(context, caller, [context.node_config(name)])[0]


def _rendered(context: Context, caller: Caller, configs: Sequence[NodeConfig]) -> list[Json]:
    # the views first: just after a start they are worth waiting for, and then the rows are the newer ones too
    views = {view.name: view for view in context.control.views()}
    holding = {device.job_id for config in configs if (view := views.get(config.name)) for device in view.devices}
    ids = tuple(job_id for job_id in holding if job_id is not None)
    twins = _twins(views.values())
    with context.store.read() as r:
        names = {config.name for config in configs}
        names |= {other for name, (other, _) in twins.items() if name in names}
        stored = {name: r.node(name) or Node(name) for name in names}
        jobs = {job.job_id: job for job in r.jobs(JobFilter(scope="all", ids=ids))} if ids else {}
    now = clock.now()
    found = [render.node(config, stored[config.name], views.get(config.name), jobs, now) for config in configs]
    sight = sight_of(context, caller)
    for node in found:
        devices = view.devices if (view := views.get(node["node_id"])) else ()
        holders = [None if device.job_id is None else jobs.get(device.job_id) for device in devices]
        node["gpus"] = [sight.on_gpu(holder, gpu) for holder, gpu in zip(holders, node["gpus"], strict=True)]
        if node["node_id"] in twins:
            other, uuid = twins[node["node_id"]]
            shared = _shared(stored[node["node_id"]], stored[other], uuid)
            node["reason"] = "; ".join(filter(None, (node["reason"], shared)))
    call_by_name(context, (*found, *(gpu for node in found for gpu in node["gpus"])), "reason")
    return found


def _twins(views: Iterable[NodeView]) -> dict[NodeName, tuple[NodeName, DeviceUuid]]:
    """Nodes that show a GPU which another one shows too: that one, and the GPU."""
    first: dict[DeviceUuid, NodeName] = {}
    pairs: dict[NodeName, tuple[NodeName, DeviceUuid]] = {}
    for view in views:
        for device in view.devices:
            other = first.setdefault(device.uuid, view.name)
            if other != view.name and device.uuid and not device.uuid.startswith(NO_UUID):
                pairs[view.name] = other, device.uuid
                pairs.setdefault(other, (view.name, device.uuid))
    return pairs


def _shared(node: Node, other: Node, uuid: DeviceUuid) -> str:
    """Of two nodes that show one GPU. One machine under two names, whatever addresses the inventory gives, has one boot
    id; a copy of a virtual machine, or a GPU that was moved, has not."""
    both = f"{node.name} and {other.name}"
    boots = [one.observation.boot_id for one in (node, other) if one.observation and one.observation.boot_id]
    if len(boots) == 2 and boots[0] == boots[1]:
        return f"{both} are one machine, booted once: give each its own `devices:`, or their GPUs count twice"
    if len(boots) == 2:
        return (
            f"{both} both show {uuid}, and were not booted together: one is a copy of the other, the GPU was moved, or "
            f"one has not answered since a boot (mgpu node probe {node.name} {other.name})"
        )
    return f"{both} both show {uuid}: if that is one machine, give each its own `devices:`, or its GPUs count twice"


def begin_probe(context: Context, caller: Caller, name: str) -> Future[str]:
    """A fresh look at the node; returns at once. What comes of it: see `Control.probe`."""
    config = context.node_config(name)
    record(context, caller.entry("probe", node=config.name))
    return context.control.probe(config.name)


def probed(context: Context, caller: Caller, name: str, failure: str) -> Json:
    """The node after that look."""
    return {**show_node(context, caller, name), "probe_failure": failure or None}


def lost_on(context: Context, caller: Caller, name: str) -> Json:
    """What `give_up` would end: the jobs that contact was lost with."""
    require_operator(context, caller, "declare a node down")
    return {"node_id": context.node_config(name).name, "lost": _lost(context, name)}


def give_up(context: Context, caller: Caller, name: str) -> Json:
    """An operator's word that a node will not come back as it was: its lost jobs end, and may be run again elsewhere.
    Should it come back, what still runs there is ended before it gets work."""
    require_operator(context, caller, "declare a node down")
    config = context.node_config(name)
    lost = _lost(context, name)
    if not lost:
        raise RequestError(
            f"contact with no job is lost on {name}: there is nothing to give up",
            "mgpu cancel ends jobs on a node that answers",
        )
    record(context, caller.entry("node down", node=config.name, detail=f"gives up jobs {lost}"))
    context.control.give_up(config.name, caller.user)
    return {"node_id": config.name, "given_up": lost}


def _lost(context: Context, name: str) -> list[int]:
    with context.store.read() as r:
        parts = r.open_parts()
    return sorted({part.job_id for part in parts if part.node == name and part.state is AttemptState.LOST})


def host_keys(context: Context, name: str) -> Json:
    config = context.node_config(name)
    found = context.control.host_keys(config.name)
    return {
        "node": config.name,
        "address": found.address,
        "keys": [_host_key(key) for key in found.keys],
        "known": [_host_key(key) for key in found.known],
        "status": found.status,
        "removal": found.removal,
    }


def _host_key(key: HostKey) -> Json:
    return {"type": key.type, "fingerprint": key.fingerprint, "line": key.line}


def trust_node(context: Context, caller: Caller, name: str, payload: Mapping[str, Any]) -> Json:
    """Takes the lines (as `host_keys` gave them) for the node's own from now on."""
    require_operator(context, caller, "decide which host keys are trusted")
    config = context.node_config(name)
    lines = payload.get("lines")
    if not isinstance(lines, list) or not lines or not all(_is_line(line) for line in lines):
        raise RequestError("lines must be a list of lines as known_hosts holds them")
    trusted = context.control.trust(config.name, lines)
    record(context, caller.entry("trust", node=config.name, detail="; ".join(lines)))
    context.waker.wake()
    return {"trusted": trusted}


def _is_line(line: object) -> bool:
    """One line: a second one hidden in it would trust what was never shown."""
    return isinstance(line, str) and 0 < len(line) <= 16_384 and line.isascii() and line.isprintable()
