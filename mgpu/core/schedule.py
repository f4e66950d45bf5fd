"""Snapshot -> Plan: which pending jobs start now and where, and why each other one waits.

Jobs are taken by priority, then age, then number; each gets all its parts or none, from what earlier starts of the
same plan have left. Same snapshot, same plan: a memory of earlier ones only spares work. A job that does not fit does
not hold up smaller ones behind it.

Within a plan free devices only become fewer. So once a job did not fit, the rest of its batch is not tried: ten
thousand equal jobs cost as much as one. And what was found about a node holds until a start changes that node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heapreplace

from mgpu.core.feasible import Ask, Verdict, enough, examine
from mgpu.core.memory import Examined, Memory
from mgpu.core.model import NodeName, Request
from mgpu.core.placement import place
from mgpu.core.plan import Batch, DeviceState, NodeView, PendingJob, PlacedPart, Plan, Snapshot, Start, Wait
from mgpu.core.policies import POLICIES, Policy, PolicyError

NodeReasons = tuple[tuple[NodeName, str], ...]


def plan(snapshot: Snapshot, policies: Mapping[str, Policy] = POLICIES, memory: Memory | None = None) -> Plan:
    """Every pending job comes back once, as a Start or as a Wait."""
    memory = memory or Memory()
    memory.begin(snapshot)
    planner = _Planner(snapshot, policies, memory)
    starts: list[Start] = []
    waits = {job.job_id: _too_early(job, snapshot.now) for job in snapshot.later}
    heads = [(batch.jobs[0].rank, number, 0) for number, batch in enumerate(snapshot.batches)]
    heapify(heads)
    while heads:
        _, number, at = heads[0]
        batch = snapshot.batches[number]
        answer = planner.answer(batch, batch.jobs[at])
        if isinstance(answer, Wait):
            # what did not fit the first of them does not fit the others: devices only become fewer
            waits.update(dict.fromkeys([job.job_id for job in batch.jobs[at:]], answer))
            heappop(heads)
            continue
        starts.append(answer)
        if at + 1 < len(batch.jobs):
            heapreplace(heads, (batch.jobs[at + 1].rank, number, at + 1))
        else:
            heappop(heads)
    return Plan(tuple(starts), waits)


@dataclass(slots=True)
class _Planner:
    """The working state of one plan: the nodes as the starts so far leave them."""

    snapshot: Snapshot
    policies: Mapping[str, Policy]
    memory: Memory
    nodes: tuple[NodeView, ...] = field(init=False)
    at_hand: dict[int, Examined] = field(default_factory=dict)  # by the identity of the batch

    def __post_init__(self) -> None:
        self.nodes = self.snapshot.nodes

    def answer(self, batch: Batch, job: PendingJob) -> Start | Wait:
        try:
            policy = self._policy(batch.request)
            if id(batch) not in self.at_hand:
                self.at_hand[id(batch)] = self.memory.examined(batch, self.snapshot.nodes)
            known = self.at_hand[id(batch)]
            if known.answer is not None and (known.before, known.then) == (self.snapshot.nodes, self.nodes):
                return known.answer
            parts = () if known.ask.impossible else place(known.ask, self.nodes, self._verdicts(known), policy)
            if not parts:
                return self._wait(known, policy)
        except PolicyError as error:
            name = batch.request.policy or self.snapshot.default_policy
            return Wait("PolicyError", f"policy {name} failed: {error}")
        self._take(job, parts)
        return Start(job.job_id, parts)

    def _policy(self, request: Request) -> Policy:
        name = request.policy or self.snapshot.default_policy
        if name not in self.policies:
            raise PolicyError(f"not known, there are {', '.join(self.policies)}")
        return self.policies[name]

    def _verdicts(self, known: Examined) -> dict[NodeName, Verdict]:
        return known.verdicts_on(self.nodes)

    def _take(self, job: PendingJob, parts: Sequence[PlacedPart]) -> None:
        by_node = {part.node: part for part in parts}
        self.nodes = tuple(
            _with_part(node, job, by_node[node.name]) if node.name in by_node else node for node in self.nodes
        )

    def _wait(self, known: Examined, policy: Policy) -> Wait:
        wait = self._why(known.ask, self._verdicts(known), policy)
        if policy in POLICIES.values():  # a site's own may say something else the next time
            known.before, known.then, known.answer = self.snapshot.nodes, self.nodes, wait
        return wait

    def _why(self, ask: Ask, verdicts: Mapping[NodeName, Verdict], policy: Policy) -> Wait:
        reasons = _reasons(self.nodes, verdicts)
        if ask.impossible:
            return Wait("BadConstraints", ask.impossible, reasons)
        if blocked := _blocked(self.nodes, ask):
            return Wait(*blocked, reasons)
        if self._would_have_started(ask, verdicts, policy):
            return Wait("Priority", "jobs of higher priority start first on what it needs", reasons)
        return Wait("Resources", _short_of(self.nodes, ask, verdicts), reasons)

    def _would_have_started(self, ask: Ask, verdicts: Mapping[NodeName, Verdict], policy: Policy) -> bool:
        """Before the starts of this plan took what it needs."""
        changed = {
            was.name: examine(was, ask)
            for was, now in zip(self.snapshot.nodes, self.nodes, strict=True)
            if was is not now
        }
        return bool(changed and place(ask, self.snapshot.nodes, {**verdicts, **changed}, policy))


def _with_part(node: NodeView, job: PendingJob, part: PlacedPart) -> NodeView:
    taken = set(part.uuids)
    devices = tuple(
        replace(device, state=DeviceState.ALLOCATED, reason=f"held by job {job.job_id}", job_id=job.job_id)
        if device.uuid in taken
        else device
        for device in node.devices
    )
    exclusive = job.job_id if job.request.exclusive else node.exclusive
    return replace(node, devices=devices, jobs=node.jobs + 1, exclusive=exclusive)


def _too_early(job: PendingJob, now: float) -> Wait:
    seconds = max(1, round(job.not_before - now))
    if job.failures:
        tries = f"{job.failures} failed {'try' if job.failures == 1 else 'tries'}"
        return Wait("Backoff", f"tried again in {seconds} s, after {tries}")
    return Wait("BeginTime", f"may start in {seconds} s at the earliest")


def _reasons(nodes: Sequence[NodeView], verdicts: Mapping[NodeName, Verdict]) -> NodeReasons:
    return tuple(
        (node.name, verdicts[node.name].reason or "could take a part, but not all of the job fits") for node in nodes
    )


def _blocked(nodes: Sequence[NodeView], ask: Ask) -> tuple[str, str] | None:
    """A node that was asked for cannot be used, or too few that could do it can: the reason and its words."""
    allowed = [node for node in nodes if not ask.ruled_out(node)]
    serving = [node for node in allowed if _serves(node, ask)]
    idle = [node for node in allowed if not _serves(node, ask)]
    if ask.shape.named and idle:
        return "ReqNodeNotAvail", _why_down(idle, ask)
    if idle and not enough(ask, serving):
        lead = "too few nodes that could do it are usable: " if len(allowed) > 1 else ""
        return _code(idle, ask), lead + _why_down(idle, ask)
    return None


def _code(idle: Sequence[NodeView], ask: Ask) -> str:
    if not all(node.usable for node in idle):
        return "NodeDown"
    if all(node.name in ask.closed for node in idle):
        return "Maintenance"
    return "Resources"  # up, and its GPUs cannot be read


def _serves(node: NodeView, ask: Ask) -> bool:
    """Usable, and its GPUs can be read if the job needs any."""
    readable = any(device.state is not DeviceState.UNKNOWN for device in node.devices)
    return node.usable and node.name not in ask.closed and (readable or not ask.need_on(node.name))


def _why_down(nodes: Sequence[NodeView], ask: Ask) -> str:
    reasons = [(ask.closed.get(node.name) if node.usable else "") or node.reason or "not usable" for node in nodes[:3]]
    shown = "; ".join(f"{node.name}: {reason}" for node, reason in zip(nodes[:3], reasons, strict=True))
    return shown if len(nodes) <= 3 else f"{shown}; and {len(nodes) - 3} more"


def _short_of(nodes: Sequence[NodeView], ask: Ask, verdicts: Mapping[NodeName, Verdict]) -> str:
    """What is missing, in one line; the reasons per node say the rest."""
    allowed = [node.name for node in nodes if not ask.ruled_out(node)]
    if len(allowed) == 1:
        return f"{allowed[0]}: {verdicts[allowed[0]].reason or 'left out by the policy'}"
    if len(ask.sizes) == 1:
        size = ask.sizes[0]
        wanted = "an empty node" if ask.request.exclusive else f"{size} free GPU{'' if size == 1 else 's'} on one node"
    elif ask.sizes:
        sizes = "+".join(map(str, ask.sizes)) if len(set(ask.sizes)) > 1 else f"{ask.sizes[0]} each"
        wanted = f"{len(ask.sizes)} nodes with free GPUs ({sizes}) at the same time"
    else:
        wanted = f"{ask.shape.total} free GPUs on {ask.most_parts} nodes at the same time"
    taken = [d for node in nodes if node.usable and not ask.ruled_out(node) for d in node.devices]
    free = sum(1 for device in taken if device.state is DeviceState.FREE)
    return f"needs {wanted}; {free} of {len(taken)} GPUs are free"
