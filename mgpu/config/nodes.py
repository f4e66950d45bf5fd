"""Entries of an inventory -> nodes: defaults filled in, ranges expanded, each node with the place where it stands."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from mgpu.config.document import Document
from mgpu.config.faults import KeyPath
from mgpu.config.model import NodeConfig, SshSettings
from mgpu.config.schema import NAME, External, NodeDefaults, NodeEntry, Section
from mgpu.config.validate import validate
from mgpu.core.errors import RequestError
from mgpu.core.hostlist import expand, in_step
from mgpu.core.model import NodeName
from mgpu.core.plan import ExternalPolicy, NodeFacts

S = TypeVar("S", bound=Section)


@dataclass(frozen=True, slots=True)
class Placed:
    """A node, and the entry that it comes from."""

    node: NodeConfig
    document: Document
    path: KeyPath


def read_nodes(document: Document, defaults: NodeDefaults) -> list[Placed]:
    """The nodes of one file, `defaults` filled in where they say nothing."""
    entries = document.data.get("nodes") or []
    if not isinstance(entries, list):
        document.blame(("nodes",), "must be a list: one '- node_id: ...' for each node")
        return []
    placed = []
    for index, raw in enumerate(entries):
        path = ("nodes", index)
        entry = validate(document, NodeEntry, raw, path)
        if entry is not None:
            placed += [Placed(node, document, path) for node in _expanded(filled(entry, defaults), document, path)]
    return placed


def read_defaults(document: Document) -> NodeDefaults:
    """The `defaults:` of one file; none if they have faults."""
    raw = document.data.get("defaults")
    return (validate(document, NodeDefaults, raw, ("defaults",)) if raw is not None else None) or NodeDefaults()


def filled(over: S, under: Section) -> S:
    """`over` with what it leaves open taken from `under`: sections and mappings key by key, lists as a whole."""
    update: dict[str, Any] = {}
    for name in under.model_fields_set:
        below = getattr(under, name)
        if name not in over.model_fields_set:
            update[name] = below
        elif isinstance(below, Section):
            update[name] = filled(getattr(over, name), below)
        elif isinstance(below, dict):
            update[name] = {**below, **getattr(over, name)}
    return over.model_copy(update=update)


def external_policy(section: External) -> ExternalPolicy:
    return ExternalPolicy(section.policy, tuple(section.ignore), section.memory_threshold_mib)


def _expanded(entry: NodeEntry, document: Document, path: KeyPath) -> list[NodeConfig]:
    _check_devices(entry, document, path)
    columns: dict[str, list[str]] = {}
    try:
        names = expand(entry.node_id)
    except RequestError as error:
        document.blame((*path, "node_id"), error.message)
        return []
    if not names:
        document.blame((*path, "node_id"), "is empty: a node needs a name")
    for name in names:
        if not NAME.fullmatch(name):
            document.blame((*path, "node_id"), f"{name!r} is no name: letters, digits and . _ - only, at most 63")
            return []
    beside = {"hostname": entry.hostname, "ip": entry.ip, "network.address": entry.network.address}
    for key, text in beside.items():
        columns[key] = _column(key, text, len(names), document, path)
    return [
        _node(entry, name, {key: column[index] for key, column in columns.items()}) for index, name in enumerate(names)
    ]


def _column(key: str, text: str, count: int, document: Document, path: KeyPath) -> list[str]:
    if not text:
        return [""] * count
    where = (*path, *key.split("."))
    try:
        values = in_step(text, count)
    except RequestError as error:
        document.blame(where, error.message)
        return [""] * count
    for value in values:
        fault = _address_fault(key, value)
        if fault:
            document.blame(where, fault)
            break
    return values


def _address_fault(key: str, value: str) -> str:
    if value.startswith("-"):
        return f"{value!r} starts with a dash"
    if key == "ip":
        try:
            ipaddress.ip_address(value)
        except ValueError:
            return f"{value!r} is no IP address: a name belongs into hostname"
    return ""


def _check_devices(entry: NodeEntry, document: Document, path: KeyPath) -> None:
    devices = entry.devices or []
    where = (*path, "devices")
    twice = next((device for device in devices if devices.count(device) > 1), None)
    if twice is not None:
        document.blame(where, f"device {twice} is given twice")
    if entry.gpu_count is not None and devices and max(devices) >= entry.gpu_count:
        document.blame(where, f"device {max(devices)} is not there: gpu_count {entry.gpu_count}, and they start at 0")


def _node(entry: NodeEntry, name: str, beside: Mapping[str, str]) -> NodeConfig:
    hostname = beside["hostname"] or name
    ssh = entry.ssh
    return NodeConfig(
        name=NodeName(name),
        connection=entry.connection,
        ssh=SshSettings(
            host=beside["ip"] or hostname,
            port=ssh.port,
            user=ssh.user,
            identity_file=ssh.identity_file,
            known_hosts=ssh.known_hosts,
            proxy_jump=ssh.proxy_jump,
            name=hostname,
        ),
        facts=NodeFacts(
            name=NodeName(name),
            hostname=hostname,
            gpu_count=entry.gpu_count,
            devices=None if entry.devices is None else tuple(entry.devices),
            gpu_type=entry.gpu_type,
            partitions=tuple(entry.partition),
            switch=entry.switch,
        ),
        external=external_policy(entry.external),
        network_address=beside["network.address"],
        network_interface=entry.network.interface,
        nvidia_smi=entry.nvidia_smi,
        workdir=entry.workdir,
        setup=entry.setup,
        env=dict(entry.env),
        run_dir=entry.run_dir,
    )
