"""Stored state -> snapshot -> plan -> attempts STARTING. The database's unique key has the last word about a device.

GPUs are given out on a fresh look only: where a start meets an observation older than FRESH_S, or than the last
start that the node refused, the node is probed first and the plan made again with what that shows. So a process that
nobody queued is met before a job is, not after.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from mgpu.config.model import DAY_S, Config, NodeConfig
from mgpu.core import lifecycle, maintenance
from mgpu.core.array import to_come
from mgpu.core.lifecycle.milestones import WHO
from mgpu.core.model import (
    Attempt,
    AttemptState,
    Audit,
    DeviceUuid,
    Job,
    JobId,
    JobState,
    LauncherName,
    NodeName,
    Part,
    Request,
)
from mgpu.core.observation import Node
from mgpu.core.plan import (
    Backfill,
    Barred,
    Batch,
    DeviceState,
    NodeHolds,
    NodeView,
    Owner,
    PendingJob,
    Running,
    Snapshot,
    Start,
    Wait,
)
from mgpu.core.ports import meeting_port
from mgpu.core.queue import Queue
from mgpu.core.shape import shape_of
from mgpu.core.tasks import uneven
from mgpu.core.views import node_view
from mgpu.core.waits import Plan
from mgpu.master.board import Board
from mgpu.master.use import Use, owner_of
from mgpu.ops import arrays
from mgpu.ops.output import NOTICE
from mgpu.store.writing import HoldConflict, Writer

FRESH_S = 5.0
PATIENCE_S = 2.0  # with a node that is asked; then GPUs are looked for elsewhere
NO_ANSWER = "unknown: nvidia-smi was asked and has not answered yet"


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


Asked = tuple[tuple[Batch, ...], tuple[PendingJob, ...]]  # jobs that may start now, and those that may not yet


def snapshot(
    config: Config, nodes: tuple[NodeView, ...], asked: Asked, board: Board, now: float, use: Use | None = None
) -> Snapshot:
    """`use` None = in order of submission."""
    batches, later = asked
    batches = maintenance.closing(batches, nodes, now)
    order = use.order({batch.owner for batch in batches}, now) if use else None
    bounds = use.bounds(now) if use else None
    backfill = Backfill(config.backfill)
    running = () if backfill is Backfill.SKIP else _running(board, spans(config), now)
    tasks = Counter(item.job.array_id for item in board if item.current and item.job.array_id is not None)
    return Snapshot(now, nodes, batches, later, config.default_policy, running, backfill, tasks, order, bounds)


def what_if(
    config: Config,
    nodes: tuple[NodeView, ...],
    asked: Asked,
    board: Board,
    now: float,
    more: PendingJob | None,
    use: Use | None = None,
) -> Snapshot:
    """`asked`: of the last pass, which may have started some of these."""
    started = {item.job.job_id for item in board if item.job.state is JobState.RUNNING}
    batches, later = asked
    left = ((batch, tuple(job for job in batch.jobs if job.job_id not in started)) for batch in batches)
    batches = tuple(batch._replace(jobs=jobs) for batch, jobs in left if jobs)
    if more is not None:
        alone, not_yet = Queue([more]).at(now)
        batches, later = (*batches, *alone), (*later, *not_yet)
    return snapshot(config, nodes, (batches, later), board, now, use)


def _running(board: Board, span_s: Callable[[Job], float], now: float) -> tuple[Running, ...]:
    """Without those that are out of sight, of which nobody can tell when they end."""
    found = []
    for item in board:
        held = [part for part in item.parts if part.state.holds_devices]
        if held and all(part.state is not AttemptState.LOST for part in held):
            began = min((part.started for part in held if part.started is not None), default=item.attempt.created)
            until = _until(began, span_s(item.job), item.job.spec.time_limit_s is not None, now)
            parts = tuple((part.node, part.uuids) for part in held)
            owner, partition = owner_of(item.job), item.job.spec.request.partition
            found.append(Running(item.job.job_id, until, parts, item.job.array_id, owner, partition))
    return tuple(found)


def _until(began: float, span_s: float, limited: bool, now: float) -> float:
    """Whoever runs longer than was thought is thought to run twice as long, and twice again; one with a limit is about
    to be ended."""
    while not limited and span_s > 0 and began + span_s <= now:
        span_s *= 2
    return max(now, began + span_s)


def spans(config: Config) -> Callable[[Job], float]:
    """How long a job may run; 0 for all where nobody asks, so that equal requests stay one batch."""
    asked = (
        config.fair_share.asks_span
        or config.backfill != Backfill.SKIP
        or any(node.facts.maintenance for node in config.nodes)
    )

    def span_s(job: Job) -> float:
        if not asked:
            return 0.0
        if job.spec.time_limit_s is not None:
            return job.spec.time_limit_s
        named = job.spec.request.partition.split(",") if job.spec.request.partition else config.partitions
        times = [config.partitions[name].planning_time_s for name in named if name in config.partitions]
        return max(times, default=DAY_S)

    return span_s


def owners(config: Config) -> Callable[[Job], Owner | None]:
    """Whose a job is; None for all where that does not matter, so that equal requests stay one batch."""
    asked = config.fair_share.asks_owner or config.bounds or config.run_as == "submitter"
    return owner_of if asked else lambda job: None


def elsewhere(nodes: Sequence[NodeView], job: Job, parts: Sequence[Part]) -> bool:
    """Some node that has not failed this job could take it, as far as its request names nodes."""
    request = job.spec.request
    if request.pins or request.nodelist:
        return False
    tried = {*job.avoid, *request.exclude, *(part.node for part in parts)}
    return any(
        view.name not in tried and view.usable and (not request.partition or request.partition in view.partitions)
        for view in nodes
    )


class Link(Protocol):
    """A node's link, as far as looks at the node are concerned."""

    refused_at: float

    @property
    def asked_for_s(self) -> float: ...
    def probe(self) -> bool: ...


def fresh(
    plan: Plan, nodes: Mapping[NodeName, Node], links: Mapping[NodeName, Link], now: float
) -> tuple[list[Start], dict[JobId, Wait]]:
    """The starts that may be committed, and why the others may not yet: their nodes are probed."""
    ready, waits = [], {}
    for start in plan.starts:
        stale = [name for _, name, _, uuids in start.parts if uuids and _is_stale(nodes[name], links[name], now)]
        for name in stale:
            links[name].probe()
        if stale:
            asked = f"{', '.join(stale)}: asked what runs there before GPUs are given out"
            waits[start.job_id] = Wait("Probing", asked)
        else:
            ready.append(start)
    return ready, waits


def answering(
    views: tuple[NodeView, ...], nodes: Mapping[NodeName, Node], links: Mapping[NodeName, Link], now: float
) -> tuple[NodeView, ...]:
    """Without the GPUs of nodes that were asked and do not answer soon: whoever waits may find others."""
    silent = {
        name for name, link in links.items() if link.asked_for_s > PATIENCE_S and _is_stale(nodes[name], link, now)
    }
    return tuple(_silent(view) if view.name in silent else view for view in views) if silent else views


def _is_stale(node: Node, link: Link, now: float) -> bool:
    """Also where it has refused a start since: what kept it from that was not seen."""
    seen = node.observation
    return seen is None or now - seen.at > FRESH_S or seen.at < link.refused_at <= now


def _silent(view: NodeView) -> NodeView:
    devices = (
        device._replace(state=DeviceState.UNKNOWN, reason=NO_ANSWER) if device.state is DeviceState.FREE else device
        for device in view.devices
    )
    return view._replace(devices=tuple(devices))


@dataclass(frozen=True, slots=True)
class Place:
    """How a node is reached, and what it calls itself."""

    address: str
    hostname: str


@dataclass(frozen=True, slots=True)
class Grounds:
    """What a start is stored upon: its nodes' places, what is still waited for, the ports in use."""

    places: Mapping[NodeName, Place]
    account_of: Callable[[str, NodeName], str]  # of a user, on a node
    still: Callable[[Job], bool]
    ports: set[int | None]
    range: tuple[int, int]  # that a port is chosen from


def commit(writer: Writer, start: Start, grounds: Grounds, now: float) -> Job | None:
    """Store the attempt with its holds; None where the plan was stale: a device taken, or the job no longer pending or
    `still` what was planned."""
    job = writer.job(start.job_id)
    if job is None or job.state is not JobState.PENDING or not grounds.still(job):
        return None
    try:
        with writer.as_a_whole():
            return _place(writer, job, start, grounds, now)
    except HoldConflict as conflict:
        writer.audit(Audit(now, WHO, "start refused", job.job_id, conflict.node, str(conflict)))
        return None


def _place(writer: Writer, job: Job, start: Start, grounds: Grounds, now: float) -> Job:
    """Of an array, its next task. Raises HoldConflict."""
    if job.is_array:
        job = arrays.make_task(writer, job, to_come(job)[0][0], now)
    number = job.attempt + 1
    meets = len(start.parts) > 1 or job.spec.launcher is not LauncherName.NONE or job.spec.tasks_per_node is not None
    port = meeting_port(job.job_id, number, grounds.ports, grounds.range) if meets else None
    grounds.ports.add(port)
    attempt = Attempt(job.job_id, number, secrets.token_hex(16), AttemptState.STARTING, now, port=port)
    parts = [
        Part(
            job_id=job.job_id,
            attempt=number,
            rank=placed.rank,
            node=placed.node,
            account=grounds.account_of(job.user, placed.node),
            devices=placed.devices,
            uuids=placed.uuids,
            state=AttemptState.STARTING,
            hostname=grounds.places[placed.node].hostname,
            address=grounds.places[placed.node].address,
        )
        for placed in start.parts
    ]
    writer.add_attempt(attempt, parts)
    placed_job = lifecycle.place(job, number, now)
    writer.save_job(placed_job, job)
    if not shape_of(job.spec.request).sizes and (told := uneven([len(part.uuids) for part in parts])):
        writer.audit(Audit(now, WHO, NOTICE, job.job_id, None, told))
    where = "; ".join(f"{part.node}:{','.join(map(str, part.devices))}" for part in parts)
    writer.audit(Audit(now, WHO, "placed", job.job_id, None, where), placed_job)
    return placed_job
