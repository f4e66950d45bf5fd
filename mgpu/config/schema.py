"""The keys of cluster_config.yaml and of inventory files, their limits and defaults (docs/configuration.md).

Values come as text (see document.py), read by their types (see values.py). A key without a value counts as left out.
"""

from __future__ import annotations

from math import inf
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from mgpu.config.listening import LOOPBACK, PORT, is_loopback
from mgpu.config.model import DAY_S, DEFAULT_EVENTS, OUTPUT_MAX, SHIP_MAX, Listen, Privacy
from mgpu.config.values import (
    Age,
    Count,
    Environment,
    Events,
    Group,
    Hours,
    Jump,
    KeyFile,
    LimitS,
    ListenHost,
    LocalPath,
    Login,
    Logins,
    Maintenance,
    Name,
    Names,
    PlanningS,
    Policy,
    Port,
    PortRange,
    Program,
    RemotePath,
    SamplesS,
    Seconds,
    SecondsOrNever,
    SizeBytes,
    Users,
    Whole,
    Words,
)
from mgpu.core.plan import DESKTOP, Limits
from mgpu.core.ports import PORTS
from mgpu.core.usage import COARSE_KEPT_S, IdleRule


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _leave_out_the_empty(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return {} if data is None else data
        return {key: value for key, value in data.items() if value is not None or key not in cls.model_fields}


class Ssh(Section):
    port: Port | None = None
    user: Login | None = None
    identity_file: KeyFile | None = None
    known_hosts: LocalPath | None = None
    proxy_jump: Jump | None = None


class Network(Section):
    address: str = ""
    interface: str = ""


class External(Section):
    policy: Literal["avoid", "ignore"] = "avoid"
    ignore: list[str] = list(DESKTOP)
    memory_threshold_mib: Count = 0


class NodeHealth(Section):
    check: str = ""
    check_timeout: Seconds = 10.0


class NodeDefaults(Section):
    """What `defaults:` may hold: all of a node but its identity."""

    connection: Literal["ssh", "local"] = "ssh"
    ssh: Ssh = Ssh()
    gpu_count: Count | None = None
    devices: Annotated[list[Count], Field(min_length=1)] | None = None
    gpu_type: str = ""
    gpu_memory: SizeBytes | None = None
    cpus: Count | None = None
    host_memory: SizeBytes | None = None
    partition: Names = []
    switch: str = ""
    network: Network = Network()
    external: External = External()
    health: NodeHealth = NodeHealth()
    maintenance: Maintenance = []
    nvidia_smi: Program = ""
    workdir: RemotePath = ""
    run_dir: RemotePath = ""
    login_shell: bool = False
    setup: str = ""
    env: Environment = {}


class NodeEntry(NodeDefaults):
    """node_id, hostname, ip and network.address may be hostlists that run in step. That node_id is missing is told
    with the ranges: an entry without it is checked all the same."""

    node_id: str = ""
    hostname: str = ""
    ip: str = ""


class Cluster(Section):
    name: str = "mgpu"


class Master(Section):
    mode: Literal["personal", "shared"] = "personal"
    state_dir: LocalPath | None = None
    socket_group: Group = ""
    idle_exit: SecondsOrNever = 600.0
    run_as: Literal["service", "submitter"] = "service"
    via: Literal["login", "sudo"] = "login"
    host: ListenHost | None = None
    port: Port | None = None
    tls: bool | None = None
    tls_certificate: LocalPath | None = None
    tls_key: LocalPath | None = None

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
    jobs: Count | None = None
    queued: Count | None = None
    gpu_hours: Hours | None = None

    def read(self) -> Limits:
        return Limits(self.gpus, self.jobs, self.queued, self.gpu_hours)


class Partition(Section):
    default_time: LimitS = None
    max_time: LimitS = None
    planning_time: PlanningS = DAY_S
    priority: Whole = 0
    allow_users: Logins = []
    limits: LimitsOf = LimitsOf()
    user_limits: LimitsOf = LimitsOf()

    @model_validator(mode="after")
    def _default_within_limit(self) -> Partition:
        if self.default_time is not None and self.max_time is not None and self.default_time > self.max_time:
            raise ValueError("default_time is more than max_time")
        return self


class Account(Section):
    shares: Annotated[Whole, Field(ge=1, le=1_000_000)] = 1
    users: Logins = []
    limits: LimitsOf = LimitsOf()

    @model_validator(mode="after")
    def _has_users(self) -> Account:
        if not self.users:
            raise ValueError("has no users: [ann, bob]")
        return self


class Networking(Section):
    heartbeat_interval: Seconds = 30.0
    timeout: Seconds = 60.0
    login_timeout: Seconds = 30.0
    probe_timeout: Seconds = 45.0
    master_ports: PortRange = PORTS
    preflight: bool = True


class FairShareTimes(Section):
    """`half_life: none` = use does not count; `longest_wait: 0` = in order of submission alone."""

    half_life: SecondsOrNever = 7 * DAY_S
    longest_wait: Age = 28 * DAY_S


class Scheduling(Section):
    default_policy: Policy = "fill_first"
    backfill: Literal["easy", "skip", "none"] = "easy"
    fair_share: FairShareTimes = FairShareTimes()
    user_limits: LimitsOf = LimitsOf()


class Retries(Section):
    max: Count = 5
    requeues: Count = 20
    backoff: Seconds = 10.0
    backoff_max: Seconds = 600.0


class Health(NodeHealth):
    unhealthy_after: Annotated[Whole, Field(ge=1)] = 3


class Output(Section):
    max_size: SizeBytes = OUTPUT_MAX


class Ship(Section):
    max_size: SizeBytes = SHIP_MAX


class Notices(Section):
    command: Words = ()
    events: Events = DEFAULT_EVENTS
    timeout: Seconds = 30.0
    retries: Count = 3

    @model_validator(mode="after")
    def _has_command(self) -> Notices:
        if not self.command:
            raise ValueError("has no command: [/usr/local/bin/tell]")
        return self


class Retention(Section):
    jobs: SecondsOrNever = inf
    output: SecondsOrNever = inf
    samples: SamplesS = COARSE_KEPT_S


class Idle(Section):
    """A job that holds GPUs and does nothing with them; `after: never` = nobody is told."""

    after: SecondsOrNever = IdleRule().after_s
    below: Annotated[Whole, Field(ge=1, le=100)] = IdleRule().below


class Log(Section):
    format: Literal["text", "json"] = "text"


class Settings(Section):
    """All of cluster_config.yaml but `defaults` and `nodes`, which are read one by one."""

    cluster: Cluster = Cluster()
    master: Master = Master()
    inventory: LocalPath | None = None
    defaults: Any = None
    nodes: Any = None
    partitions: dict[Name, Partition] | None = None
    accounts: dict[Name, Account] = {}
    admins: Logins = []
    users: Users = {}
    privacy: Privacy = "full"
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


class InventoryFile(Section):
    defaults: Any = None
    nodes: Any = None
