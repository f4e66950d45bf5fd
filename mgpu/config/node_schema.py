"""The keys of a node: of `nodes:`, and of `defaults:` here and in inventory files. What stands below a key is what it
means: scripts/pages puts it into docs/configuration.md."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from mgpu.config.section import Section
from mgpu.config.values import (
    Count,
    Environment,
    Jump,
    KeyFile,
    LocalPath,
    Login,
    Maintenance,
    Names,
    Port,
    Program,
    RemotePath,
    Seconds,
    SizeBytes,
)
from mgpu.core.plan import DESKTOP


class Ssh(Section):
    port: Port | None = None
    """Of sshd there. Default: ssh_config."""
    user: Login | None = None
    """The account there. Default: ssh_config."""
    identity_file: KeyFile | None = None
    """A private key, or its name where `FILE.pub` lies and an agent has it; takes the place of those in ssh_config.
    Default: ssh_config."""
    known_hosts: LocalPath | None = None
    """Takes the place of UserKnownHostsFile. Default: ssh_config."""
    proxy_jump: Jump | None = None
    """`user@host:port`, several with commas; `none` = direct ([jump hosts](jump-hosts.md)). Default: ssh_config."""


class Network(Section):
    address: str = ""
    """The numeric address where the other nodes of a job reach this one ([how it is found](preflight.md)). Default:
    found."""
    interface: str = ""
    """NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME of jobs on several nodes; `mgpu preflight` checks that it is
    there."""


class External(Section):
    policy: Literal["avoid", "ignore"] = "avoid"
    """A GPU with a process that mgpu did not start: `avoid` it, or `ignore` such processes."""
    ignore: list[str] = list(DESKTOP)
    """Commands that never count; without it: Xorg, Xwayland, gnome-shell, kwin_x11, kwin_wayland, plasmashell,
    sddm-greeter, xfwm4, cinnamon. Default: a desktop's."""
    memory_threshold_mib: Count = 0
    """Processes that are known to use less do not count."""


class NodeHealth(Section):
    check: str = ""
    """A shell line of yours that each probe runs on the node: while it fails, or takes longer, nothing starts
    there, and its first line says why."""
    check_timeout: Seconds = 10.0
    """So long it may take."""


class NodeDefaults(Section):
    """What `defaults:` may hold: all of a node but its identity."""

    connection: Literal["ssh", "local"] = "ssh"
    """`local`: this machine, without SSH."""
    ssh: Ssh = Ssh()
    gpu_count: Count | None = None
    """How many GPUs should be there: fewer seen = degraded. Default: as seen."""
    devices: Annotated[list[Count], Field(min_length=1)] | None = None
    """Only these GPUs, by index, belong to mgpu. Default: all."""
    gpu_type: str = ""
    """For `--gpu-type`, e.g. `A100`. Default: by name."""
    gpu_memory: SizeBytes | None = None
    """Of each GPU that does not tell (unified memory), e.g. `120G`: for `--gpu-mem`. Default: as seen."""
    cpus: Count | None = None
    """How many cores jobs may have ([scheduling](scheduling.md)). Default: as seen."""
    host_memory: SizeBytes | None = None
    """How much memory jobs may have, e.g. `200G`. Default: as seen."""
    partition: Names = []
    """A name, several with commas, or a list."""
    switch: str = ""
    """Nodes of one switch are near each other: a job of several nodes gets those if it can."""
    network: Network = Network()
    external: External = External()
    """For this node. Default: as above."""
    health: NodeHealth = NodeHealth()
    maintenance: Maintenance = []
    """Windows of this node, on top of those of all."""
    nvidia_smi: Program = ""
    """Full path on the node. Default: from PATH."""
    workdir: RemotePath = ""
    """Where jobs start that do not say `-D`; on the node, from `/` or `~/`."""
    run_dir: RemotePath = ""
    """Where mgpu keeps its files on the node, from `/` or `~/`. Default: `~/.mgpu`."""
    login_shell: bool = False
    """Jobs read what a login reads (`/etc/profile`, `~/.bash_profile`, ...) before `setup`."""
    setup: str = ""
    """A shell line before each job ([environments](environments.md))."""
    env: Environment = {}
    """Variables for each job."""


class NodeEntry(NodeDefaults):
    """node_id, hostname, ip and network.address may be hostlists that run in step. That node_id is missing is told
    with the ranges: an entry without it is checked all the same."""

    node_id: str = ""
    """The name in mgpu: letters, digits and `. _ -`; unique over all files. Default: required."""
    hostname: str = ""
    """The name that ssh is asked for, so `Host` blocks of your ssh_config apply. Default: `node_id`."""
    ip: str = ""
    """The address to connect to, when it is not what ssh would take."""
