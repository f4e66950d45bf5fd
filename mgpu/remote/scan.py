"""The host keys that a node shows, on the way by which it is logged in on."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import paramiko

from mgpu.config.sshconfig import SshTarget
from mgpu.remote.connect import LoginLimits, log_in, open_socket
from mgpu.remote.errors import RemoteError
from mgpu.remote.proxy import Proxy

KEY_TYPES = ("ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512")


def scan_host_keys(target: SshTarget, own_known_hosts: Path, limits: LoginLimits) -> list[paramiko.PKey]:
    """One a type that the node has; to itself nothing is sent but the key exchange. Raises RemoteError."""
    if not target.hops:
        return _shown_keys(target, limits, None)
    with contextlib.closing(log_in(target.hops, "", own_known_hosts, limits, None)) as chain:
        return _shown_keys(target, limits, chain.transport)


def _shown_keys(target: SshTarget, limits: LoginLimits, through: paramiko.Transport | None) -> list[paramiko.PKey]:
    found: list[paramiko.PKey] = []
    for key_type in KEY_TYPES:
        with _way(target, limits, through) as way, contextlib.closing(paramiko.Transport(way)) as transport:
            transport.daemon = True
            transport.banner_timeout = limits.login_s
            transport.get_security_options().key_types = [key_type]
            try:
                transport.start_client(timeout=limits.login_s)
            except (paramiko.SSHException, OSError, EOFError) as error:
                if "host key" in str(error).lower() or found:
                    continue  # the node has no key of this type
                raise RemoteError(f"no key exchange with {target.host} port {target.port}: {error}") from error
            found.append(transport.get_remote_server_key())
    return found


@contextlib.contextmanager
def _way(
    target: SshTarget, limits: LoginLimits, through: paramiko.Transport | None
) -> Iterator[socket.socket | paramiko.Channel]:
    if through is not None:
        where = f"{target.host} port {target.port}"
        try:
            channel = through.open_channel("direct-tcpip", (target.host, target.port), ("", 0), int(limits.login_s))
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise RemoteError(f"the jump host has no way to {where}: {error}") from error
        yield channel
    elif target.proxy_command:
        with contextlib.closing(Proxy(target.proxy_command)) as proxy:
            yield proxy.sock
    else:
        with open_socket(target, limits) as ours:
            yield ours
