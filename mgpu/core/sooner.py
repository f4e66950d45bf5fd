"""What would let a job start that waits: single changes of its request, each tried on the planner."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote

from mgpu.core import maintenance
from mgpu.core.amounts import typed
from mgpu.core.capacity import MEMORY_SHOWN
from mgpu.core.gputype import known_types
from mgpu.core.memory import Memory
from mgpu.core.model import JobId, Request
from mgpu.core.plan import Barred, Batch, DeviceState, PendingJob, Snapshot
from mgpu.core.policies import POLICIES, Policy
from mgpu.core.queue import alone
from mgpu.core.schedule import plan
from mgpu.core.shape import shape_of
from mgpu.core.timelimit import render_time_limit

_MINUTE_S = 60
_GIB = 1024  # MiB
_MOST_TRIES = 8  # of one kind of change


@dataclass(frozen=True, slots=True)
class Change:
    """`words` as in "-G 2 instead of -G 4"."""

    words: str
    request: Request
    span_s: float


def sooner(snapshot: Snapshot, job_id: JobId, policies: Mapping[str, Policy] = POLICIES) -> list[str]:
    """The single changes of its request with which the job would start now, in words."""
    batch = next((batch for batch in snapshot.batches if any(job.job_id == job_id for job in batch.jobs)), None)
    if batch is None:
        return []
    job = next(job for job in batch.jobs if job.job_id == job_id)
    memory = Memory()
    lasting = tuple([entry for entry in batch.closed if entry[1].barred is not Barred.MAINTENANCE])

    def starts(change: Change) -> bool:
        unlimited = job.unlimited and change.span_s == job.span_s
        changed = job._replace(request=change.request, span_s=change.span_s, unlimited=unlimited)
        others = _without(snapshot.batches, batch, job_id)
        windows = maintenance.closed_to(change.span_s, snapshot.nodes, snapshot.now, unlimited)
        closed = (*windows, *lasting)
        seen = replace(snapshot, batches=(*others, alone(changed)._replace(closed=closed)))
        return any(start.job_id == job_id for start in plan(seen, policies, memory).starts)

    found = []
    for changes in _CHANGES:
        change = next(filter(starts, changes(snapshot, job)), None)
        if change is not None:
            found.append(change.words)
    return found


def _without(batches: Sequence[Batch], batch: Batch, job_id: JobId) -> Iterator[Batch]:
    for one in batches:
        if one is not batch:
            yield one
        elif len(one.jobs) > 1:
            yield one._replace(jobs=tuple(job for job in one.jobs if job.job_id != job_id))


Changes = Callable[[Snapshot, PendingJob], Iterator[Change]]


def _less_memory(snapshot: Snapshot, job: PendingJob) -> Iterator[Change]:
    asked = job.request.gpu_memory_mib
    sizes = {device.memory_total_mib or 0 for node in snapshot.nodes for device in node.devices}
    for size in sorted(sizes, reverse=True) if asked is not None else ():
        if asked is not None and 0 < size < asked:
            whole = _as_sold(size)
            changed = replace(job.request, gpu_memory_mib=whole)
            yield Change(f"--gpu-mem {typed(whole)} instead of {typed(asked)}", changed, job.span_s)


def _as_sold(mib: int) -> int:
    """A card of 24 GiB shows a little less."""
    whole = round(mib / _GIB) * _GIB
    return whole if whole * MEMORY_SHOWN <= mib and whole else mib // _GIB * _GIB or mib


def _other_type(snapshot: Snapshot, job: PendingJob) -> Iterator[Change]:
    asked = "|".join(job.request.gpu_types)
    for kind in known_types(snapshot.nodes) if asked else ():
        changed = replace(job.request, gpu_types=(kind.label,), mixed=False)
        yield Change(f"--gpu-type {quote(kind.label)} instead of {quote(asked)}", changed, job.span_s)


def _fewer_gpus(snapshot: Snapshot, job: PendingJob) -> Iterator[Change]:
    request = job.request
    if request.pins or request.gpu_ids or request.gpus_per_node is not None:
        return
    shape = shape_of(request)
    nodes = [node for node in snapshot.nodes if node.usable]
    free = [sum(device.state is DeviceState.FREE for device in node.devices) for node in nodes]
    most = min(shape.total - 1, max(free, default=0) if len(shape.sizes) == 1 else sum(free))
    least = max(1, request.nodes or 0, len(request.nodelist))
    for gpus in range(most, max(least - 1, most - _MOST_TRIES), -1):
        yield Change(f"-G {gpus} instead of -G {shape.total}", replace(request, gpus=gpus), job.span_s)


def _several_nodes(snapshot: Snapshot, job: PendingJob) -> Iterator[Change]:
    request = job.request
    total = shape_of(request).total
    if request.nodes is None and not (request.pins or request.nodelist or request.gpu_ids or request.gpus_per_node):
        for nodes in (2, 4, 8):
            if total > 1 and total % nodes == 0:
                yield Change(f"-N {nodes}: on {nodes} nodes", replace(request, gpus=total, nodes=nodes), job.span_s)


def _elsewhere(snapshot: Snapshot, job: PendingJob) -> Iterator[Change]:
    request = job.request
    if request.pins:
        changed = replace(request, pins=(), gpus=shape_of(request).total, nodes=len(request.pins))
        yield Change("without --node-gpu-ids", changed, job.span_s)
    if request.gpu_ids:
        share = replace(request, gpu_ids=(), gpus_per_node=len(request.gpu_ids))
        yield Change("without --gpu-ids", share, job.span_s)
    if request.nodelist:
        yield Change("without -w", replace(request, nodelist=(), nodes=len(request.nodelist)), job.span_s)
    if request.exclude:
        yield Change("without -x", replace(request, exclude=()), job.span_s)
    if request.partition:
        yield Change("without -p", replace(request, partition=""), job.span_s)


def _beside_others(snapshot: Snapshot, job: PendingJob) -> Iterator[Change]:
    if job.request.exclusive:
        yield Change("without --exclusive", replace(job.request, exclusive=False), job.span_s)


def _less_of_the_host(snapshot: Snapshot, job: PendingJob) -> Iterator[Change]:
    if job.request.cpus:
        yield Change("without -c", replace(job.request, cpus=None), job.span_s)
    if job.request.host_memory_mib:
        yield Change("without --mem", replace(job.request, host_memory_mib=None), job.span_s)


def _shorter(snapshot: Snapshot, job: PendingJob) -> Iterator[Change]:
    """The longest limit with which it is over before what is kept for another job, or maintenance, begins."""
    moments = {one.until for one in snapshot.running} | {
        window.start for node in snapshot.nodes for window in node.maintenance
    }
    minutes = {int(moment - snapshot.now) // _MINUTE_S for moment in moments}
    longest = job.span_s / _MINUTE_S if job.span_s and not job.unlimited else float("inf")
    for count in sorted((count for count in minutes if 0 < count < longest), reverse=True)[:_MOST_TRIES]:
        limit = render_time_limit(count * _MINUTE_S)
        yield Change(f"-t {limit}: a shorter time limit", job.request, float(count * _MINUTE_S))


_CHANGES: tuple[Changes, ...] = (
    _less_memory,
    _other_type,
    _fewer_gpus,
    _several_nodes,
    _elsewhere,
    _beside_others,
    _less_of_the_host,
    _shorter,
)
