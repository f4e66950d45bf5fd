"""A key of mgpu's own, and its way onto the nodes. OpenSSH logs in and asks for passwords: none of them passes here."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from mgpu.cli.session import bad_request
from mgpu.cli.setup.hosts import Host
from mgpu.config import SshSettings, SshTarget, resolve
from mgpu.core.errors import ConfigError

NAME = "mgpu_ed25519"
IDENTITY_FILE = f"~/.ssh/{NAME}"
CONNECT_TIMEOUT_S = 30
# One word for whatever login shell there is: no quote, no line break, no history sign of csh in it.
# A last line without its end would swallow ours.
INSTALL = (
    'exec sh -c \'umask 077; cd && mkdir -p .ssh && IFS= read -r key && test -n "$key" && f=.ssh/authorized_keys && '
    '{ grep -qxF -e "$key" $f 2>/dev/null || { '
    'test -z "$(tail -c 1 $f 2>/dev/null)" || echo >>$f; printf "%s\\n" "$key" >>$f; } } && '
    "{ restorecon -R .ssh 2>/dev/null || :; }'"
)


def own_key() -> tuple[Path, bool]:
    """The private key's file, and whether it was made just now. Raises MasterError."""
    path = Path(os.path.expanduser(IDENTITY_FILE))
    for program in ("ssh", "ssh-keygen"):
        if shutil.which(program) is None:
            raise bad_request(f"--key needs {program}, which is not here", "install OpenSSH's client, or leave it out")
    public = path.with_name(f"{NAME}.pub")
    try:
        if path.exists() and public.exists():
            return path, False
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.exists():  # its public half can be told from it, if no passphrase is in the way
            public.write_text(_keygen("-y", "-f", str(path)), "ascii")
            return path, False
        with tempfile.TemporaryDirectory(prefix=".mgpu-", dir=path.parent) as folder:
            made = Path(folder) / NAME
            _keygen("-q", "-t", "ed25519", "-N", "", "-C", f"mgpu@{os.uname().nodename}", "-f", str(made))
            made.with_name(public.name).replace(public)
            made.replace(path)
    except OSError as error:
        raise bad_request(f"{error.filename or path}: {error.strerror}", "leave --key out") from error
    return path, True


def _keygen(*words: str) -> str:
    done = subprocess.run(["ssh-keygen", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise bad_request(f"ssh-keygen: {' '.join(done.stderr.split())}", "leave --key out")
    return done.stdout


def install(host: Host, key: Path, own_known_hosts: Path, terminal: bool) -> str:
    """ "" once the key is in the host's authorized_keys, else why not. OpenSSH speaks on the terminal meanwhile."""
    try:
        target = resolve(SshSettings(host.name, user=host.user or None))
    except ConfigError as error:
        return error.message
    with Path(f"{key}.pub").open("rb") as line:
        status = subprocess.run(
            ssh_command(host, target, key, own_known_hosts, terminal),
            stdin=line,
            stdout=subprocess.DEVNULL,
            check=False,
        ).returncode
    if status == 0:
        return ""
    return f"the key was not installed: ssh ended with status {status}"


def ssh_command(host: Host, target: SshTarget, key: Path, own_known_hosts: Path, terminal: bool) -> list[str]:
    """With every way to log in that the user has, and only to a host whose key is known already."""
    known = [f'"{str(path).replace("%", "%%")}"' for path in (own_known_hosts, *target.known_hosts)]
    settings = {
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": " ".join(known),
        "BatchMode": "no" if terminal else "yes",
        "ConnectTimeout": str(CONNECT_TIMEOUT_S),
        "LogLevel": "ERROR",
        # what ~/.ssh/config may want of a login by hand
        "ControlPath": "none",
        "RemoteCommand": "none",
        "PermitLocalCommand": "no",
        "ClearAllForwardings": "yes",
        "ForwardAgent": "no",
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    # one -i alone would put the usual keys out of use; ours first: where it is installed, nothing is asked
    for path in (key, *(path for path in target.identity_files if path.exists())):
        options += ["-i", str(path)]
    if host.user:
        options += ["-l", host.user]
    return ["ssh", "-T", *options, "--", host.name, INSTALL]
