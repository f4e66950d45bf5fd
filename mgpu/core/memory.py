"""What a plan found out about requests and nodes, kept for the next one.

All of it follows from requests and nodes alone, so a plan with a memory says what it would say without, only sooner:
what a request means holds while the inventory is what it was, what a node offers while the node is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from operator import attrgetter, is_, is_not

from mgpu.core.ask import Ask, ask_for
from mgpu.core.capacity import Likeness, likeness
from mgpu.core.model import NodeName, Request
from mgpu.core.plan import DESCRIBED, Barred, Batch, NodeView, Reservation, Running, Snapshot
from mgpu.core.policies import Candidate, Policy
from mgpu.core.rooms import Room, Rooms, alike, offer, room_of
from mgpu.core.waits import Blocked

SPARE = 200  # requests of which nobody asks now, but somebody may soon
MOST = 100_000  # offers kept; the batches behind them are looked at anew each time

_Group = tuple[Request, tuple[NodeName, ...], tuple[tuple[NodeName, Barred], ...]]


@dataclass(slots=True)
class Examined:
    """Of a batch: its request as this cluster understands it, the nodes that it may ever use, and of each node the last
    candidates. `blocked`: how it was last turned away."""

    ask: Ask
    allowed: frozenset[NodeName]
    offers: dict[NodeName, tuple[Room, tuple[Candidate, ...]]] = field(default_factory=dict)
    blocked: Blocked | None = None
    total: int = field(init=False)  # GPUs

    def __post_init__(self) -> None:
        self.total = self.ask.shape.total

    def candidates(self, rooms: Iterable[Room]) -> list[Candidate]:
        return [candidate for room in rooms for candidate in self.of(room)]

    def of(self, room: Room) -> tuple[Candidate, ...]:
        name = room.view.name
        before = self.offers.get(name)
        if before is None or before[0] is not room:
            given = offer(room, self.ask, self.allowed)
            before = room, tuple([Candidate(room.view, kind, free) for kind, free in given.items()])
            self.offers[name] = before
        return before[1]


class Memory:
    """Belongs to one planner, and to one set of policies."""

    def __init__(self) -> None:
        self._rooms: dict[NodeName, Room] = {}
        self._planned: dict[NodeName, Room] = {}  # as the last plan left them
        self._like: Likeness = {}
        self._examined: dict[_Group, Examined] = {}
        self._at_hand: dict[int, tuple[Batch, Examined]] = {}  # by the identity of the batch
        self._default_policy = ""
        self._running: tuple[Running, ...] = ()
        # by the identity of what was examined, the span and the policy: the reservation of such a job before anything
        # has started, while nodes and running jobs are what they are
        self.foreseen: dict[tuple[int, float, Policy], tuple[Examined, Reservation | None]] = {}

    def begin(self, snapshot: Snapshot) -> Rooms:
        """The rooms of the nodes. Forgets what no longer holds, and what nobody asks for any more."""
        before, self._rooms = self._rooms, {}
        running, self._running = self._running, snapshot.running
        same = True
        for view in snapshot.nodes:
            known = before.get(view.name)
            if known is None or known.view is not view:
                planned = self._planned.get(view.name)
                if known is not None and planned is not None and planned.view is view:
                    known = planned
                else:
                    lasts = known is not None and _lasts(known.view, view)
                    same = same and lasts
                    known = room_of(view, *((known.alike, known.spots) if known and lasts else (alike(view),)))
            self._rooms[view.name] = known
        rooms = list(self._rooms.values())
        if running != snapshot.running or len(before) != len(rooms) or not all(map(is_, before.values(), rooms)):
            self.foreseen = {}
        default, self._default_policy = self._default_policy, snapshot.default_policy
        if not same or default != snapshot.default_policy or list(before) != list(self._rooms):
            self._like = likeness(snapshot.nodes)
            self._examined, self._at_hand = {}, {}
        elif len(self._examined) > 2 * len(snapshot.batches) + SPARE:
            asked = {_group(batch) for batch in snapshot.batches}
            self._examined = {group: found for group, found in self._examined.items() if group in asked}
        if len(self._at_hand) > len(snapshot.batches):  # a batch has all of its jobs: those of yesterday would stay
            there = {id(batch) for batch in snapshot.batches}
            self._at_hand = {key: known for key, known in self._at_hand.items() if key in there}
        return Rooms(rooms)

    def end(self, rooms: Iterable[Room]) -> None:
        """So the plan leaves those that it changed. Whoever carries it out to the letter may show these views again."""
        self._planned = {room.view.name: room for room in rooms}

    def at_hand(self, batch: Batch) -> Examined | None:
        """What is known of it, if it is the very one of an earlier plan."""
        known = self._at_hand.get(id(batch))
        return known[1] if known is not None and known[0] is batch else None

    def examined(self, batch: Batch, nodes: tuple[NodeView, ...]) -> Examined:
        group = _group(batch)
        found = self._examined.get(group)
        if found is None:
            found = examine_batch(batch, nodes, self._like)
            if len(self._examined) * len(nodes) >= MOST:
                return found
            self._examined[group] = found
        elif batch.closed:
            found = replace(found, ask=replace(found.ask, closed=dict(batch.closed)), blocked=None)
        self._at_hand[id(batch)] = batch, found
        return found


def examine_batch(batch: Batch, nodes: Sequence[NodeView], like: Likeness) -> Examined:
    ask = ask_for(batch.request, nodes, batch.avoid, like)
    if batch.closed:
        ask = replace(ask, closed=dict(batch.closed))
    # when a window ends is known; when a login is mended nobody knows, so nothing is promised there
    barred = [name for name, shut in batch.closed if shut.barred is Barred.LOGIN]
    return Examined(ask, frozenset([node.name for node in ask.allowed(nodes)]).difference(barred))


def _group(batch: Batch) -> _Group:
    """What is said of the closed nodes changes with the clock, and nothing follows from it."""
    return batch.request, batch.avoid, tuple([(name, shut.barred) for name, shut in batch.closed])


_PASSING = ("usable", "reason", "barred", "devices", "jobs", "exclusive", "claims")
_lasting = attrgetter(*[name for name in NodeView._fields if name not in _PASSING])


def _lasts(before: NodeView, view: NodeView) -> bool:
    """Whether no more has changed than changes from day to day: what a request means does not depend on that."""
    if len(before.devices) != len(view.devices) or _lasting(before) != _lasting(view):
        return False
    changed = compress(zip(before.devices, view.devices, strict=True), map(is_not, before.devices, view.devices))
    return not [None for old, new in changed if old[:DESCRIBED] != new[:DESCRIBED]]
