"""How the accounts of the inventory's nodes are entered: mgpu's own, and those of submitters."""

from __future__ import annotations

import os
import pwd
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from mgpu import clock
from mgpu.config.model import Config, NodeConfig
from mgpu.config.sshconfig import SshTarget, resolve
from mgpu.core.errors import ConfigError
from mgpu.core.model import NodeName
from mgpu.master.inbox import Inbox
from mgpu.master.link import NodeLink
from mgpu.master.links import Links
from mgpu.master.worker import SystemThreads
from mgpu.remote.channel import Connection, LocalConnection
from mgpu.remote.connect import LoginLimits, connect
from mgpu.remote.errors import RemoteError, Trouble
from mgpu.remote.ownkey import OwnKey
from mgpu.remote.runner import ShellRunner
from mgpu.remote.session import SPARE_SHELLS, NodeSession
from mgpu.remote.wire import encode

MANY_NODES, SPARE_OF_MANY = 32, 1  # of more nodes, each has so many shells that are kept warm: they cost memory here
SPARE_OF_ACCOUNTS = 1  # kept warm in each account of submitters: there may be many
LOGINS_A_NODE = 4  # at once, of all accounts: its sshd drops some from the tenth on that has not come in yet
KNOWN_HOSTS = "known_hosts"  # our own, beside the database: what `mgpu node trust` has taken


@dataclass(frozen=True, slots=True)
class Entering:
    config: Config
    database_id: str
    state_dir: Path

    def links(self, inbox: Inbox) -> Links:
        nodes = {node.name: node for node in self.config.nodes}
        sessions = {name: self._session(node) for name, node in nodes.items()}
        own = {name: self._own(node, sessions[name], inbox) for name, node in nodes.items()}

        turns = {name: threading.BoundedSemaphore(LOGINS_A_NODE) for name in nodes}

        def make(name: NodeName, account: str) -> NodeLink:
            session = self._session_as(nodes[name], account, sessions[name], turns[name])
            return self._link(nodes[name], account, (account,), session, inbox)

        return Links(own, make, self._key.public, inbox.wake)

    def _own(self, node: NodeConfig, session: NodeSession, inbox: Inbox) -> NodeLink:
        if node.connection == "ssh":
            account = node.ssh.user or ""
            return self._link(node, account, (account, ""), session, inbox)
        account, *older = _own_names()
        return self._link(node, account, (account, "", *older), session, inbox)

    def _link(
        self, node: NodeConfig, account: str, whose: tuple[str, ...], session: NodeSession, inbox: Inbox
    ) -> NodeLink:
        runner = ShellRunner(session)
        link = NodeLink(node, account, runner, self.config.probe_timeout_s, inbox, SystemThreads(), clock)
        link.whose = whose
        return link

    @property
    def _key(self) -> OwnKey:
        return OwnKey(self.state_dir)

    # --- ways in ----------------------------------------------------------------------------------------------------

    def _session(self, node: NodeConfig) -> NodeSession:
        def login() -> Connection:
            return self._login(node, lambda: resolve(node.ssh))

        connect = LocalConnection if node.connection == "local" else login
        spare = SPARE_OF_MANY if len(self.config.nodes) > MANY_NODES else SPARE_SHELLS
        return NodeSession(connect, self._root(node), *self._limits, spare=spare)

    def _session_as(
        self, node: NodeConfig, account: str, own: NodeSession, turns: threading.BoundedSemaphore
    ) -> NodeSession:
        """There is no login on this machine itself, so there it is sudo always."""
        root = self._root(node, account)
        if node.connection == "local" or self.config.via == "sudo":
            return NodeSession(own.connections, root, *self._limits, sudo_user=account, spare=SPARE_OF_ACCOUNTS)

        def login() -> Connection:
            with turns:
                return self._login(node, lambda: self._target_as(node, account))

        return NodeSession(login, root, *self._limits, spare=SPARE_OF_ACCOUNTS)

    def _root(self, node: NodeConfig, account: str = "") -> tuple[str, ...]:
        """Where an account keeps its files. A place that is not in its home has a folder for each, and nobody may have
        put another in its place."""
        if account and node.run_dir.startswith("/"):
            return self.database_id, node.name, encode(f"{node.run_dir}/{account}"), "own"
        return self.database_id, node.name, encode(node.run_dir)

    @property
    def _limits(self) -> tuple[float, float]:
        return self.config.login_timeout_s, self.config.timeout_s

    def _target_as(self, node: NodeConfig, account: str) -> SshTarget:
        """By the master's own key and no other. What was started before all jobs came under mgpu's own login, or before
        that was changed, is looked after by whatever key was good for it."""
        target = resolve(replace(node.ssh, user=account))
        if self.config.run_as == "service":
            return replace(target, identity_files=(*self._key.there(), *target.identity_files))
        if account == resolve(node.ssh).user and not self.config.logins.names(account):
            why = f"{account} is mgpu's own login on {node.name}: `users` has to name it to give it to somebody"
            raise RemoteError(why, Trouble.UNPREPARED)
        return replace(target, identity_files=(self._key.file(),), identities_only=True, identity_agent="none")

    def _login(self, node: NodeConfig, find: Callable[[], SshTarget]) -> Connection:
        try:
            target = find()  # each time: the user may just have mended the ssh_config
        except ConfigError as error:
            raise RemoteError(error.message, Trouble.UNPREPARED) from error
        return connect(target, node.name, self.state_dir / KNOWN_HOSTS, LoginLimits(*self._limits))


def _own_names() -> list[str]:
    """Who we are by our uid, and by the environment, which may name another: older masters have stored that."""
    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # as in containers
        name = str(os.geteuid())
    return [name, *filter(None, map(os.environ.get, ("LOGNAME", "USER", "LNAME", "USERNAME")))]
