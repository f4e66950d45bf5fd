"""The values that flow through mgpu: frozen, without behaviour beyond simple questions about themselves.

    JobSpec -> Job -> Attempt -> Part (the attempt's share on one node) -> devices held

What is known of nodes is in `observation`, what the planner sees and says in `plan`.

Units: times are seconds since the epoch (UTC, float), durations seconds, memory MiB, utilisation percent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, NewType

JobId = NewType("JobId", int)
NodeName = NewType("NodeName", str)
DeviceUuid = NewType("DeviceUuid", str)


class Word(str, Enum):
    """An enum whose members print as their word."""

    def __str__(self) -> str:
        return str(self.value)


class JobState(Word):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMEOUT = "TIMEOUT"
    NODE_FAIL = "NODE_FAIL"

    @property
    def final(self) -> bool:
        return self not in (JobState.PENDING, JobState.RUNNING)


class AttemptState(Word):
    """Also the state of a part. All but ENDED hold devices."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    LOST = "LOST"  # contact lost: an observation, never a verdict
    ENDED = "ENDED"

    @property
    def holds_devices(self) -> bool:
        return self is not AttemptState.ENDED


class NodeState(Word):
    UNKNOWN = "UNKNOWN"
    UP = "UP"
    DRAINING = "DRAINING"
    DRAINED = "DRAINED"
    DOWN = "DOWN"


class JobKind(Word):
    SRUN = "srun"
    BATCH = "batch"


class CommandForm(Word):
    ARGV = "argv"  # words go to the program byte for byte
    SHELL = "shell"  # one shell command line
    SCRIPT = "script"  # the text of a script file; words are its arguments
    LINES = "lines"  # of an array: the text of a file with a shell command line for each task


class LauncherName(Word):
    """What starts a job's processes: see core.launchers."""

    NONE = "none"  # mgpu itself: the command once on each node, or so many times as was asked for
    TORCHRUN = "torchrun"
    MPI = "mpi"


class FailureClass(Word):
    """Why an attempt ended other than by the command's own exit. Decides what `retry` says."""

    NONE = ""
    NODE = "node"  # the node could not start it; counts against the node
    DIRECTORY = "directory"  # the working directory is not there; that node is avoided for this job only
    NEWCOMER = "newcomer"  # a foreign process or another master holds the device; costs no retry
    LOGIN = "login"  # its user's account there could not be entered any more; costs no retry
    PORT = "port"  # somebody else listens where its ranks were to meet; costs no retry
    NETWORK = "network"  # its ranks cannot reach each other; that node is avoided for this job only
    SUPERVISOR = "supervisor"  # somebody killed the shells that watch over the job; how it ended is not known
    # the node rebooted, or was given up, while the command may have run; or of several nodes some never ran it
    NODE_LOST = "node_lost"
    STOPPED = "stopped"  # cancelled or timed out
    EXIT = "exit"  # the command's own non-zero exit
    REQUEUED = "requeued"  # the job itself wanted to be queued again


# --- what a user asks for -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Command:
    """`words` of an ARGV, the arguments of a SCRIPT, or the single line of a SHELL form.

    Strings may hold surrogate escapes (bytes that are not UTF-8).
    """

    form: CommandForm
    words: tuple[str, ...]
    script: str = ""
    script_name: str = ""

    def display(self) -> list[str]:
        """What `queue` shows: the argv, the line, or the script's name and arguments."""
        return (
            list(self.words) if self.form in (CommandForm.ARGV, CommandForm.SHELL) else [self.script_name, *self.words]
        )


@dataclass(frozen=True, slots=True)
class Request:
    """Resources. `gpus` is the job's total; None where the shape gives it. Names are expanded hostlists.

    `pins` are (node, device indices) in the order asked for: the order is that of the ranks.
    `gpu_types` are alternatives, () = any single kind; `mixed` = kinds may differ (`--gpu-type any`).
    """

    gpus: int | None = None
    nodes: int | None = None
    gpus_per_node: int | None = None
    nodelist: tuple[NodeName, ...] = ()
    exclude: tuple[NodeName, ...] = ()
    gpu_ids: tuple[int, ...] = ()
    pins: tuple[tuple[NodeName, tuple[int, ...]], ...] = ()
    gpu_types: tuple[str, ...] = ()
    mixed: bool = False
    gpu_memory_mib: int | None = None
    partition: str = ""
    exclusive: bool = False
    policy: str = ""  # "" = the cluster's default
    cpus: int | None = None  # cores on each node; None = the share that goes with its GPUs
    host_memory_mib: int | None = None  # likewise


class ConditionKind(Word):
    AFTER = "after"  # has started, or is over without that
    AFTEROK = "afterok"
    AFTERNOTOK = "afternotok"
    AFTERANY = "afterany"
    SINGLETON = "singleton"  # no earlier job of the same name and user is left


@dataclass(frozen=True, slots=True)
class Condition:
    """`job_id` None: of a singleton. `delay_s`: so long after that job started. `task`: of an array, as it was typed;
    what is stored names the task's own row, and `shown` says what that was called."""

    kind: ConditionKind
    job_id: JobId | None = None
    delay_s: int = 0
    task: int | None = None
    shown: str = ""


@dataclass(frozen=True, slots=True)
class Dependency:
    """All of the conditions have to be met, or `either` of them. `keep`: one that never can be waits all the same."""

    conditions: tuple[Condition, ...]
    either: bool = False
    keep: bool = False

    @property
    def job_ids(self) -> tuple[JobId, ...]:
        """Those that it names."""
        return tuple(condition.job_id for condition in self.conditions if condition.job_id is not None)

    @property
    def singleton(self) -> bool:
        return any(condition.job_id is None for condition in self.conditions)


@dataclass(frozen=True, slots=True)
class Tree:
    """A working tree that goes along (--ship). `digest`: SHA-256 of its tar; `place`: where in it the job runs, "" = at
    its top; `commit` "" = it is none of git's; `dirty`: it holds more or other than that commit; `size` in bytes."""

    digest: str
    place: str = ""
    commit: str = ""
    dirty: bool = False
    size: int = 0
    files: int = 0


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What was asked for; only the limit may change later. `env` are the exported values: stored apart, under the name
    `exports` ("" = there are none). `time_limit_s` None = no limit."""

    command: Command
    request: Request
    name: str
    kind: JobKind
    time_limit_s: int | None = None
    chdir: str = ""  # -D: must exist on the node
    submit_dir: str = ""  # where the user stood
    env: Mapping[str, str] = field(default_factory=dict)
    setup: str = ""  # a shell text run before the command, in the job's shell
    virtual_env: str = ""  # CONDA_PREFIX or VIRTUAL_ENV at submit
    output: str = ""  # -o of a batch job, on the node
    error: str = ""
    retries: int = 0  # of the user's own non-zero exit
    requeue: bool = True
    signal: str = ""  # [B:]NUMBER@SECONDS: sent so long before the time limit; B: = to the first process alone
    requeue_exits: tuple[int, ...] = ()  # exit codes that mean: queue it again
    priority: int = 0  # as asked for
    tier: int = 0  # what its partition adds
    nice: int = 0  # what it lets others have
    dependency: Dependency | None = None
    array: str = ""  # all indices, and how many tasks may run at once, `0-99%4`; in the row of a task that alone, `%4`
    account: str = ""  # whose share it uses; "" = of none
    client_absence_s: int | None = None  # it ends when no client of it was there for so long; None = it runs on
    asked: str = ""  # a digest of the submission, where the user gave a key for it
    input: str = ""  # `pipe` = somebody gives it its stdin, ROWSxCOLS = through a terminal; "" = it has none
    tree: Tree | None = None
    launcher: LauncherName = LauncherName.NONE
    tasks_per_node: int | None = None  # of the command, side by side on each node; None = it is started once there
    exports: str = ""
    export_file: str = ""  # on the node, of more values; "" = none
    mail_type: str = ""  # of what somebody is told, as --mail-type names it (see core.notices)
    mail_user: str = ""  # whom; "" = who submitted it
    gpus_per_task: int | None = None  # which it then sees alone; None = all those of its node

    @property
    def standing(self) -> int:
        return self.priority + self.tier - self.nice


# --- what is stored -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Job:
    """`reason` is a short code beside the state (Resources, Priority, ContactLost, ...), `detail` says it in words.

    `stop` is who or what wants it ended ("" = nobody): a stored wish, kept until all parts have ended.
    `failures` counts the tries that node trouble used up, `avoid` the nodes where they failed.
    `held` keeps a job that waits from starting ("" = nothing does): the reason and who said so, `JobHeldUser by alice`.

    An array is one of these (see core.array): `rest` are the indices whose tasks are still to begin, `dropped` those
    that were cancelled before. A task of it has `array_id` and `array_index`; what all share is in the array's row.
    """

    job_id: JobId
    request_id: str
    user: str
    uid: int
    spec: JobSpec
    state: JobState
    submit_time: float
    reason: str = ""
    detail: str = ""
    start_time: float | None = None
    end_time: float | None = None
    exit_code: int | None = None
    attempt: int = 0  # number of the current or last attempt; 0 = none yet
    stop: str = ""
    not_before: float = 0.0
    failures: int = 0
    avoid: tuple[NodeName, ...] = ()
    held: str = ""
    array_id: JobId | None = None
    array_index: int | None = None
    rest: str | None = None
    dropped: str | None = None

    @property
    def is_array(self) -> bool:
        return self.rest is not None


@dataclass(frozen=True, slots=True)
class Attempt:
    job_id: JobId
    number: int
    token: str  # 128 random bits in hex; makes a remote start happen once
    state: AttemptState
    created: float
    started: float | None = None
    ended: float | None = None
    exit_code: int | None = None
    failure: FailureClass = FailureClass.NONE
    reason: str = ""
    port: int | None = None  # where its ranks meet, on the node of rank 0: no other attempt has it at the same time

    def token_of(self, part: Part) -> str:
        """What the processes of a part are known by: two nodes may be one machine."""
        return f"{self.token}{part.rank:04x}" if part.rank else self.token


HELD_BY_USER, HELD_BY_ADMIN = "JobHeldUser", "JobHeldAdmin"
GIVEN_UP = "GIVEN_UP"  # a part's stop: an operator's word
REQUEUE = "REQUEUE"  # a part's stop, recorded on the node: the job itself wants to be queued again
RESTART = "RESTART"  # a stop, of a job and its parts: somebody wants it queued again
PORT_IN_USE = "PORT"  # a part's stop, recorded on the node: its command says that somebody else has its port
OUT_OF_MEMORY = "OOM"  # a part's stop, recorded on the node: the kernel killed it, nobody of ours did


@dataclass(frozen=True, slots=True)
class Part:
    """The share of an attempt on one node: one supervised process there.

    `pid`, `start_ticks` (since boot) and `boot_id` name the supervisor beyond doubt (pids are reused).
    `ready` = prepared and waiting for the gang's `go`. `collected` = every byte of output is in the spool.
    """

    job_id: JobId
    attempt: int
    rank: int
    node: NodeName
    account: str
    devices: tuple[int, ...]
    uuids: tuple[DeviceUuid, ...]
    state: AttemptState
    hostname: str = ""  # what the node calls itself
    address: str = ""  # where we connected to
    pid: int | None = None
    start_ticks: int | None = None
    boot_id: str = ""
    ready: bool = False
    started: float | None = None
    ended: float | None = None
    exit_code: int | None = None
    stop: str = ""  # wanted end: CANCEL, TIMEOUT, GANG, ...
    failure: FailureClass = FailureClass.NONE
    reason: str = ""
    lost_since: float | None = None
    collected: bool = False
    idle_since: float | None = None  # it holds GPUs and does nothing with them (see core.usage), for long enough to say

    @property
    def key(self) -> PartKey:
        return PartKey(self.job_id, self.attempt, self.rank)

    @property
    def owes_fence(self) -> bool:
        """It was given up without proof: before its node gets work again, what may still run there has to be ended."""
        return self.state is AttemptState.ENDED and self.stop == GIVEN_UP and not self.collected


class PartKey(NamedTuple):
    """Hashed and compared thousands of times in a pass: a tuple does that by itself."""

    job_id: JobId
    attempt: int
    rank: int


@dataclass(frozen=True, slots=True)
class Audit:
    """One thing that happened. `who` is a login, or "master"; of a person also the uid and the `origin` (see
    ops.context.Caller). `result` "" = it was done."""

    at: float
    who: str
    what: str
    job_id: JobId | None = None
    node: NodeName | None = None
    detail: str = ""
    uid: int | None = None
    origin: str = ""
    result: str = ""
