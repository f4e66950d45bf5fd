"""One node under examination: what is known of it beforehand, and what the checks learn for those after them."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mgpu import clock
from mgpu.config.model import Config, NodeConfig
from mgpu.config.sshconfig import SshTarget
from mgpu.core.observation import Observation
from mgpu.remote.channel import Channel, Connection, LocalConnection
from mgpu.remote.connect import LoginLimits, OfferedKeys, connect
from mgpu.remote.errors import RemoteError, Trouble
from mgpu.remote.runner import ShellRunner
from mgpu.remote.session import NodeSession
from mgpu.remote.wire import encode

TRIES = 3  # of a login: MaxStartups drops some at random
AGAIN_S = 0.1  # sshd frees a session a little after it has ended
AGAIN = 30
AT_A_DOOR = 8  # of us at once: sshd's MaxStartups lets 10 strangers in, and a jump host is everybody's door

_TURNS: dict[tuple[str, int], threading.BoundedSemaphore] = {}


def turn(hop: SshTarget) -> threading.BoundedSemaphore:
    """To be held while we stand before that sshd and are not let in yet."""
    return _TURNS.setdefault((hop.host, hop.port), threading.BoundedSemaphore(AT_A_DOOR))


class Patient:
    """A connection whose sessions were perhaps all in use just now: those have to be over first."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.address = connection.address

    def open_channel(self, command: str) -> Channel:
        for _ in range(AGAIN):
            try:
                return self._connection.open_channel(command)
            except RemoteError as error:
                if error.trouble is not Trouble.REFUSED:
                    raise
            threading.Event().wait(AGAIN_S)
        return self._connection.open_channel(command)

    @property
    def alive(self) -> bool:
        return self._connection.alive

    def close(self) -> None:
        self._connection.close()


@dataclass(frozen=True, slots=True)
class MasterView:
    """What the running master tells. `node`: its word on this node, None = it does not know it. `agent`: its own
    SSH_AUTH_SOCK, "" = it has none, None = it does not tell. `enter`: has it try to enter the account there under which
    our jobs would run: login, and why it cannot, "" = it can; raises MasterError."""

    node: Mapping[str, Any] | None
    agent: str | None
    enter: Callable[[], tuple[str, str]] | None = None


@dataclass(slots=True)
class Case:
    """`own_known_hosts`: the master's. `master` None = none runs."""

    node: NodeConfig
    config: Config
    own_known_hosts: Path
    master: MasterView | None = None
    target: SshTarget | None = None
    greeting: tuple[bytes, bool] = (b"", False)  # what sshd said first, and whether the connection ended
    connection: Connection | None = None
    refusal: RemoteError | None = None  # why there is none
    login_s: float = 0.0
    offered: list[OfferedKeys] = field(default_factory=list)  # a hop each
    sections: dict[str, tuple[str, list[str]]] = field(default_factory=dict)
    clock_s: tuple[float, float] = (0.0, 0.0)  # ours, before and after the node told its own
    runner: ShellRunner | None = None
    observation: Observation | None = None

    @property
    def local(self) -> bool:
        return self.node.connection == "local"

    @property
    def chain(self) -> tuple[SshTarget, ...]:
        """The jump hosts, then the node."""
        assert self.target is not None  # the first check sees to that
        return (*self.target.hops, self.target)

    @property
    def outermost(self) -> SshTarget:
        return self.chain[0]

    def log_in(self) -> None:
        """Sets `connection` or `refusal`."""
        if self.local:
            self.connection = LocalConnection()
            return
        assert self.target is not None
        limits = LoginLimits(self.config.login_timeout_s, self.config.timeout_s)
        for number in range(TRIES):
            if number:
                threading.Event().wait(random.uniform(0.1, 0.6))
            try:
                with turn(self.outermost):
                    began = clock.monotonic()
                    self.connection = connect(self.target, self.node.name, self.own_known_hosts, limits)
                    self.login_s = clock.monotonic() - began
                self.refusal = None
                break
            except RemoteError as error:
                self.refusal = error
                if "banner" not in error.message and "reset" not in error.message:
                    break

    def ask(self) -> ShellRunner:
        """The node's half on the connection that there is: what the master itself would hear."""
        if self.runner is None:
            assert self.connection is not None
            patient = Patient(self.connection)
            root = ("doctor", self.node.name, encode(self.node.run_dir))
            session = NodeSession(lambda: patient, root, self.config.login_timeout_s, self.config.timeout_s)
            self.runner = ShellRunner(session)
        return self.runner

    def close(self) -> None:
        if self.runner is not None:
            self.runner.close()
        if self.connection is not None:
            with contextlib.suppress(OSError):
                self.connection.close()
