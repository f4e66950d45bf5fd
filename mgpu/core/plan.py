"""What the planner is given and what it says: values alone; `views` makes the views, `schedule` the plan.

    NodeFacts, Node, NodeHolds -> NodeView -> Snapshot -> Plan (starts, and waits with their reasons)

Units as in `model`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple

from mgpu.core.claims import NOT_COUNTED, Claim, Claims
from mgpu.core.model import DeviceUuid, JobId, NodeName, Request, Word

# --- what it is made from -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Window:
    """Maintenance, from `start` until before `end`; `shown` is that in the words of the inventory."""

    start: float
    end: float
    shown: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node as the inventory describes it, as far as planning needs it. `devices` None = all GPUs are ours.
    `gpu_memory_mib`: of a GPU that does not tell its own."""

    name: NodeName
    hostname: str = ""
    gpu_count: int | None = None
    devices: tuple[int, ...] | None = None
    gpu_type: str = ""
    partitions: tuple[str, ...] = ()
    switch: str = ""
    gpu_memory_mib: int | None = None
    maintenance: tuple[Window, ...] = ()
    cpus: int | None = None  # those that jobs may have; None = all that the node has
    host_memory_mib: int | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """None = no limit. `gpus` and `jobs` that run, `queued` jobs that wait, `gpu_hours` used lately."""

    gpus: int | None = None
    jobs: int | None = None
    queued: int | None = None
    gpu_hours: float | None = None

    def __bool__(self) -> bool:
        return self != NO_LIMITS


NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """A partition's limits. `allow_users` () = everybody; times None = no limit."""

    name: str
    default_time_s: int | None = None
    max_time_s: int | None = None
    priority: int = 0
    allow_users: tuple[str, ...] = ()
    limits: Limits = NO_LIMITS  # of the partition as a whole
    user_limits: Limits = NO_LIMITS  # of each user in it


@dataclass(frozen=True, slots=True)
class AccountFacts:
    """A group of users that shares what it uses. `shares`: in proportion to those of the other accounts."""

    name: str
    shares: int = 1
    users: tuple[str, ...] = ()
    limits: Limits = NO_LIMITS


# What a desktop that nobody uses keeps on a GPU for ever. None of them computes.
DESKTOP = (
    "Xorg",
    "Xwayland",
    "gnome-shell",
    "kwin_x11",
    "kwin_wayland",
    "plasmashell",
    "sddm-greeter",
    "xfwm4",
    "cinnamon",
)


@dataclass(frozen=True, slots=True)
class ExternalPolicy:
    """Which foreign processes make a GPU `external`. A process whose command is ignored, or whose known memory is
    below the threshold, does not count. policy "ignore" = none counts."""

    policy: str = "avoid"
    ignore: tuple[str, ...] = DESKTOP
    memory_threshold_mib: int = 0


@dataclass(frozen=True, slots=True)
class NodeHolds:
    """What our own jobs have on one node: by device, and how their processes are told from others'.

    `tokens` and `sessions` are those of attempts that still hold something there; `elsewhere`, of those on other nodes,
    which may be this machine under another name. `asked`: each job's request, and how many GPUs it has there.
    `accounts`: under which the job on a device runs, where that is not ours and its tokens cannot be read.
    """

    devices: Mapping[DeviceUuid, JobId] = field(default_factory=dict)
    tokens: Mapping[str, JobId] = field(default_factory=dict)
    sessions: Mapping[int, JobId] = field(default_factory=dict)
    jobs: int = 0
    exclusive: JobId | None = None
    asked: Mapping[JobId, tuple[Request, int]] = field(default_factory=dict)
    elsewhere: Mapping[str, tuple[JobId, NodeName]] = field(default_factory=dict, compare=False)
    accounts: Mapping[DeviceUuid, str] = field(default_factory=dict)


class Backfill(Word):
    """What may start while a job of higher rank waits for resources."""

    NONE = "none"  # nothing
    EASY = "easy"  # what does not delay it
    SKIP = "skip"  # whatever fits


# --- what the planner sees and says ---------------------------------------------------------------------------------


class DeviceState(Word):
    FREE = "free"
    ALLOCATED = "allocated"
    EXTERNAL = "external"
    UNHEALTHY = "unhealthy"
    UNKNOWN = "unknown"  # could not be read: treated as taken


class DeviceView(NamedTuple):
    """A GPU of a node as the planner sees it. `kind` is the inventory's gpu_type, "" = judge by `name`."""

    uuid: DeviceUuid
    index: int  # type: ignore[assignment]  # not the method of tuples
    name: str
    kind: str
    memory_total_mib: int | None
    state: DeviceState
    reason: str = ""
    job_id: JobId | None = None
    suspect: bool = False  # given to jobs last
    conflict: str = ""  # who else is on it while a job holds it

    @property
    def slice(self) -> bool:
        """A MIG instance: only for those who ask for its profile or for memory."""
        return self.uuid.startswith("MIG-")


DESCRIBED: Final = 5  # so many fields of a device say what it is, the others how it is


class Barred(Word):
    """What keeps everything from a node, as the reason of a job that waits for it. The first counts most."""

    DOWN = "NodeDown"  # it does not answer
    DRAINED = "NodeDrained"  # somebody's word: an operator's, its owner's (keepout) or its health check's
    MAINTENANCE = "Maintenance"
    LOGIN = "LoginRefused"  # for those whose account there cannot be entered


class NodeView(NamedTuple):
    """`usable` False: nothing may start there, `reason` says why (a usable node may have a reason too: degraded).

    `jobs` = attempts that run there now, `exclusive` = the one that has the node for itself alone.
    """

    name: NodeName
    usable: bool
    reason: str
    devices: tuple[DeviceView, ...]
    partitions: tuple[str, ...] = ()
    switch: str = ""
    jobs: int = 0
    expected_gpus: int | None = None  # how many the inventory promises to mgpu; None = it does not say
    gpu_type: str = ""  # the inventory's, for a node that was never seen
    exclusive: JobId | None = None
    only: tuple[int, ...] | None = None  # the inventory's `devices`: the indices that are mgpu's
    links: tuple[tuple[int, int, int], ...] = ()  # NVLink: (GPU, GPU, links) of each linked pair
    maintenance: tuple[Window, ...] = ()
    barred: Barred | None = None  # of what is not usable
    there: Claim = NOT_COUNTED  # cores and host memory
    share: Claim = NOT_COUNTED  # of these, with each GPU
    claims: Claims = ()


class Owner(NamedTuple):
    """Whose use a job is. `account` "" = none."""

    user: str
    account: str = ""


class PendingJob(NamedTuple):
    """An array, or one of its tasks, names that `array`; `tasks` of it may start, and `at_once` may run (0 = all)."""

    job_id: JobId
    user: str
    request: Request
    priority: float
    submit_time: float
    not_before: float = 0.0
    avoid: tuple[NodeName, ...] = ()
    failures: int = 0  # > 0: `not_before` is a back-off, not the user's --begin
    span_s: float = 0.0  # how long it may run, for planning; 0 = nobody asks
    unlimited: bool = False  # it has no limit: `span_s` is what its partition reckons with
    array: JobId | None = None
    tasks: int = 1
    at_once: int = 0
    owner: Owner | None = None  # None = it does not matter whose it is

    @property
    def rank(self) -> tuple[float, float, JobId]:
        """Its place among those that differ in nothing else: by priority, then age, then number."""
        return -self.priority, self.submit_time, self.job_id


class Running(NamedTuple):
    """An attempt that will give back what it holds: its devices by node, and when it is expected to end. What is lost
    from sight is none of these, for nobody knows when it ends."""

    job_id: JobId
    until: float
    parts: tuple[tuple[NodeName, tuple[DeviceUuid, ...]], ...]
    array: JobId | None = None
    owner: Owner | None = None
    partition: str = ""  # as it was asked for


class Shut(NamedTuple):
    """Why a node may not be used for now, by some."""

    reason: str
    barred: Barred = Barred.MAINTENANCE


Closed = tuple[tuple[NodeName, Shut], ...]


class Batch(NamedTuple):
    """Jobs that ask for the same, may run as long, avoid the same nodes and are one owner's, in the order of their
    ranks; at least one. `closed`: nodes where they may not start for now."""

    request: Request
    avoid: tuple[NodeName, ...]
    span_s: float
    unlimited: bool
    owner: Owner | None
    jobs: Sequence[PendingJob]
    gpus: int  # of each
    pace: float  # by how much a second of waiting raises the score of one whose owner has used nothing
    closed: Closed = ()


Place = tuple[float, float, float, JobId]  # in the queue: the least is next


@dataclass(frozen=True, slots=True)
class Precedence:
    """Who is next at one moment: by priority, then by score (see `fairshare`), and after `longest_s` by submission;
    `longest_s` 0 = by submission alone. `factors`: of the owners of whom any is not 1."""

    now: float
    longest_s: float = 0.0
    factors: Mapping[Owner | None, float] = field(default_factory=dict)

    def place(self, batch: Batch, job: PendingJob) -> Place:
        wait = self.now - job.submit_time
        if wait >= self.longest_s or not self.longest_s:
            return -job.priority, -inf, job.submit_time, job.job_id
        return -job.priority, -wait * batch.pace * self.factors.get(batch.owner, 1.0), job.submit_time, job.job_id


class Scope(NamedTuple):
    """Whose limit: a user's everywhere, an account's, a partition's, or (with `user`) a user's in a partition."""

    kind: str
    name: str = ""
    user: str = ""


class Used(NamedTuple):
    gpus: int = 0
    jobs: int = 0
    gpu_hours: float = 0.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits that there are, those of a partition as a whole and of each user in it, and what is in use of them."""

    user: Limits = NO_LIMITS
    accounts: Mapping[str, Limits] = field(default_factory=dict)
    partitions: Mapping[str, tuple[Limits, Limits]] = field(default_factory=dict)
    used: Mapping[Scope, Used] = field(default_factory=dict)

    @property
    def all(self) -> tuple[Limits, ...]:
        """Those that are limits."""
        each = (self.user, *self.accounts.values(), *(one for pair in self.partitions.values() for one in pair))
        return tuple(filter(None, each))


@dataclass(frozen=True, slots=True)
class Dependent:
    """A job that waits for others, of which nothing is planned: what is still open of that, each with whether it is
    enough that the other begins. () = what nobody can tell."""

    job: PendingJob
    waits_for: tuple[tuple[JobId, bool], ...]
    either: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Every pending job stands in one of the batches, or in `later` if it may not start yet. What has to be known of
    running jobs beyond the views, which show their devices as allocated, is when they end."""

    now: float
    nodes: tuple[NodeView, ...]
    batches: tuple[Batch, ...]
    later: tuple[PendingJob, ...] = ()
    default_policy: str = "fill_first"
    running: tuple[Running, ...] = ()
    backfill: Backfill = Backfill.EASY
    tasks: Mapping[JobId, int] = field(default_factory=dict)  # that run, by array
    order: Precedence | None = None  # None = of submission
    bounds: Bounds | None = None  # None = there are no limits
    dependents: tuple[Dependent, ...] = ()  # for those who ask what is to be expected


class PlacedPart(NamedTuple):
    rank: int
    node: NodeName
    devices: tuple[int, ...]
    uuids: tuple[DeviceUuid, ...]


class Start(NamedTuple):
    job_id: JobId
    parts: tuple[PlacedPart, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a job does not start now. `reason` is a code (Resources, BeginTime, NodeDown, ...), `detail` says it in
    words, `nodes` holds the reason of each node in the inventory's order; `start` is when it should, if we can tell;
    `scope`: whose limit it is."""

    reason: str
    detail: str
    nodes: Sequence[tuple[NodeName, str]] = ()
    start: float | None = None
    scope: Scope | None = None


@dataclass(frozen=True, slots=True)
class Reservation:
    """The devices on which the first job that did not fit will start, and when at the latest; what would still run
    there then does not start."""

    job_id: JobId
    at: float
    parts: tuple[PlacedPart, ...]
    request: Request
