"""What must hold between parts of a configuration that are right by themselves.

All of these look at what could be read and keep still about the rest: why that could not be read was told there.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence

from mgpu.config.document import Document
from mgpu.config.faults import did_you_mean
from mgpu.config.nodes import Entry, Placed
from mgpu.core.hostlist import fold
from mgpu.core.model import NodeName
from mgpu.core.shape import MAX_NODES


def check_devices(entry: Entry) -> None:
    """Told in the entry that says the last word: `devices` of all nodes may stand in the defaults."""
    own = entry.own
    if entry.is_read("devices"):
        listed = own.devices or []
        twice = sorted({device for device in listed if listed.count(device) > 1})
        if twice:
            entry.document.blame(entry.where("devices"), f"{_devices(twice)} given twice")
    if not own.model_fields_set & {"devices", "gpu_count"}:
        return
    devices, count = entry.word("devices"), entry.word("gpu_count")
    beyond = sorted({device for device in devices or () if count is not None and device >= count})
    if beyond:
        key = "devices" if "devices" in own.model_fields_set else "gpu_count"
        what = f"{_devices(beyond)} not there: gpu_count {count}, and they start at 0"
        entry.document.blame(entry.where(key), what)


def check_partitions(main: Document, entries: Iterable[Entry]) -> None:
    """With `partitions:` in the main file, a node may name no others."""
    known = main.data.get("partitions")
    if not isinstance(known, dict):
        return
    for entry in entries:
        for name in entry.own.partition if entry.is_read("partition") else ():
            if name not in known:
                what = f"{name!r} is not among the partitions of {main.file}{did_you_mean(name, known)}"
                entry.document.blame(entry.where("partition"), what)


def check_number(placed: Sequence[Placed]) -> None:
    """Told at the entry that goes beyond."""
    if len(placed) > MAX_NODES:
        entry = placed[MAX_NODES].entry
        what = f"these are {len(placed)} nodes with those before, a cluster has {MAX_NODES} at most"
        entry.document.blame(entry.where("node_id"), what)


def check_twice(placed: Iterable[Placed]) -> None:
    """Two ranges that overlap are one fault."""
    first: dict[NodeName, Entry] = {}
    names: dict[tuple[int, int], list[NodeName]] = {}
    both: dict[tuple[int, int], tuple[Entry, Entry]] = {}
    for item in placed:
        name, entry = item.node.name, item.entry
        if name in first:
            pair = id(first[name]), id(entry)
            both[pair] = first[name], entry
            names.setdefault(pair, []).append(name)
        else:
            first[name] = entry
    for pair, (earlier, later) in both.items():
        where = earlier.document.place(earlier.where("node_id"))
        given = f"{fold(dict.fromkeys(names[pair]))!r} {'is' if len(names[pair]) == 1 else 'are'} given twice"
        later.document.blame(later.where("node_id"), f"{given}, first at {where}")


def counted_twice(placed: Iterable[Placed]) -> list[str]:
    """Warnings for nodes that are one machine and share GPUs there: mgpu would give those to two jobs."""
    warnings = []
    first: dict[object, Placed] = {}
    for item in placed:
        node, ssh = item.node, item.node.ssh
        machine = "this machine" if node.connection == "local" else (_plain(ssh.host), ssh.port or 22, ssh.proxy_jump)
        earlier = first.setdefault(machine, item)
        ours, theirs = node.facts.devices, earlier.node.facts.devices
        if earlier is not item and (ours is None or theirs is None or set(ours) & set(theirs)):
            place = item.entry.document.place(item.entry.where("node_id"))
            where = "this machine" if node.connection == "local" else ssh.host
            warnings.append(
                f"{place}: {node.name} and {earlier.node.name} are both {where}: "
                "their GPUs count twice unless each has its own devices:"
            )
    return warnings


def _plain(host: str) -> str:
    """Names in small letters, addresses in their one short form."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host.lower().rstrip(".")


def _devices(numbers: list[int]) -> str:
    return f"device {numbers[0]} is" if len(numbers) == 1 else f"devices {', '.join(map(str, numbers))} are"
