"""Every node as the planner and people see it: what was last observed there, and who holds what of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from mgpu.config.model import Config, NodeConfig
from mgpu.core import maintenance
from mgpu.core.model import DeviceUuid, JobId, NodeName, Request
from mgpu.core.observation import Node
from mgpu.core.plan import Barred, NodeHolds, NodeView
from mgpu.core.views import node_view
from mgpu.master.board import Board


@dataclass(frozen=True, slots=True)
class Gone:
    """An attempt whose last process on a node was seen to be gone at `at`: an older observation that still shows its
    processes is wrong about them."""

    at: float
    token: str
    session: int | None


class _Seen(NamedTuple):
    """All that a view follows from, beside the inventory. Of equal ones mostly all parts are the same: a tuple compares
    these first."""

    node: Node
    holds: NodeHolds
    owed: int
    maintenance: str  # under way


_NO_HOLDS = NodeHolds()


class Views:
    """Every node of the inventory, in its order. A view is made anew only when what it follows from has changed."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._made: dict[NodeName, tuple[_Seen, NodeView]] = {}

    def of(
        self, nodes: Mapping[NodeName, Node], board: Board, gone: Mapping[NodeName, Sequence[Gone]], now: float
    ) -> tuple[NodeView, ...]:
        apart = self._config.run_as == "submitter"
        holds = _holds(board, apart)
        # where accounts are apart it keeps that one alone from the node: see doors
        owed = Counter(part.node for _, part in board.parts() if part.owes_fence and not apart)
        tokens: dict[str, tuple[JobId, NodeName]] = {}
        found = []
        for entry in self._config.nodes:
            name = entry.name
            node = _without(nodes.get(name) or Node(name), gone.get(name, ()))
            closed = maintenance.under_way(entry.facts.maintenance, now) if entry.facts.maintenance else ""
            seen = _Seen(node, holds.get(name, _NO_HOLDS), owed.get(name, 0), closed)
            made = self._made.get(name)
            if made is None or made[0] != seen:
                tokens = tokens or _tokens(board)
                view = _view(entry, seen._replace(holds=replace(seen.holds, elsewhere=tokens)))
                # the same one where it says the same: what was found about it still holds
                made = self._made[name] = (seen, made[1] if made is not None and made[1] == view else view)
            found.append(made[1])
        return tuple(found)


def _view(entry: NodeConfig, seen: _Seen) -> NodeView:
    view = node_view(entry.facts, seen.node, seen.holds, entry.external)
    if view.usable and seen.owed:
        return view._replace(usable=False, barred=Barred.DOWN, reason=f"{seen.owed} given-up jobs are looked for first")
    if view.usable and seen.maintenance:
        return view._replace(usable=False, barred=Barred.MAINTENANCE, reason=seen.maintenance)
    return view


def _tokens(board: Board) -> dict[str, tuple[JobId, NodeName]]:
    held = [(item, part) for item, part in board.parts() if part.state.holds_devices]
    return {item.attempt.token_of(part): (item.job.job_id, part.node) for item, part in held}


def _holds(board: Board, apart: bool) -> dict[NodeName, NodeHolds]:
    """`apart`: of jobs that run under accounts of their users, processes are known by these too."""
    devices: dict[NodeName, dict[DeviceUuid, JobId]] = {}
    tokens: dict[NodeName, dict[str, JobId]] = {}
    sessions: dict[NodeName, dict[int, JobId]] = {}
    jobs: dict[NodeName, int] = {}
    exclusive: dict[NodeName, JobId] = {}
    asked: dict[NodeName, dict[JobId, tuple[Request, int]]] = {}
    accounts: dict[NodeName, dict[DeviceUuid, str]] = {}
    for item, part in board.parts():
        if not part.state.holds_devices:
            continue
        job_id = item.job.job_id
        devices.setdefault(part.node, {}).update(dict.fromkeys(part.uuids, job_id))
        tokens.setdefault(part.node, {})[item.attempt.token_of(part)] = job_id
        if apart and part.account:
            accounts.setdefault(part.node, {}).update(dict.fromkeys(part.uuids, part.account))
        if part.pid is not None:
            sessions.setdefault(part.node, {})[part.pid] = job_id
        asked.setdefault(part.node, {})[job_id] = item.job.spec.request, len(part.uuids)
        jobs[part.node] = jobs.get(part.node, 0) + 1
        if item.job.spec.request.exclusive:
            exclusive[part.node] = job_id
    return {
        name: NodeHolds(
            devices[name],
            tokens[name],
            sessions.get(name, {}),
            jobs[name],
            exclusive.get(name),
            asked[name],
            accounts=accounts.get(name, {}),
        )
        for name in jobs
    }


def _without(node: Node, gone: Sequence[Gone]) -> Node:
    """`gone`: the latest last."""
    seen = node.observation
    if seen is None or not gone or gone[-1].at < seen.at:
        return node
    late = [item for item in gone if item.at >= seen.at]
    tokens = {item.token for item in late}
    sessions = {item.session for item in late if item.session is not None}
    left = tuple(
        process for process in seen.processes if process.token not in tokens and process.session not in sessions
    )
    return replace(node, observation=replace(seen, processes=left))
