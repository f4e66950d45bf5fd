"""Small values to store."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mgpu.core.model import (
    Attempt,
    AttemptState,
    Command,
    CommandForm,
    DeviceUuid,
    Job,
    JobId,
    JobKind,
    JobSpec,
    JobState,
    NodeName,
    Part,
    Request,
)

NODE = NodeName("gpu01")


def spec(**changes: Any) -> JobSpec:
    command = Command(CommandForm.ARGV, ("python", "train.py"))
    return replace(JobSpec(command, Request(gpus=1), name="train", kind=JobKind.BATCH), **changes)


def job(request_id: str, **changes: Any) -> Job:
    plain = Job(JobId(0), request_id, "alice", 1001, spec(), JobState.PENDING, submit_time=1000.0)
    return replace(plain, **changes)


def attempt(job_id: JobId, number: int = 1, **changes: Any) -> Attempt:
    return replace(Attempt(job_id, number, "cafe" * 8, AttemptState.STARTING, created=1001.0), **changes)


def part(job_id: JobId, *devices: int, number: int = 1, rank: int = 0, node: NodeName = NODE, **changes: Any) -> Part:
    uuids = tuple(DeviceUuid(f"GPU-{index}") for index in devices)
    plain = Part(job_id, number, rank, node, "train", devices, uuids, AttemptState.STARTING)
    return replace(plain, **changes)
