"""The inventory's nodes as links: how each is logged in to."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from pathlib import Path

from mgpu import clock
from mgpu.config.model import Config, NodeConfig
from mgpu.config.sshconfig import resolve
from mgpu.core.errors import ConfigError
from mgpu.core.model import NodeName
from mgpu.master.inbox import Inbox
from mgpu.master.link import NodeLink
from mgpu.master.worker import SystemThreads
from mgpu.remote.channel import Connection, LocalConnection
from mgpu.remote.connect import LoginLimits, connect
from mgpu.remote.errors import RemoteError, Trouble
from mgpu.remote.runner import ShellRunner
from mgpu.remote.session import NodeSession
from mgpu.remote.wire import encode


def make_links(config: Config, database_id: str, own_known_hosts: Path) -> Callable[[Inbox], dict[NodeName, NodeLink]]:
    def make(inbox: Inbox) -> dict[NodeName, NodeLink]:
        return {node.name: _link(config, node, database_id, own_known_hosts, inbox) for node in config.nodes}

    return make


def _link(config: Config, node: NodeConfig, database_id: str, own_known_hosts: Path, inbox: Inbox) -> NodeLink:
    root = (database_id, node.name, encode(node.run_dir))
    session = NodeSession(_connector(config, node, own_known_hosts), root, config.login_timeout_s, config.timeout_s)
    account = node.ssh.user or ("" if node.connection == "ssh" else getpass.getuser())
    runner = ShellRunner(session)
    return NodeLink(node, account, runner, config.probe_timeout_s, inbox, SystemThreads(), clock)


def _connector(config: Config, node: NodeConfig, own_known_hosts: Path) -> Callable[[], Connection]:
    if node.connection == "local":
        return LocalConnection
    limits = LoginLimits(config.login_timeout_s, config.timeout_s)

    def login() -> Connection:
        try:
            target = resolve(node.ssh)  # each time: the user may just have mended the ssh_config
        except ConfigError as error:
            raise RemoteError(error.message, Trouble.AUTHENTICATION) from error
        return connect(target, node.name, own_known_hosts, limits)

    return login
