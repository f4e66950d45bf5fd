"""Values as the JSON that clients and their scripts rely on: keys are stable, times ISO 8601 in UTC."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from mgpu.config.model import NodeConfig
from mgpu.core.array import shown_id, shown_rest
from mgpu.core.dependency import render_dependency
from mgpu.core.fairshare import Turn
from mgpu.core.model import Attempt, DeviceUuid, Job, JobId, JobState, Part, Tree
from mgpu.core.observation import WHOLE, GpuProcess, Mark, MarkKind, Node, Observation
from mgpu.core.plan import DeviceState, DeviceView, NodeView, Wait, Window
from mgpu.core.retry import decisive
from mgpu.core.shape import shape_of
from mgpu.core.usage import PartUse, job_idle_since
from mgpu.core.views import NO_INDEX

Json = dict[str, Any]


def moment(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def said(seconds: float) -> str:
    """As a mark says since when."""
    return moment(seconds) or ""


def waiting_for(tried: str, wait: Wait) -> str:
    """Why a job waits, and what came of the last try ("" = there was none)."""
    return f"{wait.detail}; last try: {tried}" if tried else wait.detail


AFTER_BRIEF = "kind"  # what stands before it is all that a table of the queue shows


def job(value: Job, parts: Sequence[Part], wait: Wait | None = None) -> Json:
    """`parts` are those of the current attempt. A job that waits has no allocation, whatever it had before. What a
    table of the queue shows comes first, until AFTER_BRIEF."""
    pending = value.state is JobState.PENDING
    parts = () if pending else parts
    shape = shape_of(value.spec.request)
    waits = wait if pending else None
    return {
        "job_id": shown_id(value),
        "name": value.spec.name,
        "user": value.user,
        "state": value.state.value,
        "reason": waits.reason if waits else value.reason,
        "gpus": sum(len(part.uuids) for part in parts) if parts else shape.total,
        "nodes": len(parts) or len(shape.sizes) or 1,
        "command": value.spec.command.display(),
        "submit_time": moment(value.submit_time),
        "start_time": moment(value.start_time),
        "end_time": moment(value.end_time),
        "exit_code": value.exit_code,
        "attempt": value.attempt,
        "allocation": [allocation(part) for part in parts],
        "detail": waiting_for(value.detail, waits) if waits else value.detail,
        "failed_rank": _failed_rank(value, parts),
        "idle_since": moment(job_idle_since(parts)) if value.state is JobState.RUNNING else None,
        **_array(value),
        AFTER_BRIEF: value.spec.kind.value,
        "partition": value.spec.request.partition,
        "cpus_per_task": value.spec.request.cpus,
        "mem_mib": value.spec.request.host_memory_mib,
        "priority": value.spec.standing,
        "nice": value.spec.nice,
        "account": value.spec.account,
        "time_limit_s": value.spec.time_limit_s,
        "input": value.spec.input,
        "launcher": value.spec.launcher.value,
        "ntasks_per_node": value.spec.tasks_per_node,
        "stop": value.stop,
        "held": value.held,
        "dependency": render_dependency(value.spec.dependency) if value.spec.dependency else "",
        "begin": moment(value.not_before) if pending and value.not_before > 0 else None,
        **_tree(value.spec.tree),
    }


def places(value: Job) -> Json:
    """Where it runs and writes, as it was said. Not where that is on a node that has no such directory."""
    spec = value.spec
    return {"submit_dir": spec.submit_dir, "chdir": spec.chdir, "output": spec.output, "error": spec.error}


def _failed_rank(value: Job, parts: Sequence[Part]) -> int | None:
    """Of several, the one whose exit code the job has. A limit or a cancellation ends all of them: it is no rank's."""
    return decisive(parts).rank if len(parts) > 1 and value.state is JobState.FAILED and value.exit_code else None


def _array(value: Job) -> Json:
    """Of an array: the tasks that it stands for in a list, and all of them. Of a task: where it belongs."""
    if value.is_array:
        return {"array_rest": shown_rest(value), "array": value.spec.array}
    if value.array_id is None:
        return {}
    number = {} if value.job_id == value.array_id else {"number": value.job_id}  # as its node and its files know it
    return {"array_job_id": value.array_id, "array_index": value.array_index, **number}


def _tree(tree: Tree | None) -> Json:
    if tree is None:
        return {}
    return {
        "ship": {
            "commit": tree.commit,
            "dirty": tree.dirty,
            "size": tree.size,
            "files": tree.files,
            "directory": tree.place,
            "digest": tree.digest,
        }
    }


def turn(value: Turn, priority: int) -> Json:
    """What its place in the queue follows from, in that order."""
    return {
        "priority": priority,
        "first": value.first,
        "score": round(value.score, 6),
        "wait_s": round(value.wait_s),
        "planned_s": round(value.planned_s),
        "gpus": value.gpus,
        "fair_share": round(value.standing.factor, 6),
        "user_use": round(value.standing.user_use, 6),
        "account_use": round(value.standing.account_use, 6),
        "user_gpu_hours": round(value.standing.gpu_hours, 3),
    }


def allocation(part: Part) -> Json:
    return {
        "rank": part.rank,
        "node": part.node,
        "hostname": part.hostname,
        "address": part.address,
        "devices": list(part.devices),
        "uuids": list(part.uuids),
        "pid": part.pid,
        "start_time": moment(part.started),
        "state": part.state.value,
        "exit_code": part.exit_code,
        "reason": part.reason,
        "lost_since": moment(part.lost_since),
    }


def use(uses: Sequence[PartUse]) -> Json:
    """What an attempt made of its GPUs, from that of its parts; None = nothing was measured."""
    measured_s = sum(one.measured_s for one in uses)
    memory = [one.memory_mib for one in uses if one.memory_mib is not None]
    return {
        "utilization": round(100 * sum(one.busy_s for one in uses) / measured_s, 1) if measured_s else None,
        "memory_peak_mib": max(memory, default=None),
        "idle_gpu_hours": round(sum(one.idle_s for one in uses) / 3600, 3),
    }


def attempt(value: Attempt, parts: Iterable[Part]) -> Json:
    return {
        "attempt": value.number,
        "state": value.state.value,
        "created": moment(value.created),
        "start_time": moment(value.started),
        "end_time": moment(value.ended),
        "exit_code": value.exit_code,
        "failure": value.failure.value,
        "reason": value.reason,
        "allocation": [allocation(part) for part in parts],
    }


def node(config: NodeConfig, stored: Node, view: NodeView | None, jobs: Mapping[JobId, Job], now: float) -> Json:
    """`jobs`: those on it."""
    seen = stored.observation
    devices = view.devices if view else ()
    return {
        "node_id": config.name,
        "state": stored.state.value,
        "reason": view.reason if view else stored.reason,
        "address": config.ssh.host,
        "hostname": seen.hostname if seen else config.facts.hostname,
        "partition": ",".join(config.facts.partitions),
        "gpu_type": config.facts.gpu_type or _only_name(devices),
        "last_seen": moment(stored.last_seen),
        "gpus": [gpu(device, stored, jobs, view) for device in devices],
        "barred": view.barred.value if view and view.barred else None,  # what keeps all jobs away
        "maintenance": [window(one) for one in config.facts.maintenance if one.end > now],
        "drain": mark(stored.mark(MarkKind.DRAINED, WHOLE)),
        "use": _use(devices),
        "jobs": view.jobs if view else 0,
        "connection": config.connection,
        "notes": list(seen.notes) if seen else [],
        "machine": machine(seen, view) if seen else {},
    }


def machine(seen: Observation, view: NodeView | None) -> Json:
    """What the node has besides GPUs, and how much of it jobs claim, without what nobody told."""
    told = seen.machine
    claims = [claim for _, claim in view.claims] if view else []
    facts = {
        "driver": told.driver,
        "cuda": told.cuda,
        "cpus": told.cpus,
        "load": told.load,
        "cpus_claimed": sum(claim.cpus or 0 for claim in claims) or None,
        "memory_claimed_mib": sum(claim.memory_mib or 0 for claim in claims) or None,
        "memory_total_mib": told.memory_total_mib,
        "memory_available_mib": told.memory_available_mib,
        "disk_free_mib": told.disk_free_mib,
        "clock_offset_s": round(seen.clock_offset_s, 1),
        "nvlink": [f"{first}-{second} x{links}" for first, second, links in told.links],
        "xid": "not readable" if told.kernel_readable is False else list(told.xid),
    }
    return {name: value for name, value in facts.items() if value not in (None, "", [])}


def gpu(device: DeviceView, stored: Node, jobs: Mapping[JobId, Job], view: NodeView | None) -> Json:
    """One that is free has a reason too where its node is not to be used."""
    holder = None if device.job_id is None else jobs.get(device.job_id)
    seen = stored.observation
    reading = next((gpu for gpu in seen.gpus if gpu.uuid == device.uuid), None) if seen else None
    names = (device.uuid, reading.parent) if reading and reading.parent else (device.uuid,)
    return {
        "index": None if device.index == NO_INDEX else device.index,
        "uuid": device.uuid,
        "name": device.name,
        "memory_total_mib": device.memory_total_mib,
        "memory_used_mib": reading.memory_used_mib if reading else None,
        "utilization": reading.utilization if reading else None,
        "state": device.state.value,
        "reason": device.reason or (view.reason if view and not view.usable else ""),
        "job_id": device.job_id if holder is None else shown_id(holder),
        "user": None if holder is None else holder.user,
        "processes": [process(found) for found in _processes_on(device.uuid, seen)],
        "temperature_c": reading.temperature_c if reading else None,
        "power_w": reading.power_w if reading else None,
        "ecc_errors": reading.ecc_errors if reading else None,
        "drain": mark(stored.mark(MarkKind.DRAINED, *names)),
        "suspect": mark(stored.mark(MarkKind.SUSPECT, *names)),
    }


def window(value: Window) -> Json:
    return {"from": moment(value.start), "to": moment(value.end), "reason": value.reason}


def mark(value: Mark | None) -> Json | None:
    return None if value is None else {"by": value.by, "since": value.since, "reason": value.reason}


def process(value: GpuProcess) -> Json:
    return {
        "pid": value.pid,
        "user": value.user,
        "memory_mib": value.memory_mib,
        "command": value.command,
        "age_s": value.age_s,
        "kind": value.kind,
    }


def _processes_on(uuid: DeviceUuid, seen: Observation | None) -> list[GpuProcess]:
    return [found for found in seen.processes if found.uuid == uuid] if seen else []


def _only_name(devices: Sequence[DeviceView]) -> str:
    names = {device.name for device in devices}
    return names.pop() if len(names) == 1 else ""


def _use(devices: Sequence[DeviceView]) -> str:
    """idle, mixed or allocated: how much of the node our jobs have."""
    held = sum(device.state is DeviceState.ALLOCATED for device in devices)
    return "idle" if held == 0 else "allocated" if held == len(devices) else "mixed"
