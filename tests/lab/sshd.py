"""Keys and configuration files of ssh, for the nodes and for those who log in."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.lab.node import LabError, Node

SFTP_SERVERS = ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/lib/ssh/sftp-server")


def find_sshd() -> str:
    found = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin:/usr/bin")
    if found is None:
        raise LabError("sshd is missing; install it: apt-get install openssh-server")
    return found


def make_keys(files: Sequence[Path]) -> None:
    """Makes ed25519 keys, all at once."""
    running = [
        subprocess.Popen(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", str(file)],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for file in files
    ]
    for process in running:
        _, trouble = process.communicate()
        if process.returncode:
            raise LabError(f"ssh-keygen: {trouble.strip()}")


def server_configuration(
    *, address: str, port: int, host_key: str, authorized_keys: str, pid_file: str, max_sessions: int, max_startups: str
) -> str:
    """The lines that both kinds of lab share."""
    sftp = next((path for path in SFTP_SERVERS if Path(path).exists()), "internal-sftp")
    return f"""\
ListenAddress {address}
Port {port}
HostKey {host_key}
AuthorizedKeysFile {authorized_keys}
PidFile {pid_file}
MaxSessions {max_sessions}
MaxStartups {max_startups}
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UsePAM no
PrintMotd no
PrintLastLog no
UseDNS no
AcceptEnv LANG LC_*
Subsystem sftp {sftp}
"""


def known_hosts(nodes: Sequence[Node], host_key: str) -> str:
    """Lines for `known_hosts`; `host_key` is the name of the public key's file in a node's folder."""
    lines = []
    for node in nodes:
        name = node.address if node.port == 22 else f"[{node.address}]:{node.port}"
        kind, key = (node.folder / host_key).read_text().split()[:2]
        lines.append(f"{name} {kind} {key}\n")
    return "".join(lines)


def client_configuration(folder: Path, nodes: Sequence[Node]) -> str:
    """An ssh_config for people: `ssh -F ssh_config node001`."""
    parts = [f"Host {node.name}\n  HostName {node.address}\n  Port {node.port}\n  User {node.user}\n" for node in nodes]
    return (
        "".join(parts)
        + f"""Host *
  IdentityFile {folder}/id_ed25519
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  BatchMode yes
  LogLevel ERROR
"""
    )
