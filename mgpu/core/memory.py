"""What a plan found out about requests and nodes, kept for the next one.

All of it follows from requests and nodes alone, so a plan with a memory says what it would say without, only sooner:
what a request means holds while the inventory is what it was, what a node offers while the node is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from mgpu.core.feasible import Ask, ask_for
from mgpu.core.model import DeviceUuid, NodeName, Request
from mgpu.core.plan import Batch, DeviceView, NodeView, Snapshot
from mgpu.core.policies import Candidate
from mgpu.core.rooms import Room, alike, offer, room_of

SPARE = 200  # requests of which nobody asks now, but somebody may soon
MOST = 100_000  # offers kept; the batches behind them are looked at anew each time

_Group = tuple[Request, tuple[NodeName, ...], tuple[NodeName, ...]]


@dataclass(slots=True)
class Examined:
    """Of a batch: its request as this cluster understands it, the nodes that it may ever use, and of each node the last
    candidates."""

    ask: Ask
    allowed: frozenset[NodeName]
    offers: dict[NodeName, tuple[Room, tuple[Candidate, ...]]] = field(default_factory=dict)

    def candidates(self, rooms: Iterable[Room]) -> list[Candidate]:
        found: list[Candidate] = []
        known = self.offers
        for room in rooms:
            name = room.view.name
            before = known.get(name)
            if before is None or before[0] is not room:
                given = offer(room, self.ask, self.allowed)
                before = room, tuple([Candidate(room.view, kind, free) for kind, free in given.items()])
                known[name] = before
            found += before[1]
        return found


class Memory:
    """Belongs to one planner, and to one set of policies."""

    def __init__(self) -> None:
        self._rooms: dict[NodeName, Room] = {}
        self._examined: dict[_Group, Examined] = {}

    def begin(self, snapshot: Snapshot) -> dict[NodeName, Room]:
        """The rooms of the nodes. Forgets what no longer holds, and what nobody asks for any more."""
        before, self._rooms = self._rooms, {}
        same = True
        for view in snapshot.nodes:
            known = before.get(view.name)
            if known is None or known.view is not view:
                lasts = known is not None and _lasts(known.view, view)
                same = same and lasts
                known = room_of(view, known.alike if known is not None and lasts else alike(view))
            self._rooms[view.name] = known
        if not same or list(before) != list(self._rooms):
            self._examined = {}
        elif len(self._examined) > 2 * len(snapshot.batches) + SPARE:
            asked = {_group(batch) for batch in snapshot.batches}
            self._examined = {group: found for group, found in self._examined.items() if group in asked}
        return dict(self._rooms)

    def examined(self, batch: Batch, nodes: tuple[NodeView, ...]) -> Examined:
        group = _group(batch)
        found = self._examined.get(group)
        if found is None:
            found = examine_batch(batch, nodes)
            if len(self._examined) * len(nodes) < MOST:
                self._examined[group] = found
        elif batch.closed:
            found = replace(found, ask=replace(found.ask, closed=dict(batch.closed)))
        return found


def examine_batch(batch: Batch, nodes: tuple[NodeView, ...]) -> Examined:
    ask = ask_for(batch.request, nodes, batch.avoid)
    if batch.closed:
        ask = replace(ask, closed=dict(batch.closed))
    return Examined(ask, frozenset(node.name for node in nodes if not ask.ruled_out(node)))


def _group(batch: Batch) -> _Group:
    """What is said of the closed nodes changes with the clock, and nothing follows from it."""
    return batch.request, batch.avoid, tuple(name for name, _ in batch.closed)


def _lasts(before: NodeView, view: NodeView) -> bool:
    """Whether no more has changed than changes from day to day: what a request means does not depend on that."""
    if len(before.devices) != len(view.devices):
        return False
    for old, new in zip(before.devices, view.devices, strict=True):
        if old is not new and _described(old) != _described(new):
            return False
    return _today(before) == _today(view)


def _today(node: NodeView) -> NodeView:
    return replace(node, usable=True, reason="", barred=None, devices=(), jobs=0, exclusive=None)


def _described(device: DeviceView) -> tuple[DeviceUuid, int, str, str, int | None]:
    return device.uuid, device.index, device.name, device.kind, device.memory_total_mib
