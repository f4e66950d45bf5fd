"""What every operation is given, who asks, and the little that only the master can do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from mgpu import clock
from mgpu.config.faults import did_you_mean
from mgpu.config.model import Config, NodeConfig
from mgpu.core.array import shown_id
from mgpu.core.errors import NotAllowed, NotFound
from mgpu.core.fairshare import Turn
from mgpu.core.marks import Order
from mgpu.core.model import Audit, Job, JobId, NodeName, Part, PartKey
from mgpu.core.plan import NodeView, Snapshot, Wait
from mgpu.core.policies import Policy
from mgpu.core.preflight import Together
from mgpu.core.residue import Residue
from mgpu.meters import Meters
from mgpu.ops.keyring import Keyring
from mgpu.store.audits import AuditFilter
from mgpu.store.reading import Reader
from mgpu.store.spool import Spool
from mgpu.store.store import Store
from mgpu.store.trees import Trees

TREES = "trees"  # the folder of what came with --ship, beside the database


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: known from the connection, never from what was said on it. `origin`: from where, as the audit tells
    it: "socket" (this machine), "ssh" (the socket, by dial-stdio), "tcp ADDRESS", or a signal's name."""

    uid: int
    user: str
    origin: str = ""

    def entry(
        self, what: str, job_id: JobId | None = None, node: NodeName | None = None, detail: str = "", result: str = ""
    ) -> Audit:
        """A row that says that they did it, or asked for it."""
        return Audit(clock.now(), self.user, what, job_id, node, detail, self.uid, self.origin, result)


@dataclass(frozen=True, slots=True)
class HostKey:
    """`line` is what known_hosts would hold."""

    type: str
    fingerprint: str
    line: str


@dataclass(frozen=True, slots=True)
class HostKeys:
    """The keys that a node offers beside those on file. `status`: new (none on file), same, or changed.
    `removal`: the command that takes those on file away."""

    address: str
    keys: tuple[HostKey, ...]
    known: tuple[HostKey, ...]
    status: str
    removal: str = ""


class Waker(Protocol):
    def wake(self) -> None:
        """The stored state has changed: look at it soon. Returns at once; any thread may call it."""


class Attendance(Protocol):
    """Who is with a job: where that matters, it ends once nobody is."""

    def expect(self, job: Job) -> None:
        """It has just been submitted."""

    def attend(self, job_id: JobId, on: bool) -> None:
        """A client of it comes or goes (counted)."""


class Taken(NamedTuple):
    """How far the stdin of a job is. `attempt` 0: nothing can be given yet. `fed` bytes are with all ranks, the master
    has `here`; what is given next follows these. `over`: nobody reads any more. `room`: for more now."""

    attempt: int
    fed: int
    here: int
    over: bool
    room: bool


class Stdin(Protocol):
    """The stdin of a job. All may be called from any thread and return at once; what is meant for another attempt than
    the present one is passed over."""

    def taken(self) -> Taken: ...
    def give(self, attempt: int, data: bytes) -> None: ...
    def end(self, attempt: int) -> None: ...
    def resize(self, rows: int, columns: int) -> None: ...


class Stdins(Protocol):
    """Of jobs that are given one (JobSpec.input)."""

    def open(self, job_id: JobId, news: Callable[[], None]) -> Stdin:
        """Until `close` with the same `news`, which is called, from any thread, when `taken` may say something else."""

    def close(self, job_id: JobId, news: Callable[[], None]) -> None:
        """What was given is still brought to the job."""


class Control(Protocol):
    """The master, as the operations see it. All may be called from any thread, names are of known nodes."""

    @property
    def meters(self) -> Meters: ...

    @property
    def attendance(self) -> Attendance: ...

    @property
    def stdins(self) -> Stdins: ...

    def probe(self, node: NodeName) -> Future[str]:
        """Begins one, and returns at once. It is over when what came of it is stored: why the node did not answer, "" =
        it did; or a MgpuError, where nothing came of it in time."""

    def host_keys(self, node: NodeName) -> HostKeys:
        """Asks the node. Raises MgpuError."""

    def trust(self, node: NodeName, lines: Sequence[str]) -> int:
        """Takes these keys as the node's own; how many were new. Raises MgpuError."""

    def give_up(self, node: NodeName, by: str) -> None:
        """What is lost on that node ends as a failure of the node, without proof. Returns once that is stored."""

    def order(self, node: NodeName, order: Order) -> None:
        """Drain or resume the node, or GPUs of it. Returns once that is stored."""

    def own_key(self) -> str:
        """The public half of the key by which the master logs in as others. Raises MgpuError."""

    def enter(self, user: str, nodes: Sequence[NodeName]) -> list[str | None]:
        """Tries now why nothing of this user can start on each of these: "" = it can, None = no answer in time. Raises
        NotAllowed."""

    def residue(self, node: NodeName) -> Residue:
        """What is left of us on that node, of every database. Raises MgpuError."""

    def remove(self, node: NodeName, places: Sequence[str], leases: Sequence[str]) -> dict[str, str]:
        """Name -> what came of it: removed, or a word of residue.WHY_REFUSED. Raises MgpuError."""

    def inquire(self, names: Sequence[NodeName], directory: str, virtual_env: str, account: str = "") -> Together:
        """What these nodes have in common, and whether they reach each other; for a user who stands in that directory
        and environment ("" = none) and has that account there ("" = mgpu's own). Raises MgpuError."""

    def is_looked_at(self, job_id: JobId) -> bool:
        """It is about to start, once its nodes have tried whether they reach each other."""

    def stop(self) -> None:
        """The master ends soon, jobs run on. Returns at once."""

    def reload(self, config: Config) -> None:
        """Another master takes over in this process, with that configuration. Returns at once."""

    def restart(self) -> None:
        """The program takes over anew in this process, as it lies on the disk now. Returns at once."""

    def signal(self, wanted: Sequence[tuple[JobId, str]]) -> dict[JobId, str]:
        """Sends each of these jobs its signal (its number, behind B: to the first process alone, behind S: not to a
        shell that the job began with); job -> why it did not get it, "" = it did."""

    def views(self) -> Sequence[NodeView]:
        """All nodes of the inventory, in its order, as the planner sees them now."""

    def waits(self) -> Mapping[JobId, Wait]:
        """Of the last plan."""

    def what_if(self, job: Job | None = None) -> tuple[Snapshot, Mapping[str, Policy]]:
        """What the planner would be given now, for those who ask it; with one more job."""

    def turn(self, job_id: JobId) -> Turn | None:
        """Where it stands in the queue that was planned last; None = it is not in it."""

    def bring(self, parts: Sequence[Part]) -> Mapping[PartKey, bool]:
        """What these have written until now, into the spool, as far as it comes in a moment. Of those whose nodes could
        be asked: whether all of it is here."""

    def settle(self) -> None:
        """What nodes told of their GPUs until some seconds ago, into the store."""

    def watch(self, job_id: JobId, on: bool) -> None:
        """Somebody begins or ceases to follow this job's output live (counted)."""

    def errors(self) -> Sequence[str]:
        """What went wrong lately, one line each, newest last."""


@dataclass(frozen=True, slots=True)
class Context:
    """`started` in seconds since the epoch; `owner_uid` is who runs the master. A personal master serves nobody else,
    but root. Operators, or admins: these two, and who the configuration says. `own_config`: where a configuration goes
    that is begun for a master without one; None = nowhere."""

    store: Store
    spool: Spool
    config: Config
    waker: Waker
    control: Control
    started: float
    owner_uid: int
    keyring: Keyring = field(default_factory=Keyring)
    own_config: Path | None = None

    @property
    def personal(self) -> bool:
        return not self.config.shared

    @property
    def trees(self) -> Trees:
        return Trees(self.store.path.parent / TREES, self.config.ship_max)

    def serves(self, caller: Caller) -> bool:
        return not self.personal or caller.uid in (0, self.owner_uid)

    def is_operator(self, caller: Caller) -> bool:
        return caller.uid in (0, self.owner_uid) or caller.user in self.config.admins

    def node_config(self, name: str) -> NodeConfig:
        """Raises NotFound, with the nearest name that there is."""
        for node in self.config.nodes:
            if node.name == name:
                return node
        names = [str(node.name) for node in self.config.nodes]
        raise NotFound(f"there is no node {name!r}{did_you_mean(name, names)}", "mgpu nodes lists them")


def find_job(reader: Reader, job_id: JobId) -> Job:
    job = reader.job(job_id)
    if job is None:
        if reader.audited(AuditFilter(job_ids=(job_id,), limit=1)):
            raise NotFound(
                f"job {job_id} is over for so long that it was removed (retention: jobs)",
                f"mgpu audit --job {job_id} tells what became of it",
            )
        raise NotFound(f"there is no job {job_id}", "mgpu queue and mgpu history list them")
    return job


def require_owner(context: Context, caller: Caller, job: Job, what: str) -> None:
    """`what` reads like "cancel it". Whose it is, is told where all may know it."""
    if job.uid != caller.uid and not context.is_operator(caller):
        whose = "is somebody else's" if context.config.privacy == "none" else f"belongs to {job.user}"
        raise NotAllowed(f"job {shown_id(job)} {whose}: {caller.user} may not {what}")


def require_operator(context: Context, caller: Caller, what: str) -> None:
    """`what` reads like "stop the master"."""
    if not context.is_operator(caller):
        raise NotAllowed(f"{caller.user} may not {what}: only root, who runs the master, and its `admins` may")


def record(context: Context, entry: Audit) -> None:
    with context.store.write() as w:
        w.audit(entry)
