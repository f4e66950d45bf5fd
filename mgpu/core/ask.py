"""A request as this cluster understands it, and whether the cluster could ever meet it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mgpu.core import capacity as cap
from mgpu.core import claims
from mgpu.core.amounts import gib, typed_at_most
from mgpu.core.devices import indices, labels, listed
from mgpu.core.gputype import accepted_kinds, known_types, no_such_type
from mgpu.core.model import NodeName, Request
from mgpu.core.plan import NodeView, Shut
from mgpu.core.shape import Shape, shape_of


@dataclass(frozen=True, slots=True)
class Ask:
    """`sizes` are the GPUs of each part; () = a wide job, to be spread over `most_parts` nodes at most.

    `kinds` None = any kind. `impossible` "" = the inventory could meet it. `closed`: the nodes where it may not start
    for now, with the reason.
    """

    request: Request
    shape: Shape
    kinds: frozenset[str] | None
    sizes: tuple[int, ...]
    most_parts: int
    shunned: frozenset[NodeName] = frozenset()
    impossible: str = ""
    closed: Mapping[NodeName, Shut] = field(default_factory=dict)

    def need_on(self, node: NodeName) -> int:
        """The GPUs that the smallest part which may go to this node needs."""
        if self.request.pins:
            return dict(zip(self.shape.named, self.sizes, strict=True)).get(node, 0)
        return self.least

    def ruled_out(self, node: NodeView) -> str:
        """Why the job may never use this node, whatever the node does; "" = it may."""
        return next((reason for rule in STATIC_RULES if (reason := rule(node, self))), "")

    def allowed(self, nodes: Sequence[NodeView]) -> Sequence[NodeView]:
        """Those that it may ever use."""
        request = self.request
        of_the_host = request.cpus or request.host_memory_mib
        if not (request.exclude or self.shape.named or request.partition or self.shunned or of_the_host):
            return nodes
        return [node for node in nodes if not self.ruled_out(node)]

    @property
    def least(self) -> int:
        """The GPUs of its smallest part; 1 for those that may be split anyhow."""
        return min(self.sizes) if self.sizes else 1


def ask_for(
    request: Request, nodes: Sequence[NodeView], avoid: Iterable[NodeName] = (), like: cap.Likeness = cap.NONE_ALIKE
) -> Ask:
    """Reads the request against the inventory. Nodes to avoid come back in if nothing else could ever do it."""
    shunned = frozenset(avoid)
    if shunned and not request.pins and not request.nodelist:
        ask = _ask(request, nodes, shunned, like)
        if not ask.impossible:
            return ask
    return _ask(request, nodes, frozenset(), like)


def impossible(request: Request, nodes: Sequence[NodeView]) -> str:
    """Why the inventory as known can never meet the request, with the nearest that it can; "" = it could.

    The state of nodes and GPUs does not count here: a job for a node that is down waits.
    """
    return ask_for(request, nodes).impossible


# --- which nodes it may never use --------------------------------------------------------------------------------


def _excluded(node: NodeView, ask: Ask) -> str:
    return "excluded by the job" if node.name in ask.request.exclude else ""


def _not_named(node: NodeView, ask: Ask) -> str:
    return "not among the nodes asked for" if ask.shape.named and node.name not in ask.shape.named else ""


def _partition(node: NodeView, ask: Ask) -> str:
    wanted = ask.request.partition
    return f"not in partition {wanted}" if wanted and not set(wanted.split(",")) & set(node.partitions) else ""


def _shunned(node: NodeView, ask: Ask) -> str:
    return "avoided: an attempt of this job failed there" if node.name in ask.shunned else ""


def _host_too_small(node: NodeView, ask: Ask) -> str:
    return claims.never(node.there, ask.request)


STATIC_RULES: tuple[Callable[[NodeView, Ask], str], ...] = (
    *(_excluded, _not_named, _partition, _shunned),
    _host_too_small,
)


# --- could it ever be ----------------------------------------------------------------------------------------------


def _ask(request: Request, nodes: Sequence[NodeView], shunned: frozenset[NodeName], like: cap.Likeness) -> Ask:
    shape = shape_of(request)
    types = known_types(_of_each_likeness(nodes, like)) if request.gpu_types else ()
    kinds = accepted_kinds(request.gpu_types, types) if request.gpu_types else None
    ask = Ask(request, shape, kinds, shape.sizes, len(shape.sizes), shunned)
    allowed = ask.allowed(nodes)
    counts = cap.per_kind(cap.capacities(allowed, request, kinds, like))
    sizes, most_parts = shape.sizes, len(shape.sizes)
    if not sizes:
        # A node whose size nobody knows must not keep the job from being split over those that are known.
        known = [[count if count < cap.UNBOUNDED else 0 for count in row] for row in counts.values()]
        most_parts = _fewest(shape.total, known) or _fewest(shape.total, list(counts.values()))
        sizes = (shape.total,) if most_parts == 1 else ()
    reason = _why_impossible(ask, nodes, allowed, counts)
    one_of_several = len(counts) > 1 and not (request.mixed or request.gpu_types or request.pins)
    if reason and one_of_several and not impossible(replace(request, mixed=True), nodes):
        reason += ", or --gpu-type any"
    return Ask(request, shape, kinds, sizes, most_parts, shunned, reason)


def _why_impossible(
    ask: Ask, nodes: Sequence[NodeView], allowed: Sequence[NodeView], counts: dict[str, list[int]]
) -> str:
    request, sizes = ask.request, ask.shape.sizes
    if not allowed:
        reasons = [f"{node.name}: {ask.ruled_out(node)}" for node in nodes[:4]]
        return "no node may be used (" + ("; ".join(reasons) or "the inventory is empty") + ")"
    if len(sizes) > len(allowed):
        return f"needs {len(sizes)} nodes, only {len(allowed)} may be used: use -N {len(allowed)}"
    if ask.shape.total == 0:
        return ""
    if reason := _no_index(ask, allowed):
        return reason
    most = max(max(row) for row in counts.values())
    if most == 0:
        return _no_device(request, nodes, allowed)
    if request.pins:
        return _pins_impossible(ask, allowed)
    if not sizes:
        return _wide_impossible(ask, counts)
    if any(_holds(sizes, row) for row in counts.values()):
        return ""
    return _nearest(ask, most, counts)


def enough(ask: Ask, nodes: Sequence[NodeView]) -> bool:
    """Whether these nodes alone could ever carry the job as it is split."""
    counts = cap.per_kind(cap.capacity(node, ask.request, ask.kinds) for node in nodes)
    if ask.sizes:
        return any(_holds(ask.sizes, row) for row in counts.values())
    return 0 < _fewest(ask.shape.total, list(counts.values())) <= ask.most_parts


def _fewest(total: int, rows: Sequence[Sequence[int]]) -> int:
    """The fewest nodes over all kinds, 0 if no kind suffices."""
    return min((number for row in rows if (number := cap.fewest_nodes(total, row)) is not None), default=0)


def _holds(sizes: Sequence[int], row: Sequence[int]) -> bool:
    return len(row) >= len(sizes) and all(
        count >= size for size, count in zip(sizes, sorted(row, reverse=True), strict=False)
    )


def _no_index(ask: Ask, allowed: Sequence[NodeView]) -> str:
    """Too few nodes have the GPUs of --gpu-ids at all; told by the node that lacks the fewest."""
    if not ask.request.gpu_ids:
        return ""
    lacking: list[tuple[int, NodeView]] = []
    for node in allowed:
        known = cap.known_indices(node)
        missing = set(ask.request.gpu_ids).difference(known if known is not None else ask.request.gpu_ids)
        if missing:
            lacking.append((len(missing), node))
    if not lacking or len(allowed) - len(lacking) >= len(ask.shape.sizes):
        return ""
    nearest = min(lacking, key=lambda item: item[0])[1]
    there = cap.known_indices(nearest) or ()
    missing_there = [index for index in ask.request.gpu_ids if index not in there]
    text = f"{nearest.name} has no GPU {listed(missing_there)}: its GPUs are {listed(there)}"
    return f"--gpu-ids: {text}" if len(lacking) == 1 else f"--gpu-ids: no node has all of these; {text}"


def _no_device(request: Request, nodes: Sequence[NodeView], allowed: Sequence[NodeView]) -> str:
    devices = [device for node in allowed for device in node.devices]
    if not devices:
        return "no GPUs in " + _names(allowed) + ": use --gpus 0 for a job without GPUs"
    types = known_types(nodes)
    kinds = accepted_kinds(request.gpu_types, types)
    of_kind = [device for device in devices if cap.is_of_kind(device, kinds)]
    if not of_kind:
        return no_such_type(request.gpu_types, known_types(allowed))
    if not any(cap.has_memory(device, request) for device in of_kind):
        largest = max(device.memory_total_mib or 0 for device in of_kind)
        asked = gib(request.gpu_memory_mib or 0)
        if not largest:
            return f"no GPU tells its memory, {asked} asked: leave out --gpu-mem, or set gpu_memory in the inventory"
        return f"no GPU has {asked}; the largest has {gib(largest)}: use --gpu-mem {typed_at_most(largest)}"
    return f"no GPU is left that fits: {_names(allowed)} have {labels(devices)}"


def _pins_impossible(ask: Ask, allowed: Sequence[NodeView]) -> str:
    by_name = {node.name: node for node in allowed}
    common: set[str] | None = None
    for name, pinned in ask.request.pins:
        node = by_name.get(name)
        if node is None:
            return f"{name} may not be used by this job"
        found = cap.capacity(node, ask.request, ask.kinds)
        if sum(found.values()) < len(pinned):
            asked = ",".join(map(str, pinned))
            return f"{name}: GPU {asked} asked, it has {indices(node.devices)} ({labels(node.devices)})"
        seen = {kind for kind, count in found.items() if kind != cap.ANY_KIND and count}
        if len(seen) > 1 or (common and seen and seen != common):
            return "the GPUs asked for are of several kinds: add --gpu-type any"
        common = common or seen
    return ""


def _wide_impossible(ask: Ask, counts: dict[str, list[int]]) -> str:
    total = ask.shape.total
    most = max(sum(row) for row in counts.values())
    if most >= total:
        return ""
    one_kind = "" if ask.request.mixed or len(counts) == 1 else " of one kind"
    return f"needs {total} GPUs, there are {most}{one_kind}: use -G {most}"


def _nearest(ask: Ask, most: int, counts: dict[str, list[int]]) -> str:
    """For fixed sizes that no kind can fill: the nearest shape that one can."""
    sizes, total = ask.shape.sizes, ask.shape.total
    size = max(sizes)
    if size > most and ask.request.gpu_ids:
        return f"no node has the GPUs {','.join(map(str, ask.request.gpu_ids))} together, of one kind"
    if size > most:
        where = "no node" if not ask.shape.named else f"none of {','.join(ask.shape.named)}"
        short = f"{where} has {size} GPUs; the largest has {most}"
        for row in counts.values() if not ask.shape.named else ():
            parts = cap.fewest_nodes(total, row)
            while parts is not None and parts <= len(row):
                if total % parts == 0 and _holds((total // parts,) * parts, row):
                    return f"{short}: use -N {parts} --gpus-per-node {total // parts}"
                parts += 1
        return f"{short}: use --gpus-per-node {most}"
    there = max(sum(1 for count in row if count >= size) for row in counts.values())
    each = f"with {size} GPU{'' if size == 1 else 's'} each"
    if ask.shape.named:
        return f"{','.join(ask.shape.named)}: only {there} of them {each} of one kind: use -w for fewer nodes"
    return f"needs {len(sizes)} nodes {each}, there are {there}: use -N {there}"


def _names(nodes: Sequence[NodeView]) -> str:
    shown = ", ".join(node.name for node in nodes[:4])
    return shown if len(nodes) <= 4 else f"{shown} and {len(nodes) - 4} more"


def _of_each_likeness(nodes: Sequence[NodeView], like: cap.Likeness) -> Sequence[NodeView]:
    return [node for node in nodes if like.get(node.name, node.name) == node.name]
