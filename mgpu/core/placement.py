"""All parts of one job, or none: an Ask and what each node could give (the candidates) -> the parts.

Sized parts go to the first nodes in the policy's order. A wide job takes whole nodes and one remainder, and never more
nodes than the inventory makes necessary: a job that fits one node is not split, one that fits two not cut into three.

Several parts go to nodes at one switch where that is possible.

Suspect GPUs are taken last: first the job is placed as if they were not there, and only where that fails with them.

Who asks for memory gets the smallest GPUs that suffice, before a built-in policy's own order counts: who needs large
ones finds no others, and who would fill a node asks for its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from mgpu.core.ask import Ask
from mgpu.core.capacity import size_class
from mgpu.core.model import NodeName
from mgpu.core.plan import DeviceView, PlacedPart
from mgpu.core.policies import BUILT_IN, Candidate, Policy, ordered

Share = tuple[Candidate, int]
Places = Callable[[NodeName], int]  # where a node stands in the inventory


def place(
    ask: Ask, nodes: Places, candidates: Sequence[Candidate], policy: Policy, doubtful: bool = True
) -> tuple[PlacedPart, ...]:
    """`candidates` in the order of the inventory; `doubtful`: there may be suspects among their devices. () = does not
    fit now. Raises PolicyError."""
    if doubtful and any(device.suspect for candidate in candidates for device in candidate.free):
        sound = [left for candidate in candidates if (left := _without_suspects(ask, candidate))]
        if parts := _place(ask, nodes, sound, policy, doubtful):
            return parts
    return _place(ask, nodes, candidates, policy, doubtful)


def _without_suspects(ask: Ask, candidate: Candidate) -> Candidate | None:
    """None = it is of no use without them; --exclusive takes all GPUs of a node, or none."""
    sound = tuple(device for device in candidate.free if not device.suspect)
    if len(sound) == len(candidate.free):
        return candidate
    if ask.request.exclusive or len(sound) < ask.need_on(candidate.node.name):
        return None
    return candidate._replace(free=sound)


def _place(
    ask: Ask, nodes: Places, candidates: Sequence[Candidate], policy: Policy, doubtful: bool
) -> tuple[PlacedPart, ...]:
    if len({candidate.node.name for candidate in candidates}) < len(ask.sizes):
        return ()
    need = max(ask.sizes, default=ask.shape.total)
    by_kind: dict[str, list[Candidate]] = {}
    for candidate in _in_order(ask, policy, need, candidates):
        by_kind.setdefault(candidate.kind, []).append(candidate)
    for of_kind in by_kind.values():
        for near in _near(ask, of_kind):
            if shares := _shares(ask, near, policy):
                return parts_of(ask, nodes, shares, doubtful)
    return ()


def _in_order(ask: Ask, policy: Policy, need: int, candidates: Sequence[Candidate]) -> list[Candidate]:
    order = ordered(policy, need, candidates)
    if ask.request.gpu_memory_mib is None or policy not in BUILT_IN:
        return order
    return sorted(order, key=lambda candidate: _largest(candidate.free, need))


def _largest(devices: Sequence[DeviceView], need: int) -> int:
    """The size of the largest among the `need` smallest."""
    return max(sorted(map(size_class, devices))[:need], default=0)


def _near(ask: Ask, candidates: list[Candidate]) -> Iterable[list[Candidate]]:
    """What to try one after the other: those at one switch, the switch with least free first; then all, those at the
    switch with most free first, so that a job which needs several is cut into few."""
    at: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        at.setdefault(candidate.node.switch, []).append(candidate)
    if len(at) < 2 or ask.shape.named or len(ask.sizes) == 1 or _on_one_node(ask, candidates):
        return (candidates,)
    free = {switch: sum(len(candidate.free) for candidate in there) for switch, there in at.items()}
    known = sorted((switch for switch in at if switch), key=lambda switch: free[switch])
    least_first = [at[switch] for switch in known if free[switch] >= ask.shape.total]
    together = [candidate for switch in reversed(known) for candidate in at[switch]]
    return (*least_first, together + at.get("", []))


def _on_one_node(ask: Ask, candidates: Iterable[Candidate]) -> bool:
    return not ask.sizes and any(len(candidate.free) >= ask.shape.total for candidate in candidates)


def _shares(ask: Ask, candidates: list[Candidate], policy: Policy) -> list[Share]:
    if ask.request.pins:
        return _pinned(ask, candidates)
    if ask.sizes:
        return _sized(ask.sizes, candidates)
    return _wide(ask, candidates, policy)


def _pinned(ask: Ask, candidates: Sequence[Candidate]) -> list[Share]:
    by_node = {candidate.node.name: candidate for candidate in candidates}
    if not by_node.keys() >= set(ask.shape.named):
        return []
    return [(by_node[name], size) for name, size in zip(ask.shape.named, ask.sizes, strict=True)]


def _sized(sizes: Sequence[int], candidates: Sequence[Candidate]) -> list[Share]:
    """Larger parts choose first: whoever holds a larger one also holds a smaller one, so nothing is missed."""
    left = list(candidates)
    shares: list[Share] = []
    for size in sizes:
        chosen = next((candidate for candidate in left if len(candidate.free) >= size), None)
        if chosen is None:
            return []
        left.remove(chosen)
        shares.append((chosen, size))
    return shares


def _wide(ask: Ask, candidates: Sequence[Candidate], policy: Policy) -> list[Share]:
    left = [candidate for candidate in candidates if candidate.free]
    missing = ask.shape.total
    shares: list[Share] = []
    while missing and left and len(shares) < ask.most_parts:
        order = _in_order(ask, policy, missing, left)
        if not order:
            return []
        holds_all = [candidate for candidate in order if len(candidate.free) >= missing]
        # Anything less than the fullest node could cost one node more than needed.
        chosen = holds_all[0] if holds_all else max(order, key=lambda candidate: len(candidate.free))
        share = min(missing, len(chosen.free))
        shares.append((chosen, share))
        left.remove(chosen)
        missing -= share
    return [] if missing else shares


def parts_of(ask: Ask, nodes: Places, shares: Sequence[Share], doubtful: bool = True) -> tuple[PlacedPart, ...]:
    """Ranks follow the order asked for, else that of the inventory."""
    in_order = shares
    if len(shares) > 1:
        rank_of = ask.shape.named.index if ask.shape.named else nodes
        in_order = sorted(shares, key=lambda share: rank_of(share[0].node.name))
    parts = []
    for rank, (candidate, size) in enumerate(in_order):
        devices = _chosen(ask, candidate, size, doubtful)
        indices, uuids = [device.index for device in devices], [device.uuid for device in devices]
        parts.append(PlacedPart(rank, candidate.node.name, tuple(indices), tuple(uuids)))
    return tuple(parts)


def _chosen(ask: Ask, candidate: Candidate, size: int, doubtful: bool) -> Sequence[DeviceView]:
    """Those that nothing is held against, that NVLink joins best, then lowest indices; --exclusive takes all of its
    kind; pins keep the order asked for."""
    if ask.request.exclusive:
        return candidate.free
    if ask.request.pins or ask.request.gpu_ids:
        wanted = dict(ask.request.pins).get(candidate.node.name, ask.request.gpu_ids)
        return sorted(candidate.free, key=lambda device: wanted.index(device.index))
    sound: Sequence[DeviceView] = candidate.free
    if doubtful:
        sound = [device for device in candidate.free if not device.suspect]
    if len(sound) < size:
        suspects = [device for device in candidate.free if device.suspect]
        return sorted([*sound, *suspects[: size - len(sound)]], key=lambda device: device.index)
    if ask.request.gpu_memory_mib is not None:
        most = _largest(sound, size)
        sound = [device for device in sound if size_class(device) <= most]
    return joined(sound, size, candidate.node.links) if size > 1 else sound[:size]


def joined(free: Sequence[DeviceView], size: int, links: Sequence[tuple[int, int, int]]) -> Sequence[DeviceView]:
    """`size` of the free devices with many NVLinks among them: from each device on, the one that adds most is taken
    next. Not always the very best set, but a pair is; the cost is that of a node's GPUs cubed."""
    if not links or size == len(free):
        return free[:size]
    chosen = _joined(tuple([device.index for device in free]), size, tuple(links))
    return sorted([device for device in free if device.index in chosen], key=lambda device: device.index)


@lru_cache(maxsize=4096)
def _joined(free: tuple[int, ...], size: int, links: tuple[tuple[int, int, int], ...]) -> frozenset[int]:
    count = {frozenset((first, second)): number for first, second, number in links}

    def added(chosen: Sequence[int], other: int) -> int:
        return sum([count.get(frozenset((index, other)), 0) for index in chosen])

    best: list[int] = []
    most = -1
    for first in free:
        chosen, total = [first], 0
        while len(chosen) < size:
            left = [index for index in free if index not in chosen]
            nearest = max(left, key=lambda index: (added(chosen, index), -index))
            total += added(chosen, nearest)
            chosen.append(nearest)
        if total > most:
            best, most = chosen, total
    return frozenset(best)
