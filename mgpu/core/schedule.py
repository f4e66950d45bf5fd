"""Snapshot -> Plan: which pending jobs start now and where, and why each other one waits.

Jobs are taken by priority, then age, then number; each gets all its parts or none, from what earlier starts of the
same plan have left. Nothing is remembered between plans: same snapshot, same plan. A job that does not fit does not
hold up smaller ones behind it.

Within a plan free devices only become fewer. So a request that did not fit once is not tried again, and ten thousand
equal jobs cost as much as one; and what was found about a node holds until a start changes that node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mgpu.core.feasible import Ask, Verdict, ask_for, enough, examine
from mgpu.core.model import NodeName, Request
from mgpu.core.placement import place
from mgpu.core.plan import DeviceState, NodeView, PendingJob, PlacedPart, Plan, Snapshot, Start, Wait
from mgpu.core.policies import POLICIES, Policy, PolicyError

NodeReasons = tuple[tuple[NodeName, str], ...]
Group = tuple[Request, tuple[NodeName, ...]]


def plan(snapshot: Snapshot, policies: Mapping[str, Policy] = POLICIES) -> Plan:
    """Every pending job comes back once, as a Start or as a Wait."""
    planner = _Planner(snapshot, policies)
    starts: list[Start] = []
    waits: list[Wait] = []
    for job in sorted(snapshot.pending, key=lambda job: (-job.priority, job.submit_time, job.job_id)):
        answer = planner.answer(job)
        if isinstance(answer, Start):
            starts.append(answer)
        else:
            waits.append(answer)
    return Plan(tuple(starts), tuple(waits))


@dataclass(slots=True)
class _Planner:
    """The working state of one plan: the nodes as the starts so far leave them."""

    snapshot: Snapshot
    policies: Mapping[str, Policy]
    nodes: list[NodeView] = field(init=False)
    asks: dict[Group, Ask] = field(default_factory=dict)
    verdicts: dict[Group, dict[NodeName, tuple[NodeView, Verdict]]] = field(default_factory=dict)
    waits: dict[Group, Wait] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.nodes = list(self.snapshot.nodes)

    def answer(self, job: PendingJob) -> Start | Wait:
        if job.not_before > self.snapshot.now:
            return _too_early(job, self.snapshot.now)
        group = (job.request, job.avoid)
        if group in self.waits:
            return replace(self.waits[group], job_id=job.job_id)
        try:
            policy = self._policy(job.request)
            parts = self._place(group, policy)
            if parts:
                self._take(job, parts)
                return Start(job.job_id, parts)
            self.waits[group] = self._wait(job, group, policy)
            del self.verdicts[group]  # not asked again
        except PolicyError as error:
            name = job.request.policy or self.snapshot.default_policy
            self.waits[group] = Wait(job.job_id, "PolicyError", f"policy {name} failed: {error}")
        return self.waits[group]

    def _policy(self, request: Request) -> Policy:
        name = request.policy or self.snapshot.default_policy
        if name not in self.policies:
            raise PolicyError(f"not known, there are {', '.join(self.policies)}")
        return self.policies[name]

    def _place(self, group: Group, policy: Policy) -> tuple[PlacedPart, ...]:
        if group not in self.asks:
            self.asks[group] = ask_for(group[0], self.snapshot.nodes, group[1])
        ask = self.asks[group]
        return () if ask.impossible else place(ask, self.nodes, self._verdicts(group, ask), policy)

    def _verdicts(self, group: Group, ask: Ask) -> dict[NodeName, Verdict]:
        known = self.verdicts.setdefault(group, {})
        for node in self.nodes:
            if node.name not in known or known[node.name][0] is not node:
                known[node.name] = (node, examine(node, ask))
        return {name: verdict for name, (_, verdict) in known.items()}

    def _take(self, job: PendingJob, parts: Sequence[PlacedPart]) -> None:
        by_node = {part.node: part for part in parts}
        for at, node in enumerate(self.nodes):
            if node.name in by_node:
                self.nodes[at] = _with_part(node, job, by_node[node.name])

    def _wait(self, job: PendingJob, group: Group, policy: Policy) -> Wait:
        ask = self.asks[group]
        if ask.impossible:
            return Wait(job.job_id, "BadConstraints", ask.impossible, _reasons(self.nodes, self._verdicts(group, ask)))
        verdicts = self._verdicts(group, ask)
        reasons = _reasons(self.nodes, verdicts)
        if blocked := _blocked(self.nodes, ask):
            return Wait(job.job_id, *blocked, reasons)
        if self._would_have_started(ask, verdicts, policy):
            return Wait(job.job_id, "Priority", "jobs of higher priority start first on what it needs", reasons)
        return Wait(job.job_id, "Resources", _short_of(self.nodes, ask, verdicts), reasons)

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
        return Wait(job.job_id, "Backoff", f"tried again in {seconds} s, after {tries}")
    return Wait(job.job_id, "BeginTime", f"may start in {seconds} s at the earliest")


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
        return "ReqNodeNotAvail", _why_down(idle)
    if not enough(ask, serving):
        lead = "too few nodes that could do it are usable: " if len(allowed) > 1 else ""
        return "NodeDown", lead + _why_down(idle)
    return None


def _serves(node: NodeView, ask: Ask) -> bool:
    """Usable, and its GPUs can be read if the job needs any."""
    readable = any(device.state is not DeviceState.UNKNOWN for device in node.devices)
    return node.usable and (readable or not ask.need_on(node.name))


def _why_down(nodes: Sequence[NodeView]) -> str:
    shown = "; ".join(f"{node.name}: {node.reason or 'not usable'}" for node in nodes[:3])
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
