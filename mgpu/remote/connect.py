"""Logging in: from a resolved target to a connection whose host key was checked.

fabric makes the connections (its gateways chain the jump hosts); what it leaves out is set here: TCP_NODELAY (47 ms
against 2.7 ms a command), TCP_USER_TIMEOUT (a dead peer is noticed), AES-GCM first (half the time for bulk), a timeout
on everything, strict host keys, and keys tried in OpenSSH's order.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import fabric
import paramiko
from paramiko.agent import AgentSSH
from paramiko.auth_strategy import AuthFailure, AuthSource, AuthStrategy, InMemoryPrivateKey

from mgpu.config.sshconfig import SshTarget
from mgpu.remote import hostkeys
from mgpu.remote.channel import Login, SshConnection, wake_reader
from mgpu.remote.errors import RemoteError, Trouble
from mgpu.remote.gateways import Gateways
from mgpu.remote.proxy import Proxy

# so often paramiko's thread of a connection sees whether it has to show a sign of life. By itself ten times a second,
# which for a hundred idle nodes was most of what the master did
WAKE_S = 2.0

# at once, over all nodes: each is work for us. Who cannot be reached takes no place: there may be many of them
_HANDSHAKES = threading.BoundedSemaphore(16)

# its threads log what we raise anyway
logging.getLogger("paramiko").setLevel(logging.CRITICAL)


@dataclass(frozen=True, slots=True)
class LoginLimits:
    """`login_s` for the whole login, `dead_peer_s` until silence counts as a lost link."""

    login_s: float = 30.0
    dead_peer_s: float = 60.0

    @property
    def sign_of_life_s(self) -> int:
        """After so much silence we say something that has to be acknowledged."""
        return max(1, int(self.dead_peer_s / 4))

    @property
    def unheard_s(self) -> float:
        """So long it may go without, so that all in all it is no longer than `dead_peer_s`."""
        return max(1.0, self.dead_peer_s - self.sign_of_life_s - WAKE_S)


@dataclass(frozen=True, slots=True)
class OfferedKeys:
    """What we have for a login. `keys`: fingerprint -> where it comes from, in the order in which they are offered."""

    keys: dict[str, str]
    encrypted: tuple[str, ...]  # files that no agent opens
    unreadable: tuple[str, ...]
    agent: str  # in words


@dataclass(frozen=True, slots=True)
class _Chain:
    """A login with all that it goes through. `sock` is that of the first hop, None behind a gateway; `proxy`: what
    leads to that hop, if it is a ProxyCommand."""

    links: tuple[fabric.Connection, ...]
    sock: socket.socket | None
    proxy: Proxy | None
    logins: tuple[Login, ...]

    @property
    def transport(self) -> paramiko.Transport:
        transport: paramiko.Transport = self.links[-1].client.get_transport()
        return transport

    def alive(self) -> bool:
        return bool(self.transport.is_active())

    def close(self) -> None:
        wake_reader(self.sock)
        for link in reversed(self.links):
            with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
                link.close()
        if self.sock is not None:
            self.sock.close()
        self.end_proxy()

    def end_proxy(self) -> None:
        if self.proxy is not None:
            self.proxy.close()


_gateways: Gateways[object, _Chain] = Gateways(_Chain.alive, _Chain.close)


def connect(target: SshTarget, node: str, own_known_hosts: Path, limits: LoginLimits) -> SshConnection:
    """Raises RemoteError with a reason that says what to do."""
    if not target.hops:
        chain = log_in((target,), node, own_known_hosts, limits, None)
        address = target.host if chain.proxy or chain.sock is None else str(chain.sock.getpeername()[0])
        return SshConnection(
            chain.transport, address, chain.sock, limits.dead_peer_s, chain.logins, release=chain.end_proxy
        )
    gateway, release = _gateways.borrow(
        (target.hops, own_known_hosts), lambda: log_in(target.hops, "", own_known_hosts, limits, None)
    )
    try:
        chain = log_in((target,), node, own_known_hosts, limits, gateway.links[-1])
    except BaseException:
        release()
        raise
    # what is under way to the node is not thrown away with the connection: others use the way there
    logins = (*gateway.logins, *chain.logins)
    return SshConnection(chain.transport, target.host, None, limits.dead_peer_s, logins, release)


def log_in(
    hops: Sequence[SshTarget], node: str, own_known_hosts: Path, limits: LoginLimits, gateway: fabric.Connection | None
) -> _Chain:
    """Through all of them, beginning behind the gateway. `node` "": jump hosts, which are none of our nodes."""
    links: list[fabric.Connection] = []
    sock: socket.socket | None = None
    proxy: Proxy | None = None
    logins: list[Login] = []
    try:
        for hop in hops:
            above = links[-1] if links else gateway
            if above is None:
                proxy = Proxy(hop.proxy_command) if hop.proxy_command else None
                sock = proxy.sock if proxy else open_socket(hop, limits)
            links.append(_connection(hop, node, own_known_hosts, limits, above, sock if above is None else None))
            with _HANDSHAKES:
                _open(links[-1], hop)
            transport = links[-1].client.get_transport()
            transport.sock.settimeout(WAKE_S)
            shown = transport.get_remote_server_key()
            accepted = links[-1].connect_kwargs["auth_strategy"].last
            logins.append(Login(f"{shown.get_name()} {hostkeys.fingerprint(shown)}", accepted))
    except BaseException:
        _Chain(tuple(links), sock, proxy, ()).close()
        raise
    # as long as the transport lives, so does all that it goes through
    links[-1].client.get_transport().mgpu_links = links
    return _Chain(tuple(links), sock, proxy, tuple(logins))


def keys_to_offer(hop: SshTarget) -> OfferedKeys:
    """What a login there would try, without one."""
    strategy = _Keys(hop)
    try:
        for _ in strategy.get_sources():
            pass
    finally:
        strategy.close()
    return OfferedKeys(strategy.origins, tuple(strategy.encrypted), tuple(strategy.unreadable), strategy.agent)


def open_socket(hop: SshTarget, limits: LoginLimits) -> socket.socket:
    where = f"{hop.host} port {hop.port}"
    try:
        sock = socket.create_connection((hop.host, hop.port), timeout=limits.login_s)
    except socket.gaierror as error:
        raise RemoteError(f"unknown host name {hop.host}") from error
    except TimeoutError as error:
        raise RemoteError(f"connection to {where} timed out") from error
    except ConnectionRefusedError as error:
        raise RemoteError(f"connection to {where} refused: is sshd running there?") from error
    except OSError as error:
        raise RemoteError(f"cannot connect to {where}: {error.strerror or error}") from error
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(limits.unheard_s * 1000))
    return sock


def _connection(
    hop: SshTarget,
    node: str,
    own_known_hosts: Path,
    limits: LoginLimits,
    gateway: fabric.Connection | None,
    sock: socket.socket | None,
) -> fabric.Connection:
    name = hop.host_key_alias or hostkeys.lookup_name(hop.host, hop.port)
    known = hostkeys.load((own_known_hosts, *hop.known_hosts), name)
    options: dict[str, Any] = {
        "auth_strategy": _Keys(hop),
        "banner_timeout": limits.login_s,
        "auth_timeout": limits.login_s,
        "channel_timeout": limits.login_s,
        "timeout": limits.login_s,
        "transport_factory": _transport_factory(known, limits),
    }
    if sock is not None:
        options["sock"] = sock
    link = fabric.Connection(
        hop.host,
        user=hop.user,
        port=hop.port,
        gateway=gateway,
        connect_kwargs=options,
        config=_no_config(),
    )
    asks = f"mgpu node trust {node}" if node else hostkeys.by_ssh(hop.host, hop.port, hop.host_key_alias)
    link.client.set_missing_host_key_policy(_Strict(known, name, asks))
    return link


@cache
def _no_config() -> fabric.Config:
    """The user's ssh_config was read by OpenSSH itself. One for all connections: it is dozens of dictionaries."""
    return fabric.Config(ssh_config=paramiko.SSHConfig())


class _Strict(paramiko.MissingHostKeyPolicy):
    """paramiko's own store stays empty, so that every key comes here."""

    def __init__(self, known: hostkeys.KnownKeys, name: str, asks: str) -> None:
        self._known, self._name, self._asks = known, name, asks

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        hostkeys.check(self._known, key, self._name, self._asks)


def _transport_factory(known: hostkeys.KnownKeys, limits: LoginLimits) -> Any:
    def make(sock: Any, **options: Any) -> paramiko.Transport:
        transport = paramiko.Transport(sock, **options)
        offered = transport.get_security_options()
        offered.ciphers = sorted(offered.ciphers, key=lambda name: "gcm" not in name)
        on_file = known.types()
        if on_file:
            # ask for a key type that can be checked
            offered.key_types = sorted(offered.key_types, key=lambda name: _base_type(name) not in on_file)
        transport.set_keepalive(limits.sign_of_life_s)
        transport.daemon = True
        return transport

    return make


def _base_type(name: str) -> str:
    return "ssh-rsa" if name.startswith("rsa-sha2") else name


class _Keys(AuthStrategy):
    """Identity files first, then the agent's other keys unless IdentitiesOnly; an encrypted file serves when the agent
    holds its key. Nothing ever prompts."""

    def __init__(self, hop: SshTarget) -> None:
        super().__init__(ssh_config=paramiko.SSHConfig())
        self._hop = hop
        self._agent: _Agent | None = None
        self.encrypted: list[str] = []
        self.unreadable: list[str] = []
        self.offered = 0
        self.origins: dict[str, str] = {}  # fingerprint -> where the key comes from
        self.last = ""  # the one that was offered last: after a login, the one that was accepted
        self.agent = "no agent ($SSH_AUTH_SOCK is not set)"

    def get_sources(self) -> Iterator[AuthSource]:
        agent = self._agent_keys()
        used: set[bytes] = set()
        for path in self._hop.identity_files:
            key = self._load(path, agent)
            if key is not None and key.asbytes() not in used:
                used.add(key.asbytes())
                yield self._offer(key, str(path))
        if not self._hop.identities_only:
            for blob, key in agent.items():
                if blob not in used:
                    yield self._offer(key, f"the agent's {getattr(key, 'comment', '') or key.get_name()}")

    def _offer(self, key: paramiko.PKey, origin: str) -> AuthSource:
        self.offered += 1
        self.last = hostkeys.fingerprint(key)
        self.origins[self.last] = origin
        return InMemoryPrivateKey(self._hop.user, key)

    def _agent_keys(self) -> dict[bytes, paramiko.PKey]:
        place = self._hop.identity_agent or os.environ.get("SSH_AUTH_SOCK", "")
        if place in ("", "none"):
            if self._hop.identity_agent:
                self.agent = "no agent (IdentityAgent says so)"
            return {}
        try:
            self._agent = _Agent(place)
            found: dict[bytes, paramiko.PKey] = {key.asbytes(): key for key in self._agent.get_keys()}
        except (paramiko.SSHException, OSError) as error:
            self.agent = f"the agent at {place} does not answer ({error})"
            return {}
        self.agent = f"agent with {len(found)} key{'s' * (len(found) != 1)}"
        return found

    def close(self) -> None:
        """Once logged in, or not: the agent is not asked any more."""
        if self._agent is not None:
            self._agent.close()

    def _load(self, path: Path, agent: dict[bytes, paramiko.PKey]) -> paramiko.PKey | None:
        if not path.exists():
            return None
        try:
            return paramiko.PKey.from_path(path)
        except (paramiko.PasswordRequiredException, TypeError):
            with contextlib.suppress(OSError, IndexError, ValueError, paramiko.SSHException):
                blob = paramiko.pkey.PublicBlob.from_file(f"{path}.pub").key_blob
                if blob in agent:
                    return agent[blob]
            self.encrypted.append(str(path))
        except (OSError, ValueError, paramiko.SSHException) as error:
            self.unreadable.append(f"{path}: {error}")
        return None

    def why_not(self) -> str:
        if self.encrypted and not self.offered:
            return f"key {self.encrypted[0]} is encrypted and no agent holds it: run ssh-add {self.encrypted[0]}"
        if self.unreadable and not self.offered:
            return f"key cannot be read: {self.unreadable[0]}"
        if not self.offered:
            files = ", ".join(map(str, self._hop.identity_files)) or "none configured"
            return f"no key to offer (looked at {files}); set ssh: identity_file or start an agent"
        return f"{self.offered} key{'s' * (self.offered != 1)} offered, none accepted for {self._hop.user}"


class _Agent(AgentSSH):
    """An ssh-agent by its socket: paramiko's own class knows no other than $SSH_AUTH_SOCK."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(5.0)
        try:
            self._socket.connect(path)
        except OSError:
            self.close()
            raise
        self._connect(self._socket)  # type: ignore[attr-defined]  # the stubs leave it out

    def close(self) -> None:
        self._socket.close()


def _open(link: fabric.Connection, hop: SshTarget) -> None:
    where = f"{hop.host} port {hop.port}"
    try:
        link.open()
    except AuthFailure as error:
        strategy = error.result.strategy
        text = strategy.why_not() if isinstance(strategy, _Keys) else str(error)
        # sshd hangs up after so many wrong keys; what it says then does not reach us
        hung_up = next((number for number, item in enumerate(error.result, 1) if "EOF" in str(item.result)), 0)
        if hung_up == 1:
            raise RemoteError(f"connection to {where} lost while logging in") from error
        if hung_up:
            offered = f"{hung_up} of {len(error.result)} keys offered"
            text = f"too many authentication failures, {offered}: name the right one with ssh: identity_file"
        raise RemoteError(f"login as {hop.user} on {where} failed: {text}", Trouble.AUTHENTICATION) from error
    except TimeoutError as error:
        raise RemoteError(f"login on {where} timed out") from error
    except paramiko.ChannelException as error:
        raise RemoteError(f"the jump host has no way to {where}: {error.text}") from error
    except paramiko.SSHException as error:
        raise RemoteError(f"login on {where} failed: {error or 'connection closed'}") from error
    except (OSError, EOFError) as error:
        raise RemoteError(f"connection to {where} lost while logging in: {error or 'closed'}") from error
    except RuntimeError as error:  # a connection is a thread, and there may be no more of these
        raise RemoteError(f"no login on {where}: {error}") from error
    finally:
        link.connect_kwargs["auth_strategy"].close()
