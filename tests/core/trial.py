"""Jobs, attempts and parts for the tests of the core."""

from __future__ import annotations

from typing import Any

from mgpu.core.model import (
    Attempt,
    AttemptState,
    Command,
    CommandForm,
    DeviceUuid,
    FailureClass,
    Job,
    JobId,
    JobKind,
    JobSpec,
    JobState,
    NodeName,
    Part,
    Request,
)

TOKEN = "0123456789abcdef" * 2
BOOT = "11111111-2222-3333-4444-555555555555"


def job(
    *, kind: JobKind = JobKind.BATCH, command: Command | None = None, spec: dict[str, Any] | None = None, **more: Any
) -> Job:
    command = command or Command(CommandForm.ARGV, ("true",))
    made = JobSpec(command, Request(gpus=1), "name", kind, submit_dir="/home/bob", **(spec or {}))
    fields: dict[str, Any] = {"state": JobState.RUNNING, "submit_time": 0.0, "attempt": 1}
    return Job(JobId(7), "request", "bob", 1000, made, **(fields | more))


def attempt(**more: Any) -> Attempt:
    fields: dict[str, Any] = {"state": AttemptState.STARTING, "created": 1.0}
    return Attempt(JobId(7), 1, TOKEN, **(fields | more))


def part(rank: int = 0, state: AttemptState = AttemptState.RUNNING, **more: Any) -> Part:
    fields: dict[str, Any] = {"node": NodeName(f"node{rank + 1:03}"), "account": "train", "devices": (0,)}
    fields["uuids"] = (DeviceUuid(f"GPU-{rank}"),)
    return Part(JobId(7), 1, rank, state=state, **(fields | more))


def ended(
    rank: int = 0, failure: FailureClass = FailureClass.NONE, code: int | None = 0, at: float = 5.0, **more: Any
) -> Part:
    """One that has ended; `code` is dropped where it is not known, the start where the command never ran."""
    exited = failure in (FailureClass.NONE, FailureClass.EXIT)
    ran = exited or failure in (FailureClass.NODE_LOST, FailureClass.SUPERVISOR)
    fields: dict[str, Any] = {"exit_code": code if exited else None, "started": 2.0 if ran else None}
    return part(rank, AttemptState.ENDED, failure=failure, ended=at, **(fields | more))
