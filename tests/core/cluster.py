"""Small clusters for the tests of the core."""

from __future__ import annotations

from typing import Any

from mgpu.core.claims import Claim, share_of
from mgpu.core.model import DeviceUuid, JobId, NodeName, Request
from mgpu.core.plan import DeviceState, DeviceView, NodeView, PendingJob, Snapshot
from mgpu.core.queue import Queue

A100 = "NVIDIA A100-SXM4-80GB"
LETTERS = {
    ".": (DeviceState.FREE, ""),
    "s": (DeviceState.FREE, "suspect, used last: jobs 4, 5, 6 failed there"),
    "h": (DeviceState.ALLOCATED, "held by job 12"),
    "x": (DeviceState.EXTERNAL, "external (alice, pid 4242, python, 11 GiB, 3 h)"),
    "!": (DeviceState.UNHEALTHY, "unhealthy: GPU is lost"),
    "?": (DeviceState.UNKNOWN, "unknown: nvidia-smi hung"),
}


def node(name: str, gpus: str, model: str | list[str] = A100, memory_mib: int | None = 81920, **more: Any) -> NodeView:
    """`gpus` has a letter per GPU: . free, s free and suspect, h held, x external, ! unhealthy, ? unknown."""
    models = model if isinstance(model, list) else [model] * len(gpus)
    devices = tuple(
        DeviceView(
            *(DeviceUuid(f"GPU-{name}-{index}"), index, models[index], "", memory_mib, *LETTERS[letter]),
            suspect=letter == "s",
        )
        for index, letter in enumerate(gpus)
    )
    return NodeView(
        NodeName(name), **{"usable": True, "reason": "", "devices": devices, "jobs": int("h" in gpus), **more}
    )


def counted(view: NodeView, cpus: int | None, *claims: tuple[int, int], memory_mib: int | None = None) -> NodeView:
    """`claims`: (job, cores) of what runs there."""
    there = Claim(cpus, memory_mib)
    held = tuple((JobId(number), Claim(amount, 0)) for number, amount in claims)
    return view._replace(there=there, share=share_of(there, len(view.devices)), claims=held)


def down(name: str, reason: str, gpus: str = "", **more: Any) -> NodeView:
    return node(name, gpus, usable=False, reason=reason, **more)


SCHEDULING = ("priority", "not_before", "avoid", "failures", "array", "tasks", "at_once")


def job(number: int, **request: Any) -> PendingJob:
    """Scheduling fields are picked out of the keywords, the rest is the request."""
    own = {key: request.pop(key) for key in SCHEDULING if key in request}
    return PendingJob(JobId(number), "bob", Request(**request), **{"priority": 0, "submit_time": float(number), **own})


def snapshot(nodes: list[NodeView], *jobs: PendingJob, **more: Any) -> Snapshot:
    return Snapshot(1000.0, tuple(nodes), *Queue(jobs).at(1000.0), **more)
