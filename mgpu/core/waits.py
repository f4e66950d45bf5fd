"""Why jobs wait, in words: made only when somebody looks, for a plan turns thousands away and a person reads of few."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import overload

from mgpu.core import claims
from mgpu.core.array import shown_id
from mgpu.core.ask import Ask, enough
from mgpu.core.dependency import NEVER, Verdict
from mgpu.core.devices import describe
from mgpu.core.feasible import examine, partly
from mgpu.core.hostlist import fold
from mgpu.core.model import HELD_BY_ADMIN, Job, JobId, NodeName
from mgpu.core.placement import place
from mgpu.core.plan import Barred, DeviceState, NodeView, PendingJob, Reservation, Start, Wait
from mgpu.core.policies import Candidate, Policy, PolicyError, fill_first
from mgpu.core.rooms import alike, offer, room_of
from mgpu.core.timelimit import render_time_limit

NodeReason = tuple[NodeName, str]
_KEPT = "what it needs is kept for job"
UNTOLD = "; nobody can tell when, so nothing is kept for it: it needs GPUs that no job of ours will give back"


@dataclass(frozen=True, slots=True)
class Blocked:
    """Jobs that were turned away alike. `wait`: nothing more is to be said; `ahead`: the job that may not be passed."""

    ask: Ask
    wait: Wait | None = None
    policy: Policy = fill_first
    ahead: JobId | None = None


Turned = Sequence[tuple[Sequence[PendingJob], Blocked]]  # away, and why


@dataclass(frozen=True, slots=True)
class Explainer:
    """The nodes `before` the plan's starts and `after` them."""

    before: tuple[NodeView, ...]
    after: tuple[NodeView, ...]
    reservation: Reservation | None
    _idle: list[NodeView] = field(default_factory=list, init=False, compare=False)  # the nodes without our jobs

    def wait(self, blocked: Blocked) -> Wait:
        if blocked.wait is not None:
            return blocked.wait
        code, detail = self._why(blocked)
        kept = self.reservation if detail.startswith(_KEPT) else None
        return Wait(code, detail, NodeReasons(self.after, blocked.ask, kept))

    def _why(self, blocked: Blocked) -> tuple[str, str]:
        ask = blocked.ask
        if ask.impossible:
            return "BadConstraints", ask.impossible
        if blocked.ahead is not None:
            return "Priority", f"job {blocked.ahead} is ahead of it, and none passes it (scheduling: backfill: none)"
        if unusable := _blocked(self.after, ask):
            return unusable
        if shut := _shut_out(self.after, blocked):
            return shut
        if _fits(self.before, blocked):
            if self.reservation is not None and _fits(self.after, blocked):
                return "Priority", f"{_KEPT} {self.reservation.job_id}, which is ahead of it"
            return "Priority", "jobs of higher priority start first on what it needs"
        if not self._idle:
            self._idle.extend(map(_without_jobs, self.after))
        untold = "" if _fits(self._idle, blocked) else UNTOLD
        return "Resources", _short_of(self.after, ask) + untold


def _without_jobs(node: NodeView) -> NodeView:
    """As it will be when all our jobs there have ended."""
    devices = (
        device._replace(state=DeviceState.FREE) if device.state is DeviceState.ALLOCATED else device
        for device in node.devices
    )
    return node._replace(devices=tuple(devices), jobs=0, exclusive=None, claims=())


class NodeReasons(Sequence[NodeReason]):
    """What keeps a part of the job from each node, in the inventory's order. `kept`: for whom what it needs is."""

    def __init__(self, nodes: Sequence[NodeView], ask: Ask, kept: Reservation | None = None) -> None:
        self._nodes = nodes
        self._ask = ask
        self._kept = kept

    @overload
    def __getitem__(self, at: int) -> NodeReason: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[NodeReason]: ...
    def __getitem__(self, at: int | slice) -> NodeReason | Sequence[NodeReason]:
        if isinstance(at, slice):
            return [self._reason(node) for node in self._nodes[at]]
        return self._reason(self._nodes[at])

    def __len__(self) -> int:
        return len(self._nodes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    def _reason(self, node: NodeView) -> NodeReason:
        if reason := examine(node, self._ask).reason:
            return node.name, reason
        if self._kept is not None and any(part.node == node.name for part in self._kept.parts):
            return node.name, f"what is free there is kept for job {self._kept.job_id}"
        return node.name, partly(node, self._ask)


class Waits(Mapping[JobId, Wait]):
    """Of every job that does not start. `blocked`: the jobs that were turned away alike, each with why."""

    def __init__(
        self,
        fixed: Mapping[JobId, Wait],
        blocked: Turned,
        explainer: Explainer,
    ) -> None:
        self._fixed = fixed
        self._blocked = blocked
        self._explainer = explainer
        self._found: dict[JobId, Blocked] | None = None
        self._explained: dict[int, Wait] = {}  # by the identity of the Blocked

    def beside(self, fixed: Mapping[JobId, Wait]) -> Waits:
        """With these as well."""
        return Waits({**self._fixed, **fixed}, self._blocked, self._explainer)

    def __getitem__(self, job_id: JobId) -> Wait:
        if job_id in self._fixed:
            return self._fixed[job_id]
        blocked = self._by_job[job_id]
        wait = self._explained.get(id(blocked))
        if wait is None:
            wait = self._explained[id(blocked)] = self._explainer.wait(blocked)
        reservation = self._explainer.reservation
        if reservation is not None and reservation.job_id == job_id:
            return replace(wait, start=reservation.at)
        return wait

    def __iter__(self) -> Iterator[JobId]:
        yield from self._fixed
        yield from self._by_job

    def __len__(self) -> int:
        return len(self._fixed) + sum([len(jobs) for jobs, _ in self._blocked])

    @property
    def _by_job(self) -> dict[JobId, Blocked]:
        """Made when somebody looks: most plans are followed by another before anybody does."""
        if self._found is None:
            self._found = {job.job_id: blocked for jobs, blocked in self._blocked for job in jobs}
        return self._found


@dataclass(frozen=True, slots=True)
class Plan:
    """`more`: others could start at once, see core.turns."""

    starts: tuple[Start, ...]
    waits: Waits  # jobs of a batch share theirs
    reservation: Reservation | None = None
    more: bool = False


def _fits(nodes: Sequence[NodeView], blocked: Blocked) -> bool:
    ask = blocked.ask
    candidates = [
        Candidate(node, kind, free)
        for node in nodes
        if not ask.ruled_out(node)
        for kind, free in offer(room_of(node, alike(node)), ask, (node.name,)).items()
    ]
    try:
        return bool(place(ask, [node.name for node in nodes].index, candidates, blocked.policy))
    except PolicyError:
        return False


def too_early(job: PendingJob, now: float) -> Wait:
    seconds = max(1, round(job.not_before - now))
    if job.failures:
        tries = f"{job.failures} failed {'try' if job.failures == 1 else 'tries'}"
        return Wait("Backoff", f"tried again in {seconds} s, after {tries}")
    span = f"{seconds} s" if seconds < 120 else render_time_limit(seconds)
    return Wait("BeginTime", f"may start in {span} at the earliest")


def waits_for_others(job: Job, verdict: Verdict) -> Wait:
    """Of one that depends on them."""
    if not verdict.never:
        return Wait("Dependency", verdict.detail)
    return Wait(NEVER, f"{verdict.detail}: mgpu update {shown_id(job)} --dependency none lets it start")


def held(job: Job) -> Wait:
    """Of one that is held."""
    reason, _, by = job.held.partition(" by ")
    way_out = "an admin releases it" if reason == HELD_BY_ADMIN else f"mgpu release {shown_id(job)}"
    return Wait(reason, f"held by {by}: {way_out}")


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


def _shut_out(nodes: Sequence[NodeView], blocked: Blocked) -> tuple[str, str] | None:
    """It could start now, were its owner's account not shut on some nodes: the reason and its words."""
    ask = blocked.ask
    shut = [node for node in nodes if node.name in ask.closed and ask.closed[node.name].barred is Barred.LOGIN]
    if not shut:
        return None
    names = {node.name for node in shut}
    opened = replace(ask, closed={name: why for name, why in ask.closed.items() if name not in names})
    if not _fits(nodes, replace(blocked, ask=opened)):
        return None
    return str(Barred.LOGIN), f"what is free is shut to it: {_why_down(shut, ask)}"


def _code(idle: Sequence[NodeView], ask: Ask) -> str:
    """Of what bars the nodes, that which counts most."""
    barred = [node.barred or Barred.DOWN for node in idle if not node.usable]
    barred += [ask.closed[node.name].barred for node in idle if node.usable and node.name in ask.closed]
    unread = len(barred) < len(idle)  # up, and its GPUs cannot be read
    if not barred or (unread and all(each is Barred.MAINTENANCE for each in barred)):
        return "GpusUnknown"
    return next(str(each) for each in Barred if each in barred)


def _serves(node: NodeView, ask: Ask) -> bool:
    """Usable, and its GPUs can be read if the job needs any."""
    readable = any(device.state is not DeviceState.UNKNOWN for device in node.devices)
    return node.usable and node.name not in ask.closed and (readable or not ask.need_on(node.name))


def _why_down(nodes: Sequence[NodeView], ask: Ask) -> str:
    """Nodes of the same reason together."""
    groups: dict[str, list[str]] = {}
    for node in nodes:
        shut = ask.closed.get(node.name) if node.usable else None
        reason = (shut and shut.reason) or node.reason or describe(node.devices) or "not usable"
        groups.setdefault(reason, []).append(node.name)
    shown = list(groups.items())[:3]
    more = len(nodes) - sum(len(names) for _, names in shown)
    said = "; ".join(f"{fold(sorted(names))}: {reason}" for reason, names in shown)
    return f"{said}; and {more} more" if more else said


def _short_of(nodes: Sequence[NodeView], ask: Ask) -> str:
    """What is missing, in one line; the reasons per node say the rest."""
    allowed = [node for node in nodes if not ask.ruled_out(node)]
    if len(allowed) == 1:
        return f"{allowed[0].name}: {examine(allowed[0], ask).reason or 'left out by the policy'}"
    if short := _short_of_host(allowed, ask):
        return short
    if len(ask.sizes) == 1:
        size = ask.sizes[0]
        wanted = "an empty node" if ask.request.exclusive else f"{size} free GPU{'' if size == 1 else 's'} on one node"
    elif ask.sizes:
        sizes = "+".join(map(str, ask.sizes)) if len(set(ask.sizes)) > 1 else f"{ask.sizes[0]} each"
        wanted = f"{len(ask.sizes)} nodes with free GPUs ({sizes}) at the same time"
    else:
        wanted = f"{ask.shape.total} free GPUs on {ask.most_parts} nodes at the same time"
    taken = [d for node in allowed if node.usable for d in node.devices]
    free = sum(1 for device in taken if device.state is DeviceState.FREE)
    return f"needs {wanted}; {free} of {len(taken)} GPUs are free"


def _short_of_host(nodes: Sequence[NodeView], ask: Ask) -> str:
    """Where GPUs are free, and cores or memory are not; "" = nowhere."""
    found = {}
    for node in nodes:
        most = claims.gpus_within(claims.left(node), ask.request, node.share)
        if most is not None and most < ask.need_on(node.name) and (verdict := examine(node, ask)).of_host:
            found[node.name] = verdict.reason
    if not found:
        return ""
    more = f"; the same on {fold([*found][1:])}" if len(found) > 1 else ""
    name, reason = next(iter(found.items()))
    return f"{name}: {reason}{more}"
