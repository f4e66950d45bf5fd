"""Stored state -> snapshot -> plan -> attempts STARTING. The database's unique key has the last word about a device.

GPUs are given out on a fresh look only: where a start meets an observation older than FRESH_S, or than the last
start that the node refused, the node is probed first and the plan made again with what that shows. So a process that
nobody queued is met before a job is, not after.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mgpu.config.model import DAY_S, Config
from mgpu.core import lifecycle, maintenance
from mgpu.core.array import to_come
from mgpu.core.lifecycle.milestones import WHO
from mgpu.core.model import (
    Attempt,
    AttemptState,
    Audit,
    Job,
    JobId,
    JobState,
    LauncherName,
    NodeName,
    Part,
)
from mgpu.core.observation import Node
from mgpu.core.plan import (
    Backfill,
    Batch,
    DeviceState,
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
from mgpu.core.waits import Plan
from mgpu.master.board import Board
from mgpu.master.use import Use, owner_of
from mgpu.ops import arrays
from mgpu.ops.output import NOTICE
from mgpu.store.writing import HoldConflict, Writer

FRESH_S = 5.0
PATIENCE_S = 2.0  # with a node that is asked; then GPUs are looked for elsewhere
NO_ANSWER = "unknown: nvidia-smi was asked and has not answered yet"


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
