"""What a configuration says once it is read: frozen, complete (defaults filled in), without a trace of YAML.

Units: durations are seconds, memory MiB.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Literal

from mgpu.core.fairshare import FairShare
from mgpu.core.logins import Logins
from mgpu.core.model import NodeName
from mgpu.core.plan import NO_LIMITS, AccountFacts, Bounds, ExternalPolicy, Limits, NodeFacts, PartitionFacts
from mgpu.core.ports import PORTS
from mgpu.core.usage import COARSE_KEPT_S, IdleRule

Privacy = Literal["full", "names", "none"]

DAY_S = 86_400
OUTPUT_MAX = 10 << 30  # bytes
SHIP_MAX = 100 << 20  # bytes
DEFAULT_EVENTS = ("failed", "node_up", "node_down", "node_drained")


@dataclass(frozen=True, slots=True)
class SshSettings:
    """What the inventory says; None = the user's ssh_config decides.

    `host` is where to connect to, `name` what ssh_config is asked for ("" = `host`): they differ where a node has both
    `hostname` and `ip`.
    """

    host: str
    port: int | None = None
    user: str | None = None
    identity_file: Path | None = None
    known_hosts: Path | None = None
    proxy_jump: str | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """One node of the inventory. Paths are those of the node, "" = not said; `run_dir` "" = `~/.mgpu`."""

    name: NodeName
    connection: Literal["ssh", "local"]
    ssh: SshSettings
    facts: NodeFacts
    external: ExternalPolicy = field(default_factory=ExternalPolicy)
    network_address: str = ""
    network_interface: str = ""
    nvidia_smi: str = ""
    workdir: str = ""
    setup: str = ""
    login_shell: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    run_dir: str = ""
    check: str = ""  # the site's own command that says whether the node is well
    check_timeout_s: float = 10.0


@dataclass(frozen=True, slots=True)
class PartitionConfig(PartitionFacts):
    """`planning_time_s`: how long a job without a time limit is assumed to run when starts are planned ahead."""

    planning_time_s: int = DAY_S


@dataclass(frozen=True, slots=True)
class Listen:
    """Where the master also listens, for clients elsewhere. `certificate` and `key` None = it makes its own."""

    host: str
    port: int
    tls: bool = True
    certificate: Path | None = None
    key: Path | None = None


@dataclass(frozen=True, slots=True)
class Notify:
    """The site's command that is told of `events` (see core.notices), and of what jobs ask for with --mail-type."""

    command: tuple[str, ...]
    events: tuple[str, ...] = DEFAULT_EVENTS
    timeout_s: float = 30.0
    retries: int = 3


@dataclass(frozen=True, slots=True)
class Config:
    """`path` None = no file: this machine is the only node. `idle_exit_s` infinite = a master never exits by itself.
    `shared`: it serves all, or all of `socket_group`. `implied`: no node is written down, so it is this machine."""

    path: Path | None
    nodes: tuple[NodeConfig, ...]
    cluster_name: str = "mgpu"
    state_dir: Path | None = None
    shared: bool = False
    socket_group: str = ""
    idle_exit_s: float = 600.0
    listen: Listen | None = None
    partitions: Mapping[str, PartitionConfig] = field(default_factory=dict)
    accounts: Mapping[str, AccountFacts] = field(default_factory=dict)
    fair_share: FairShare = field(default_factory=FairShare)
    user_limits: Limits = NO_LIMITS
    admins: tuple[str, ...] = ()  # besides root and who runs the master
    privacy: Privacy = "full"  # what others than admins see of jobs that are not theirs
    heartbeat_interval_s: float = 30.0
    timeout_s: float = 60.0
    login_timeout_s: float = 30.0
    probe_timeout_s: float = 45.0
    master_ports: tuple[int, int] = PORTS  # first and last
    preflight: bool = True  # the ways between the nodes of a job are looked at before its first start there
    default_policy: str = "fill_first"
    backfill: str = "easy"
    retries_max: int = 5
    requeues_max: int = 20
    backoff_s: float = 10.0
    backoff_max_s: float = 600.0
    unhealthy_after: int = 3
    output_max: int = OUTPUT_MAX  # bytes kept of each stream of an attempt, 0 = all
    ship_max: int = SHIP_MAX  # bytes of the files of a shipped tree, 0 = any
    keep_jobs_s: float = inf  # of jobs that ended, with their output
    keep_output_s: float = inf
    keep_samples_s: float = COARSE_KEPT_S
    idle: IdleRule = field(default_factory=IdleRule)
    notify: Notify | None = None
    log_format: Literal["text", "json"] = "text"
    external: ExternalPolicy = field(default_factory=ExternalPolicy)
    run_as: Literal["service", "submitter"] = "service"  # under whose account jobs run on the nodes
    via: Literal["login", "sudo"] = "login"  # how the master gets into those of submitters
    logins: Logins = field(default_factory=Logins)  # which these are
    implied: bool = field(default=False, compare=False)
    warnings: tuple[str, ...] = ()
    files: tuple[Path, ...] = field(default=(), compare=False)  # what it was read from, folders too

    @property
    def bounds(self) -> Bounds | None:
        """None = there are no limits."""
        accounts = {name: facts.limits for name, facts in self.accounts.items() if facts.limits}
        pairs = {name: (facts.limits, facts.user_limits) for name, facts in self.partitions.items()}
        found = Bounds(self.user_limits, accounts, {name: pair for name, pair in pairs.items() if any(pair)})
        return found if found.all else None
