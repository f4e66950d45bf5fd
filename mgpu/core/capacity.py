"""What the inventory could ever give a request, whatever the GPUs do now.

A GPU that nobody has seen yet counts (as of any kind, unless the inventory names one): a request is impossible only if
what is known rules it out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from mgpu.core.gputype import kind_of
from mgpu.core.model import NodeName, Request
from mgpu.core.plan import DeviceView, NodeView

ANY_KIND = "*"
UNBOUNDED = 1 << 20  # a node never seen, whose gpu_count the inventory does not say

# Cards show up to 2 % less than they are sold as (24 GB: 24,564 MiB; 80 GB: 81,559 MiB).
MEMORY_SHOWN = 0.98
_STEP_MIB = 4096

Kinds = frozenset[str] | None  # None = every kind
Likeness = Mapping[NodeName, NodeName]  # node -> the first one with GPUs like its own: judged once for all of them
NONE_ALIKE: Likeness = {}


def likeness(nodes: Iterable[NodeView]) -> Likeness:
    first: dict[tuple[object, ...], NodeName] = {}
    return {node.name: first.setdefault(_stock(node), node.name) for node in nodes}


def _stock(node: NodeView) -> tuple[object, ...]:
    """All that `capacity` follows from."""
    devices = tuple(
        [(device.index, device.name, device.kind, device.memory_total_mib, device.slice) for device in node.devices]
    )
    return devices, node.expected_gpus, node.gpu_type, node.only


def wanted_indices(request: Request, node: NodeView) -> tuple[int, ...]:
    """The indices that the request pins on this node; () = any will do."""
    return next((indices for name, indices in request.pins if name == node.name), request.gpu_ids)


def is_of_kind(device: DeviceView, kinds: Kinds) -> bool:
    return kinds is None or kind_of(device) in kinds


def has_memory(device: DeviceView, request: Request) -> bool:
    if request.gpu_memory_mib is None:
        return True
    return (device.memory_total_mib or 0) >= request.gpu_memory_mib * MEMORY_SHOWN


def size_class(device: DeviceView) -> int:
    """Its memory in steps of 4 GiB, rounded up: the same card shows a little more or less with another driver."""
    return -(-(device.memory_total_mib or 0) // _STEP_MIB)


def qualifies(device: DeviceView, indices: Sequence[int], request: Request, kinds: Kinds) -> bool:
    """Whether the request could use it if it were free. `indices`: those that it pins there."""
    return (
        (not indices or device.index in indices)
        and is_of_kind(device, kinds)
        and has_memory(device, request)
        and (not device.slice or bool(indices) or kinds is not None or request.gpu_memory_mib is not None)
    )


def qualifying(node: NodeView, request: Request, kinds: Kinds) -> list[DeviceView]:
    """The node's GPUs that the request could use if they were free."""
    indices = wanted_indices(request, node)
    return [device for device in node.devices if qualifies(device, indices, request, kinds)]


def capacity(node: NodeView, request: Request, kinds: Kinds) -> Counter[str]:
    """How many GPUs of each kind the node could ever give; ANY_KIND counts those that nobody has seen."""
    group = (lambda device: ANY_KIND) if request.mixed else kind_of
    found = Counter(group(device) for device in qualifying(node, request, kinds) if device.name)
    if unseen := _unseen(node, request):
        label = node.gpu_type.strip().casefold()
        if not label or request.mixed:
            found[ANY_KIND] += unseen
        elif kinds is None or label in kinds:
            found[label] += unseen
    return found


def capacities(nodes: Iterable[NodeView], request: Request, kinds: Kinds, like: Likeness) -> list[Counter[str]]:
    """The capacity of each node. Nodes that a request pins are looked at one by one."""
    found: dict[NodeName, Counter[str]] = {}
    pinned = {name for name, _ in request.pins}
    rows = []
    for node in nodes:
        name = node.name if node.name in pinned else like.get(node.name, node.name)
        row = found.get(name)
        if row is None:
            row = found[name] = capacity(node, request, kinds)
        rows.append(row)
    return rows


def known_indices(node: NodeView) -> tuple[int, ...] | None:
    """The indices that the node has or, by the inventory, should have; None = nobody knows yet."""
    if node.only is not None:
        return node.only
    seen = {device.index for device in node.devices if device.index >= 0}
    if node.expected_gpus is None:
        return tuple(sorted(seen)) or None
    return tuple(sorted(seen | set(range(node.expected_gpus)) if len(seen) < node.expected_gpus else seen))


def _unseen(node: NodeView, request: Request) -> int:
    """GPUs that are or should be there and of which no probe tells more: never seen, or lost."""
    indices = wanted_indices(request, node)
    known = known_indices(node)
    if known is None:
        return len(indices) or len(node.devices) or UNBOUNDED
    seen = {device.index for device in node.devices if device.name}
    if indices:
        return len([index for index in indices if index in known and index not in seen])
    return max(node.expected_gpus or 0, len(node.devices)) - len(seen)


def per_kind(capacities: Iterable[Counter[str]]) -> dict[str, list[int]]:
    """For each kind the GPUs that each node has of it, in the order of the nodes."""
    rows = list(capacities)
    kinds = dict.fromkeys(kind for row in rows for kind in row if kind != ANY_KIND)
    return {
        kind: [row[kind] + (row[ANY_KIND] if kind != ANY_KIND else 0) for row in rows] for kind in kinds or (ANY_KIND,)
    }


def fewest_nodes(total: int, counts: Sequence[int]) -> int | None:
    """The fewest nodes that hold `total` GPUs, None if all together do not."""
    held = 0
    for number, count in enumerate(sorted(counts, reverse=True), 1):
        held += count
        if held >= total:
            return number
    return None
