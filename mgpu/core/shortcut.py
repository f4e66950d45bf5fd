"""The built-in policies without a look at every node: the rooms are taken in their order right away.

Says what `placement.place` says (a test holds the two against each other) where devices of a node do not differ and
nothing is held against them; anything else is left to it. On a thousand idle nodes that is a hundredth of the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from mgpu.core.ask import Ask
from mgpu.core.capacity import size_class
from mgpu.core.model import NodeName
from mgpu.core.placement import Share, parts_of
from mgpu.core.plan import PlacedPart
from mgpu.core.policies import BUILT_IN, Candidate, Policy, fill_first
from mgpu.core.rooms import Room, Rooms

Offers = Callable[[Room], Sequence[Candidate]]
Walk = Callable[[int], Iterator[Room]]  # rooms with so many free devices, in the order of the policy


def applies(ask: Ask, rooms: Rooms, policy: Policy) -> bool:
    request = ask.request
    if policy not in BUILT_IN or rooms.doubtful or rooms.uneven:
        return False
    if request.exclusive or request.pins or request.gpu_ids or not ask.shape.total:
        return False
    if request.cpus is not None or request.host_memory_mib is not None:
        return False
    if request.gpu_memory_mib is not None and len(rooms.sizes) > 1 and not ask.sizes:
        return False
    if rooms.switches > 1 and len(ask.sizes) != 1:
        return False
    if ask.sizes:
        return ask.sizes[0] == ask.sizes[-1]
    return request.mixed or len(rooms.kinds) == 1


def place(ask: Ask, rooms: Rooms, offers: Offers, policy: Policy) -> tuple[PlacedPart, ...]:
    """() = does not fit now."""
    walk: Walk = rooms.tightest if policy is fill_first else rooms.roomiest
    if ask.request.gpu_memory_mib is not None and len(rooms.sizes) > 1:
        walk = _smallest_first(walk, sorted(rooms.sizes))
    shares = _equal(ask.sizes, walk, offers) if ask.sizes else _wide(ask, rooms, walk, offers)
    return parts_of(ask, rooms.place_of, shares, doubtful=False) if shares else ()


def _smallest_first(walk: Walk, sizes: Sequence[int]) -> Walk:
    """Who asks for memory gets the smallest GPUs that suffice."""

    def by_size(need: int) -> Iterator[Room]:
        for size in sizes:
            yield from (room for room in walk(need) if size_class(room.free[0]) == size)

    return by_size


def _equal(sizes: Sequence[int], walk: Walk, offers: Offers) -> list[Share]:
    """Kinds are tried in the order in which they turn up; so the first one is done as soon as it suffices."""
    size, number = sizes[0], len(sizes)
    by_kind: dict[str, list[Share]] = {}
    first = None
    for room in walk(size):
        for candidate in offers(room):
            shares = by_kind.setdefault(candidate.kind, [])
            shares.append((candidate, size))
            first = shares if first is None else first
            if shares is first and len(first) == number:
                return first
    return next((shares[:number] for shares in by_kind.values() if len(shares) >= number), [])


def _wide(ask: Ask, rooms: Rooms, walk: Walk, offers: Offers) -> list[Share]:
    """Whole nodes, and on the last one what is missing then."""
    missing, shares = ask.shape.total, list[Share]()
    while missing and len(shares) < ask.most_parts:
        used = {candidate.node.name for candidate, _ in shares}
        found = _first(walk(missing), used, offers) or _first(rooms.roomiest(1), used, offers)
        if found is None:
            return []
        share = min(missing, len(found.free))
        shares.append((found, share))
        missing -= share
    return [] if missing else shares


def _first(walk: Iterator[Room], used: set[NodeName], offers: Offers) -> Candidate | None:
    free = (room for room in walk if room.view.name not in used)
    return next((candidate for room in free for candidate in offers(room)), None)
