"""What the master says, as values. Times are aware, in UTC; what a value has no field for stands in its `raw`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from numbers import Integral
from typing import Any, Literal, NamedTuple, TypeVar

from mgpu.client.http import UNREADABLE, MasterError
from mgpu.numeral import numeral
from mgpu.wording.jobs import ACTIVE, ending, exit_status

JobId = int | str  # `17`; of a task of an array "17_4"
Kind = Literal["stdout", "stderr"]
Json = Mapping[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job that was queued. `created` False: this request, or this key, had made it before. `notices`: what the master
    has to say of it, a line each. As text it is its number: f"afterok:{job}"."""

    job_id: int
    created: bool = True
    notices: tuple[str, ...] = ()

    def __str__(self) -> str:
        return str(self.job_id)


@dataclass(frozen=True, slots=True)
class Allocation:
    """What a job was given on one node. `rank`: the node's number in the job; `devices`: GPUs by index ("0.1" = a MIG
    instance); `state`: STARTING, RUNNING, STOPPING, LOST or ENDED; `exit_code` None = it has not ended."""

    rank: int
    node: str
    hostname: str
    address: str
    devices: tuple[int | str, ...]
    uuids: tuple[str, ...]
    state: str
    pid: int | None
    exit_code: int | None
    start_time: datetime | None

    @classmethod
    def of(cls, raw: Json) -> Allocation:
        return cls(
            rank=int(raw["rank"]),
            node=str(raw["node"]),
            hostname=str(raw.get("hostname") or ""),
            address=str(raw.get("address") or ""),
            devices=tuple(raw.get("devices") or ()),
            uuids=tuple(raw.get("uuids") or ()),
            state=str(raw.get("state") or ""),
            pid=raw.get("pid"),
            exit_code=raw.get("exit_code"),
            start_time=moment(raw.get("start_time")),
        )


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it was when the master was asked. `state`: PENDING, RUNNING, COMPLETED, FAILED, CANCELLED, TIMEOUT or
    NODE_FAIL; `reason`, `detail`: why it waits, or ended so; `gpus`, `nodes`: how many in all; `exit_code` None = it
    has none (yet); `time_limit_s` None = no limit; `attempt` 0 = none has begun."""

    job_id: JobId
    name: str
    user: str
    state: str
    reason: str
    detail: str
    gpus: int
    nodes: int
    command: tuple[str, ...]
    partition: str
    submit_time: datetime | None
    start_time: datetime | None
    end_time: datetime | None
    time_limit_s: int | None
    exit_code: int | None
    attempt: int
    allocation: tuple[Allocation, ...]
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def of(cls, raw: Json) -> Job:
        return cls(
            job_id=raw["job_id"],
            name=str(raw.get("name") or ""),
            user=str(raw.get("user") or ""),
            state=str(raw["state"]),
            reason=str(raw.get("reason") or ""),
            detail=str(raw.get("detail") or ""),
            gpus=int(raw.get("gpus") or 0),
            nodes=int(raw.get("nodes") or 0),
            command=tuple(raw.get("command") or ()),
            partition=str(raw.get("partition") or ""),
            submit_time=moment(raw.get("submit_time")),
            start_time=moment(raw.get("start_time")),
            end_time=moment(raw.get("end_time")),
            time_limit_s=raw.get("time_limit_s"),
            exit_code=raw.get("exit_code"),
            attempt=int(raw.get("attempt") or 0),
            allocation=tuple(map(Allocation.of, raw.get("allocation") or ())),
            raw=raw,
        )

    def __str__(self) -> str:
        return str(self.job_id)

    @property
    def ended(self) -> bool:
        return self.state not in ACTIVE

    @property
    def succeeded(self) -> bool:
        return self.state == "COMPLETED"

    @property
    def exit_status(self) -> int:
        """What `mgpu srun` would end with: the job's own code; 124 time limit, 143 cancelled, 70 node failure. Only of
        one that has ended."""
        return exit_status(dict(self.raw), None)

    @property
    def ending(self) -> str:
        """How it ended, in a line of words."""
        return ending(dict(self.raw))


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """Something that runs on a GPU, of whomever."""

    pid: int
    user: str
    memory_mib: int | None
    command: str
    age_s: int | None

    @classmethod
    def of(cls, raw: Json) -> GpuProcess:
        words = str(raw.get("user") or ""), raw.get("memory_mib"), str(raw.get("command") or "")
        return cls(int(raw["pid"]), *words, raw.get("age_s"))


@dataclass(frozen=True, slots=True)
class Gpu:
    """`state`: free, allocated, external, unhealthy or unknown; `index` None = it is lost; `utilization` in percent."""

    index: int | str | None
    uuid: str
    name: str
    memory_total_mib: int | None
    memory_used_mib: int | None
    utilization: float | None
    state: str
    reason: str
    job_id: JobId | None
    processes: tuple[GpuProcess, ...]

    @classmethod
    def of(cls, raw: Json) -> Gpu:
        return cls(
            index=raw.get("index"),
            uuid=str(raw.get("uuid") or ""),
            name=str(raw.get("name") or ""),
            memory_total_mib=raw.get("memory_total_mib"),
            memory_used_mib=raw.get("memory_used_mib"),
            utilization=raw.get("utilization"),
            state=str(raw["state"]),
            reason=str(raw.get("reason") or ""),
            job_id=raw.get("job_id"),
            processes=tuple(map(GpuProcess.of, raw.get("processes") or ())),
        )


@dataclass(frozen=True, slots=True)
class Node:
    """A machine of the inventory. `state`: UNKNOWN, UP, DRAINING, DRAINED or DOWN; `last_seen` None = never."""

    node_id: str
    state: str
    reason: str
    address: str
    hostname: str
    partition: str
    gpu_type: str
    last_seen: datetime | None
    gpus: tuple[Gpu, ...]
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def of(cls, raw: Json) -> Node:
        return cls(
            node_id=str(raw["node_id"]),
            state=str(raw["state"]),
            reason=str(raw.get("reason") or ""),
            address=str(raw.get("address") or ""),
            hostname=str(raw.get("hostname") or ""),
            partition=str(raw.get("partition") or ""),
            gpu_type=str(raw.get("gpu_type") or ""),
            last_seen=moment(raw.get("last_seen")),
            gpus=tuple(map(Gpu.of, raw.get("gpus") or ())),
            raw=raw,
        )

    @property
    def free(self) -> int:
        """How many of its GPUs a job could have now."""
        return 0 if self.raw.get("barred") else sum(gpu.state == "free" for gpu in self.gpus)


@dataclass(frozen=True, slots=True)
class Prospects:
    """When and where a job is expected to start. `ahead`: jobs before it in the queue, None = it does not wait for its
    turn, or nobody asked; `expected_start` None = that cannot be told; `expected_on`: its nodes; `sooner`: what it
    would start now with, in words."""

    now: bool
    reason: str
    detail: str
    ahead: int | None
    expected_start: datetime | None
    expected_on: tuple[str, ...]
    sooner: tuple[str, ...]
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def of(cls, raw: Json) -> Prospects:
        return cls(
            now=bool(raw.get("now")),
            reason=str(raw.get("reason") or ""),
            detail=str(raw.get("detail") or ""),
            ahead=raw.get("ahead"),
            expected_start=moment(raw.get("expected_start")),
            expected_on=tuple(str(part["node"]) for part in raw.get("expected_on") or ()),
            sooner=tuple(raw.get("sooner") or ()),
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class Status:
    """How the master is. `pending`, `running`: how many jobs; `errors`: what troubles it, in words."""

    version: str
    pid: int
    state_dir: str
    config: str
    uptime_s: int
    pending: int
    running: int
    errors: tuple[str, ...]
    raw: Json = field(repr=False, compare=False)

    @classmethod
    def of(cls, raw: Json) -> Status:
        queue = raw.get("queue") or {}
        return cls(
            version=str(raw["version"]),
            pid=int(raw["pid"]),
            state_dir=str(raw.get("state_dir") or ""),
            config=str(raw.get("config") or ""),
            uptime_s=int(raw.get("uptime_s") or 0),
            pending=int(queue.get("PENDING") or 0),
            running=int(queue.get("RUNNING") or 0),
            errors=tuple(raw.get("errors") or ()),
            raw=raw,
        )


class Output(NamedTuple):
    """Bytes that a rank wrote, as they came: a piece may end within a line, or a letter."""

    kind: Kind
    rank: int
    data: bytes


class Line(NamedTuple):
    """A line that a rank wrote, without its end; what is no UTF-8 is replaced."""

    kind: Kind
    rank: int
    text: str


@dataclass(frozen=True, slots=True)
class Completed:
    """What came of `run`. `exit_status` as `mgpu srun` would end; `stdout` and `stderr` are empty unless captured, and
    of several ranks as it came."""

    job: Job
    exit_status: int
    stdout: bytes = field(default=b"", repr=False)
    stderr: bytes = field(default=b"", repr=False)


class JobFailed(MasterError):
    """A job did not end well, and that was asked for (`check=True`). `job`: as it ended."""

    def __init__(self, job: Job, completed: Completed | None = None) -> None:
        super().__init__("job_failed", job.ending, f"mgpu logs {job.job_id}", exit_code=job.exit_status)
        self.job = job
        self.completed = completed


class Refused(MasterError):
    """Of several jobs, some could not be changed. `errors`: why, one for each; `done`: those that were changed."""

    def __init__(self, done: Iterable[JobId], errors: list[MasterError]) -> None:
        first = errors[0]
        super().__init__(first.code, "\n".join(error.message for error in errors), first.hint, first.exit_code)
        self.done = tuple(done)
        self.errors = tuple(errors)


def moment(text: str | None) -> datetime | None:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc) if text else None


def number(job: JobId | Submitted | Job) -> JobId:
    """Of a job, however it is named."""
    if isinstance(job, Submitted | Job):
        return job.job_id
    if not isinstance(job, str):
        return int(job) if isinstance(job, Integral) else job  # numpy's too
    words = job.split("_", 1)  # "17_04" is the task that the master calls 17_4
    whole = [found for found in map(numeral, words) if found is not None]
    if len(whole) != len(words):
        return job
    return whole[0] if len(whole) == 1 else f"{whole[0]}_{whole[1]}"


def read(make: Callable[[Any], T], answer: Any) -> T:
    """Raises MasterError for an answer of another form than ours."""
    try:
        return make(answer)
    except UNREADABLE as error:
        raise MasterError("error", "the master's answer has not the form that was expected", "mgpu status") from error
