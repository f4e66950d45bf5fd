"""What a plan found out about requests and nodes, kept for the next one.

All of it follows from requests and nodes alone, so a plan with a memory says what it would say without, only sooner:
what a request means holds while the inventory is what it was, a verdict while the node is, an answer while all are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mgpu.core.feasible import Ask, Verdict, ask_for, examine
from mgpu.core.model import NodeName, Request
from mgpu.core.plan import Batch, Closed, DeviceState, NodeView, Snapshot, Wait

MOST = 50_000  # verdicts kept; the batches behind them are looked at anew each time

_Nodes = tuple[NodeView, ...]
_Group = tuple[Request, tuple[NodeName, ...], Closed]


@dataclass(slots=True)
class Examined:
    """Of a batch: its request as this cluster understands it, of each node the last verdict, and the answer that it got
    when the nodes were `before` the plan's starts and `then` after those of higher rank."""

    ask: Ask
    verdicts: dict[NodeName, tuple[NodeView, Verdict]] = field(default_factory=dict)
    before: _Nodes = ()
    then: _Nodes = ()
    answer: Wait | None = None

    def verdicts_on(self, nodes: Sequence[NodeView]) -> dict[NodeName, Verdict]:
        for node in nodes:
            known = self.verdicts.get(node.name)
            if known is None or known[0] is not node:
                self.verdicts[node.name] = (node, examine(node, self.ask))
        return {name: verdict for name, (_, verdict) in self.verdicts.items()}


class Memory:
    """Belongs to one planner, and to one set of policies."""

    def __init__(self) -> None:
        self._inventory: dict[NodeName, tuple[NodeView, NodeView]] = {}  # as it was seen, and what of it stays
        self._examined: dict[_Group, Examined] = {}

    def begin(self, snapshot: Snapshot) -> None:
        """Forgets what no longer holds, and what nobody asks for any more."""
        inventory: dict[NodeName, tuple[NodeView, NodeView]] = {}
        for node in snapshot.nodes:
            known = self._inventory.get(node.name)
            inventory[node.name] = known if known is not None and known[0] is node else (node, _lasting(node))
        asked = {_group(batch) for batch in snapshot.batches}
        if [lasting for _, lasting in inventory.values()] != [lasting for _, lasting in self._inventory.values()]:
            asked = set()
        self._inventory = inventory
        self._examined = {group: found for group, found in self._examined.items() if group in asked}

    def examined(self, batch: Batch, nodes: _Nodes) -> Examined:
        group = _group(batch)
        found = self._examined.get(group)
        if found is None:
            ask = ask_for(batch.request, nodes, batch.avoid)
            found = Examined(replace(ask, closed=dict(batch.closed)) if batch.closed else ask)
            if len(self._examined) * len(nodes) < MOST:
                self._examined[group] = found
        return found


def _group(batch: Batch) -> _Group:
    return batch.request, batch.avoid, batch.closed


def _lasting(node: NodeView) -> NodeView:
    """The node without what changes from day to day: what a request means does not depend on that."""
    devices = tuple(
        replace(device, state=DeviceState.FREE, reason="", job_id=None, suspect=False) for device in node.devices
    )
    return replace(node, usable=True, reason="", devices=devices, jobs=0, exclusive=None)
