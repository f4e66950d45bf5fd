"""The keys of cluster_config.yaml and of inventory files, their limits and defaults (docs/configuration.md).

What stands below a key is what it means: scripts/pages puts it into that page; its end may say what is taken by
default, where that is no value. Values come as text (see document.py), read by their types (see values.py). A key
without a value counts as left out.
"""

from __future__ import annotations

from math import inf
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from mgpu.config.model import DAY_S, DEFAULT_EVENTS, OUTPUT_MAX, SHIP_MAX, Listen, Privacy
from mgpu.config.node_schema import External, NodeHealth
from mgpu.config.section import Section
from mgpu.config.values import (
    Age,
    Count,
    Events,
    Group,
    Hours,
    LimitS,
    ListenHost,
    LocalPath,
    Logins,
    Maintenance,
    Name,
    PlanningS,
    Policy,
    Port,
    PortRange,
    SamplesS,
    Seconds,
    SecondsOrNever,
    SizeBytes,
    Users,
    Whole,
    Words,
)
from mgpu.core.plan import Limits
from mgpu.core.ports import PORTS
from mgpu.core.usage import COARSE_KEPT_S, IdleRule
from mgpu.endpoint import LOOPBACK, PORT, is_loopback


class Cluster(Section):
    name: str = "mgpu"
    """Shown to people."""


class Master(Section):
    mode: Literal["personal", "shared"] = "personal"
    """`personal`: a master of your own, started when needed; `shared`: one for all ([shared.md](shared.md))."""
    state_dir: LocalPath | None = None
    """Queue, spool and socket. Default: `$XDG_STATE_HOME/mgpu`."""
    socket_group: Group = ""
    """Of a shared master: who may connect; its account is to be a member. Default: all."""
    idle_exit: SecondsOrNever = 600.0
    """A personal master ends when nothing was queued or running for so long; `never`; a service does not end by
    itself, nor one that listens on TCP."""
    run_as: Literal["service", "submitter"] = "service"
    """`service`: jobs run under mgpu's own login on the nodes; `submitter`: under the accounts of their users
    ([accounts.md](accounts.md))."""
    via: Literal["login", "sudo"] = "login"
    """How the master gets into these: `login` (after `mgpu enroll`) or `sudo`."""
    host: ListenHost | None = None
    """The master also listens there, for clients that show a token ([remote.md](remote.md)). Default: 127.0.0.1
    where a port is given."""
    port: Port | None = None
    """At this port. Default: 8080 where a host is given."""
    tls: bool | None = None
    """Whether it speaks TLS there. Default: beyond 127.0.0.1, ::1 and localhost always; there `false`."""
    tls_certificate: LocalPath | None = None
    """A PEM file of the site; a renewed one is taken within seconds. Default: the master makes its own."""
    tls_key: LocalPath | None = None
    """Its key, likewise."""

    @model_validator(mode="after")
    def _listens_safely(self) -> Master:
        self.listen()
        return self

    def listen(self) -> Listen | None:
        """None = on its socket alone. Raises ValueError."""
        if bool(self.tls_certificate) != bool(self.tls_key):
            raise ValueError("tls_certificate and tls_key belong together: give both, or neither")
        if self.host is None and self.port is None:
            given = [name for name in ("tls", "tls_certificate") if getattr(self, name) is not None]
            if given:
                raise ValueError(f"{given[0]} means nothing without host and port")
            return None
        host = self.host or LOOPBACK
        beyond = not is_loopback(host)
        if beyond and self.tls is False:
            raise ValueError(f"beyond this machine ({host}) tokens go over TLS alone: leave tls out")
        if self.tls is False and self.tls_certificate:
            raise ValueError("tls: false, and yet a tls_certificate: leave one of them out")
        tls = beyond or bool(self.tls) or self.tls_certificate is not None
        return Listen(host, self.port or PORT, tls, self.tls_certificate, self.tls_key)

    @model_validator(mode="before")
    @classmethod
    def _is_for_all(cls, data: Any) -> Any:
        """Of a shared one. Its users find it by the same words, whosever home they have."""
        said = data if isinstance(data, dict) else {}
        if said.get("mode") != "shared":
            if said.get("socket_group"):
                raise ValueError("socket_group means nothing unless mode is shared")
        elif not said.get("state_dir") or str(said["state_dir"]).startswith("~"):
            raise ValueError("mode shared needs a state_dir that all can enter, and in no home: /var/lib/mgpu")
        return data


class LimitsOf(Section):
    gpus: Count | None = None
    """GPUs held at once."""
    jobs: Count | None = None
    """Jobs that run at once."""
    queued: Count | None = None
    """Jobs that wait or run."""
    gpu_hours: Hours | None = None
    """GPU-hours that are used and not yet forgotten (see `half_life`)."""

    def read(self) -> Limits:
        return Limits(self.gpus, self.jobs, self.queued, self.gpu_hours)


class Partition(Section):
    default_time: LimitS = None
    """Limit of a job that gives none."""
    max_time: LimitS = None
    """Longest limit that a job may ask for."""
    planning_time: PlanningS = DAY_S
    """How long a job without a limit is assumed to run when starts are planned, so far against maintenance."""
    priority: Whole = 0
    """Added to that of its jobs."""
    allow_users: Logins = []
    """Logins that may use it. Default: everybody."""
    limits: LimitsOf = LimitsOf()
    """Of the partition as a whole, as `scheduling.user_limits`. Default: none."""
    user_limits: LimitsOf = LimitsOf()
    """Of each user in it, likewise. Default: none."""

    @model_validator(mode="after")
    def _default_within_limit(self) -> Partition:
        if self.default_time is not None and self.max_time is not None and self.default_time > self.max_time:
            raise ValueError("default_time is more than max_time")
        return self


class Account(Section):
    shares: Annotated[Whole, Field(ge=1, le=1_000_000)] = 1
    """How much of the GPUs it is to have, beside other accounts ([scheduling.md](scheduling.md))."""
    users: Logins = []
    """Who is in it; the first account that lists somebody is theirs unless `-A` names another. Default:
    required."""
    limits: LimitsOf = LimitsOf()
    """Of all of them together, as `scheduling.user_limits`. Default: none."""

    @model_validator(mode="after")
    def _has_users(self) -> Account:
        if not self.users:
            raise ValueError("has no users: [ann, bob]")
        return self


class Networking(Section):
    heartbeat_interval: Seconds = 30.0
    """How often a node is asked."""
    timeout: Seconds = 60.0
    """For an answer to anything else than the next two; after so much silence a link counts as lost."""
    login_timeout: Seconds = 30.0
    """For a login over SSH."""
    probe_timeout: Seconds = 45.0
    """For a probe; nvidia-smi can take 40 s without persistence mode."""
    master_ports: PortRange = PORTS
    """Where the ranks of jobs on several nodes meet (MASTER_PORT), each job at a port of its own: the nodes must be
    able to reach each other there. Default: `20000-29999`."""
    preflight: bool = True
    """Before the first job on a pair of nodes it is looked at whether they reach each other; `false`: never
    ([preflight](preflight.md))."""


class FairShareTimes(Section):
    """`half_life: none` = use does not count; `longest_wait: 0` = in order of submission alone."""

    half_life: SecondsOrNever = 7 * DAY_S
    """After so long half of what somebody has used is forgotten; `none`: use does not count
    ([scheduling.md](scheduling.md))."""
    longest_wait: Age = 28 * DAY_S
    """Who has waited for so long comes first; 0: in order of submission alone."""


class Scheduling(Section):
    default_policy: Policy = "fill_first"
    """`fill_first`, `spread` or `package.module:function`."""
    backfill: Literal["easy", "skip", "none"] = "easy"
    """What may start while a job ahead waits for GPUs: `easy` what does not delay it, `none` nothing in its
    partition, `skip` whatever fits."""
    fair_share: FairShareTimes = FairShareTimes()
    user_limits: LimitsOf = LimitsOf()
    """Of each user: `{gpus: 16, jobs: 8, queued: 1000, gpu_hours: 500}`, any of them
    ([scheduling.md](scheduling.md)). Default: none."""


class Retries(Section):
    max: Count = 5
    """Tries that trouble of nodes may cost a job."""
    requeues: Count = 20
    """Times that a job may have itself queued again."""
    backoff: Seconds = 10.0
    """Before the first such retry, doubled each time."""
    backoff_max: Seconds = 600.0
    """But never longer."""


class Health(NodeHealth):
    unhealthy_after: Annotated[Whole, Field(ge=1)] = 3
    """Failed probes in a row that take a node out of use (DOWN), until one is good again."""


class Output(Section):
    max_size: SizeBytes = OUTPUT_MAX
    """Kept of each output stream of an attempt: `500M`, `10G` (powers of 1024), `none` or 0 = all. A longer one is
    cut there and its last line says so; the job is not disturbed, the whole stays in its `-o` file if it has
    one."""


class Ship(Section):
    max_size: SizeBytes = SHIP_MAX
    """Of all files of one tree that `--ship` sends: `500M`, `1G`, `none`. Twenty times as much is kept of each
    user."""


class Notices(Section):
    command: Words = ()
    """Is told of what happens to jobs and nodes, on its stdin ([notify](notify.md)): a text for the shell, or its
    words. Default: none."""
    events: Events = DEFAULT_EVENTS
    """Of what: `[failed, node_down]`, `all`, `none`. Default: see [notify](notify.md)."""
    timeout: Seconds = 30.0
    """So long it may take."""
    retries: Count = 3
    """Tries after one that failed."""

    @model_validator(mode="after")
    def _has_command(self) -> Notices:
        if not self.command:
            raise ValueError("has no command: [/usr/local/bin/tell]")
        return self


class Retention(Section):
    jobs: SecondsOrNever = inf
    """So long after its end a job is removed: `90d` ([operation](operation.md#what-is-kept-and-for-how-long))."""
    output: SecondsOrNever = inf
    """So long after its end the output of a job is removed."""
    samples: SamplesS = COARSE_KEPT_S
    """So long it is kept what GPUs did, by the quarter of an hour; 1d to 400d ([history](history.md))."""


class Idle(Section):
    """A job that holds GPUs and does nothing with them; `after: never` = nobody is told."""

    after: SecondsOrNever = IdleRule().after_s
    """A job whose GPUs are all little used for so long is shown as idle; `never` = none is
    ([history](history.md#jobs-that-hold-gpus-without-using-them))."""
    below: Annotated[Whole, Field(ge=1, le=100)] = IdleRule().below
    """Under so many percent is little."""


class Log(Section):
    format: Literal["text", "json"] = "text"
    """How the master writes its log: `text`, or `json`, a line each ([operation](operation.md#the-log))."""


class Settings(Section):
    """All of cluster_config.yaml but `defaults` and `nodes`, which are read one by one."""

    cluster: Cluster = Cluster()
    master: Master = Master()
    inventory: LocalPath | None = None
    """A file, or a folder whose `*.yaml` and `*.yml` are read by name ([inventory.md](inventory.md))."""
    defaults: Any = None
    """Keys for all nodes, see below."""
    nodes: Any = None
    """Nodes, right here."""
    partitions: dict[Name, Partition] | None = None
    """See below."""
    accounts: dict[Name, Account] = {}
    """Groups of users that share what they use: `vision: {shares: 2, users: [ann, bob], limits: {gpus: 32}}`."""
    admins: Logins = []
    """Logins that may do, besides root and who runs the master, what is not for everybody: act on jobs of others
    and on nodes, raise a priority."""
    users: Users = {}
    """Login on the head: login on the nodes, `same` or `none` (refused); `"*"` is everybody else. Default: `"*":
    same`."""
    privacy: Privacy = "full"
    """What others than admins see of jobs that are not theirs: `full`, `names`, `none` ([shared.md](shared.md))."""
    networking: Networking = Networking()
    scheduling: Scheduling = Scheduling()
    retries: Retries = Retries()
    health: Health = Health()
    output: Output = Output()
    ship: Ship = Ship()
    log: Log = Log()
    notify: Notices | None = None
    retention: Retention = Retention()
    idle: Idle = Idle()
    external: External = External()
    maintenance: Maintenance = []
    """When all nodes are under maintenance, see below."""


class InventoryFile(Section):
    defaults: Any = None
    nodes: Any = None
