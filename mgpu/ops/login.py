"""How a person gets to the node where a job runs: as the master does, in words for the person's own ssh."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mgpu.config.model import NodeConfig, SshSettings
from mgpu.config.sshconfig import SshTarget, resolve
from mgpu.core.errors import ConfigError
from mgpu.core.model import Part
from mgpu.ops.context import Context
from mgpu.ops.render import Json

MOST = 8  # of the nodes of one job: for each, ssh is asked


def logins(context: Context, parts: Iterable[Part]) -> list[Json]:
    """Of the first nodes of a job, those that are known."""
    known = {node.name: node for node in context.config.nodes}
    found = [(part, known[part.node]) for part in list(parts)[:MOST] if part.node in known]
    return [{"rank": part.rank, **login(_of(context, part, node))} for part, node in found]


def _of(context: Context, part: Part, node: NodeConfig) -> NodeConfig:
    return under(node, part.account) if context.config.run_as == "submitter" else node


def under(node: NodeConfig, account: str) -> NodeConfig:
    """As somebody logs in there who has that account: the keys and known hosts of the inventory are the master's."""
    return replace(node, ssh=replace(node.ssh, user=account or node.ssh.user, identity_file=None, known_hosts=None))


def login(node: NodeConfig) -> Json:
    """`here`: the words behind `ssh`, on the master's machine ([] = it is that machine). `there`: what they come to,
    for an ssh elsewhere, which has other settings; None = a program on this machine has a part in it."""
    if node.connection == "local":
        return {"node": node.name, "here": [], "there": None}
    try:
        target = resolve(node.ssh)
    except ConfigError:  # told where it matters: nothing can be started there
        return {"node": node.name, "here": here(node.ssh), "there": None}
    chain = (*target.hops, target)
    outside = any(hop.proxy_command for hop in chain)
    return {"node": node.name, "here": here(node.ssh), "there": None if outside else [place(hop) for hop in chain]}


def here(settings: SshSettings) -> list[str]:
    """Only what the inventory says: the rest is in this machine's ssh_config."""
    words = []
    if settings.port is not None:
        words += ["-p", str(settings.port)]
    if settings.user is not None:
        words += ["-l", settings.user]
    if settings.identity_file is not None:
        words += ["-i", str(settings.identity_file)]
    if settings.known_hosts is not None:
        words += ["-o", f"UserKnownHostsFile={settings.known_hosts}"]
    if settings.name and settings.name != settings.host:
        words += ["-o", f"HostName={settings.host}"]
    if settings.proxy_jump is not None:
        words += ["-J", settings.proxy_jump]
    return [*words, settings.name or settings.host]


def place(target: SshTarget) -> Json:
    return {"host": target.host, "port": target.port, "user": target.user}
