"""What a user, an account or a partition may have at once: who is over a limit waits, and holds up nobody.

A job is charged to its user, to its account, and to the partitions of the nodes where it runs: of those that it names,
or of all if it names none. A partition that is over a limit closes its nodes to the job; one that has no others waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from mgpu.core.model import NodeName
from mgpu.core.plan import Batch, Bounds, DeviceState, Limits, NodeView, Owner, PlacedPart, Scope, Used, Wait

CODES = {"user": "UserLimit", "account": "AccountLimit", "partition": "PartitionLimit"}
Held = Iterable[tuple[Sequence[str], int]]  # of each part: the partitions of its node, and the GPUs


def via(named: str, partitions: Sequence[str]) -> list[str]:
    """The partitions by which a job may use a node."""
    wanted = named.split(",") if named else partitions
    return [name for name in partitions if name in wanted]


def scopes(owner: Owner, bounds: Bounds) -> Iterator[tuple[Scope, Limits]]:
    """Of its user and its account."""
    yield Scope("user", "", owner.user), bounds.user
    if owner.account in bounds.accounts:
        yield Scope("account", owner.account), bounds.accounts[owner.account]


def partition_scopes(name: str, owner: Owner, bounds: Bounds) -> Iterator[tuple[Scope, Limits]]:
    whole, each = bounds.partitions.get(name, (Limits(), Limits()))
    yield Scope("partition", name), whole
    yield Scope("partition", name, owner.user), each


def charge(used: dict[Scope, Used], owner: Owner, named: str, held: Held, bounds: Bounds) -> None:
    """One more job that has these GPUs."""
    by_scope: dict[Scope, int] = {scope: 0 for scope, limits in scopes(owner, bounds) if limits}
    for partitions, gpus in held:
        for scope in by_scope:
            if scope.kind != "partition":
                by_scope[scope] += gpus
        for name in via(named, partitions):
            for scope, limits in partition_scopes(name, owner, bounds):
                if limits:
                    by_scope[scope] = by_scope.get(scope, 0) + gpus
    for scope, gpus in by_scope.items():
        before = used.get(scope, Used())
        used[scope] = Used(before.gpus + gpus, before.jobs + 1, before.gpu_hours)


def counts(scope: Scope, owner: Owner, named: str, nodes: Iterable[Sequence[str]]) -> bool:
    """Whether a job that runs on nodes of these partitions is charged to that: as `charge` does it."""
    if scope.kind == "account":
        return owner.account == scope.name
    if scope.kind == "partition" and not any(scope.name in via(named, partitions) for partitions in nodes):
        return False
    return scope.user in ("", owner.user)


def over(scope: Scope, limits: Limits, used: Used, gpus: int, asks: str = "asks for") -> str:
    """Why a job with so many GPUs may not start, "" = it may."""
    where = f" in partition {scope.name}" if scope.kind == "partition" else ""
    who = scope.user or (f"account {scope.name}" if scope.kind == "account" else "its jobs")
    have = "have" if who == "its jobs" else "has"
    if limits.gpus is not None and used.gpus + gpus > limits.gpus:
        return f"{who} {have} {used.gpus} of at most {limits.gpus} GPUs{where}, this job {asks} {gpus}"
    if limits.jobs is not None and used.jobs >= limits.jobs:
        return f"{who} {have} {used.jobs} of at most {limits.jobs} running jobs{where}"
    if limits.gpu_hours is not None and used.gpu_hours >= limits.gpu_hours:
        return f"{who} {have} used {used.gpu_hours:.4g} of at most {limits.gpu_hours:.4g} GPU-hours{where} lately"
    return ""


def too_wide(gpus: int, owner: Owner, named: str, nodes: Sequence[NodeView], bounds: Bounds) -> str:
    """Why a job with so many GPUs could never start for the sake of a limit."""
    for scope, limits in scopes(owner, bounds):
        if limits.gpus is not None and gpus > limits.gpus:
            return f"needs {gpus} GPUs, {_whose(scope)} may have {limits.gpus} at once: use -G {limits.gpus}"
    most, of = -1, Scope("partition")
    for node in nodes:
        names = via(named, node.partitions)
        if not names and not named:
            return ""
        for name in names:
            bound = [
                (limits.gpus, scope)
                for scope, limits in partition_scopes(name, owner, bounds)
                if limits.gpus is not None
            ]
            least, scope = min(bound, key=itemgetter(0), default=(gpus, of))
            if least >= gpus:
                return ""
            if least > most:
                most, of = least, scope
    setting = f"partitions.{of.name}.{'user_limits' if of.user else 'limits'}.gpus"
    who = f"{'a user' if of.user else 'all jobs'} in partition {of.name}"
    return f"needs {gpus} GPUs, {who} may have {most} at once ({setting}): use -G {most}" if most >= 0 else ""


def _whose(scope: Scope) -> str:
    return f"account {scope.name}" if scope.kind == "account" else "a user"


@dataclass(slots=True)
class Tally:
    """What is in use while a plan is made."""

    bounds: Bounds
    nodes: Mapping[NodeName, NodeView]
    used: dict[Scope, Used]

    @classmethod
    def of(cls, bounds: Bounds, nodes: Iterable[NodeView]) -> Tally:
        return cls(bounds, {node.name: node for node in nodes}, dict(bounds.used))

    def wait(self, batch: Batch) -> Wait | None:
        """Of a job whose user or account is over a limit."""
        owner = batch.owner or Owner("")
        for scope, limits in scopes(owner, self.bounds):
            if limits and (words := over(scope, limits, self.used.get(scope, Used()), batch.gpus)):
                return Wait(CODES[scope.kind], words, scope=scope)
        return None

    def closed(self, batch: Batch) -> dict[NodeName, Wait]:
        """The nodes that limits close to it, each with the reason: those of partitions that are over theirs, and to a
        job that takes whole nodes those that have too many GPUs."""
        owner, named = batch.owner or Owner(""), batch.request.partition
        if batch.request.exclusive:
            found = {node.name: self._whole(owner, named, (node.name,), _size(node)) for node in self.nodes.values()}
            return {name: wait for name, wait in found.items() if wait is not None}
        waits: dict[str, Wait] = {}
        for name in named.split(",") if named else self.bounds.partitions:
            if wait := self._partition(name, owner, batch.gpus):
                waits[name] = wait
        if not waits:
            return {}
        closed = {}
        for node in self.nodes.values():
            names = via(named, node.partitions)
            if names and all(name in waits for name in names):
                closed[node.name] = waits[names[0]]
        return closed

    def beyond(self, batch: Batch, parts: Sequence[PlacedPart]) -> Wait | None:
        """Of one that takes whole nodes, which together are more than it may have."""
        if not batch.request.exclusive or len(parts) < 2:
            return None
        gpus = sum(len(part.uuids) for part in parts)
        names = [part.node for part in parts]
        return self._whole(batch.owner or Owner(""), batch.request.partition, names, gpus)

    def _whole(self, owner: Owner, named: str, nodes: Sequence[NodeName], gpus: int) -> Wait | None:
        for scope, limits in scopes(owner, self.bounds):
            if limits and (words := over(scope, limits, self.used.get(scope, Used()), gpus, "takes")):
                return Wait(CODES[scope.kind], words, scope=scope)
        for node in nodes:
            names = via(named, self.nodes[node].partitions)
            waits = [self._partition(name, owner, gpus, "takes") for name in names]
            if names and all(waits):
                return waits[0]
        return None

    def _partition(self, name: str, owner: Owner, gpus: int, asks: str = "asks for") -> Wait | None:
        for scope, limits in partition_scopes(name, owner, self.bounds):
            if limits and (words := over(scope, limits, self.used.get(scope, Used()), gpus, asks)):
                return Wait(CODES[scope.kind], words, scope=scope)
        return None

    def took(self, batch: Batch, parts: Sequence[PlacedPart]) -> None:
        held = [(self.nodes[part.node].partitions, len(part.uuids)) for part in parts]
        charge(self.used, batch.owner or Owner(""), batch.request.partition, held, self.bounds)


def _size(node: NodeView) -> int:
    """The GPUs that a job with the node for itself alone has."""
    return sum(device.state is not DeviceState.UNHEALTHY for device in node.devices)


def least_whole(parts: int, named: str, nodes: Sequence[NodeView]) -> int:
    """The GPUs that a job with so many nodes for itself alone has at least."""
    sizes = sorted(_size(node) for node in nodes if not named or via(named, node.partitions))
    return sum(sizes[:parts])
