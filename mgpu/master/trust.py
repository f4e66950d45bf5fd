"""Host keys that the operator takes as a node's own: asked for, compared, written into our own known_hosts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from mgpu.clock import Clock
from mgpu.config.model import Config, NodeConfig
from mgpu.config.sshconfig import SshTarget, resolve
from mgpu.core.errors import NotAllowed, RequestError, StoreError
from mgpu.core.lifecycle.milestones import WHO
from mgpu.core.model import Audit, NodeName
from mgpu.master.entering import KNOWN_HOSTS
from mgpu.master.links import Links
from mgpu.ops.context import HostKey, HostKeys
from mgpu.remote import hostkeys
from mgpu.remote.connect import LoginLimits
from mgpu.remote.scan import scan_host_keys
from mgpu.store.store import Store


class Trust:
    """Of the inventory's nodes; `trusted` is told which one's keys are from now on. Any thread."""

    def __init__(
        self, links: Links, store: Store, config: Config, clock: Clock, trusted: Callable[[NodeName], None]
    ) -> None:
        self._links = links
        self._store = store
        self._limits = LoginLimits(config.login_timeout_s)
        self._clock = clock
        self._trusted = trusted
        self._own_known_hosts = store.path.parent / KNOWN_HOSTS

    def shown(self, name: NodeName) -> HostKeys:
        """Raises MgpuError."""
        return host_keys(self._links.named(name).config, self._own_known_hosts, self._limits)

    def take(self, name: NodeName, lines: Sequence[str]) -> int:
        """How many of these are new. Raises MgpuError."""
        added = add(self._links.named(name).config, self._own_known_hosts, lines)
        with self._store.write() as writer:
            writer.audit(Audit(self._clock.now(), WHO, "host key trusted", None, name, f"{added} new"))
        self._trusted(name)
        return added


def host_keys(node: NodeConfig, own_known_hosts: Path, limits: LoginLimits) -> HostKeys:
    """Asks the node. Raises RemoteError."""
    target = _target(node)
    name = _name(target)
    shown = scan_host_keys(target, own_known_hosts, limits)
    known = hostkeys.load((own_known_hosts, *target.known_hosts), name)
    revoked = [key for key in shown if key in known.revoked]
    shown = [key for key in shown if key not in revoked]
    if revoked and not shown:
        raise NotAllowed(
            f"the host key of {name} is revoked ({hostkeys.fingerprint(revoked[0])}): it is never trusted",
            "a line @revoked of known_hosts says so: the node needs a new key",
        )
    if not known.keys:
        status = "new"
    else:
        on_file = {key.asbytes() for key in known.keys}
        status = "same" if any(key.asbytes() in on_file for key in shown) else "changed"
    entries = tuple(_entries(shown, name)), tuple(_entries(known.keys, name))
    return HostKeys(target.host, *entries, status, known.removal())


def _entries(keys: Iterable[hostkeys.Key], name: str) -> list[HostKey]:
    return [
        HostKey(key.get_name(), hostkeys.fingerprint(key), f"{name} {key.get_name()} {key.get_base64()}")
        for key in keys
    ]


def add(node: NodeConfig, own_known_hosts: Path, lines: Sequence[str]) -> int:
    """Lines as `host_keys` gave them. A changed key is never taken: the old line has to be removed by hand first."""
    target = _target(node)
    name = _name(target)
    known = hostkeys.load((own_known_hosts, *target.known_hosts), name)
    fresh = []
    for line in lines:
        key = hostkeys.parse(line, name)
        if key is None:
            raise RequestError(f"not a host key of {name}: {line[:80]}")
        if key in known.revoked:
            raise NotAllowed(f"this host key of {name} is revoked ({hostkeys.fingerprint(key)})")
        if any(other.get_name() == key.get_name() and other != key for other in known.keys):
            raise RequestError(
                f"another {key.get_name()} key of {name} is on file: it is never replaced",
                f"if the node really has a new key, remove the old line: {known.removal()}",
            )
        if key not in known.keys:
            fresh.append(line.strip())
    if fresh:
        _append(own_known_hosts, "".join(f"{line}\n" for line in fresh))
    return len(fresh)


def _append(own_known_hosts: Path, lines: str) -> None:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe there is not waited for
    try:
        with os.fdopen(os.open(own_known_hosts, flags, 0o600), "a", encoding="ascii") as file:
            file.write(lines)
    except OSError as error:
        raise StoreError(
            f"the host key cannot be written to {own_known_hosts}: {error.strerror}", "mend that, and trust it again"
        ) from error


def _target(node: NodeConfig) -> SshTarget:
    if node.connection != "ssh":
        raise RequestError(f"{node.name} is this machine itself: it has no host key to trust")
    return resolve(node.ssh)


def _name(target: SshTarget) -> str:
    return target.host_key_alias or hostkeys.lookup_name(target.host, target.port)
