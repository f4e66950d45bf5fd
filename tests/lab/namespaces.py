"""Nodes as root makes them: namespaces of their own over an overlay of this machine's file system.

A node's first process is found through its `init` file; whatever lives in its PID namespace dies with it. Uppers,
homes and the GPUs' table stay outside, so that a reboot keeps the disk and loses /tmp, /run and the boot id, as on a
real machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path

from tests.lab import gpus, network, processes
from tests.lab.node import NODE_PATH, LabError, Node, Plan, base_environment
from tests.lab.processes import Process
from tests.lab.sshd import find_sshd, server_configuration

INIT = Path(__file__).with_name("node-init.sh")
ACCOUNTS = {"train": 21001, "alice": 21002, "bob": 21003}
HOME_SIZE = "1g"  # a limit, not a reservation
NODE_STATE = "/var/lib/lab-gpu"
NODE_GREP = "/usr/lib/lab/grep"


class NamespacedNode(Node):
    accounts = tuple(ACCOUNTS)
    user = "train"

    def __init__(self, lab_folder: Path, plan: Plan, *, shared_home: bool = False) -> None:
        super().__init__(lab_folder, plan)
        self.fs = lab_folder / "fs" / plan.name
        self.upper = self.fs / "upper"
        self.homes = lab_folder / "fs" / ("home" if shared_home else f"{plan.name}-home")
        self.links = network.Links(lab_folder)
        self.veth = self.links.veth(plan.number)

    def prepare(self, authorized: str, max_sessions: int, max_startups: str) -> None:
        for folder in (self.upper, self.fs / "work", self.fs / "root", self.gpus.folder):
            folder.mkdir(parents=True, exist_ok=True)
        self._make_homes(authorized)
        self._write_accounts()
        settings = server_configuration(
            address="0.0.0.0",
            port=22,
            host_key="/etc/ssh/lab_host_key",
            authorized_keys=".ssh/authorized_keys",
            pid_file="/run/sshd.pid",
            max_sessions=max_sessions,
            max_startups=max_startups,
        )
        self._write("etc/ssh/sshd_config", settings)
        self._write("etc/ssh/lab_host_key", (self.folder / "host_key").read_text(), 0o600)
        gpus.install(self.upper / self.smi_path()[1:], NODE_STATE, NODE_GREP, "")
        gpus.install_grep(self.upper / NODE_GREP[1:])
        (self.upper / "var/lib/lab-gpu").mkdir(parents=True)

    def start(self) -> None:
        (self.folder / "boot_id").write_text(f"{uuid.uuid4()}\n")
        self.init_file.unlink(missing_ok=True)
        words = ["unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--"]
        # setsid -f: the namespace's first process is nobody's background job, so that jobs on the node heed SIGINT
        words += ["setsid", "-f", "sh", str(INIT)]
        words += [str(self.folder), str(self.fs), str(self.homes), self.name, find_sshd()]
        with self.log.open("a") as log:
            env = {"PATH": NODE_PATH}
            subprocess.run(words, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True)
        self.links.connect(self.plan.number, self._await_init().pid, self.address)

    def stop(self) -> None:
        if init := self.init():
            processes.kill_all(lambda: [init] if processes.alive(init) else [])
        self.links.disconnect(self.plan.number)

    def pids(self) -> list[Process]:
        init = self.init()
        return processes.in_pid_namespace_of(init) if init else []

    def start_sshd(self) -> None:
        self.run(f"exec {find_sshd()} -E /var/log/sshd.log", user="root")

    def smi_path(self) -> str:
        return "/usr/bin/nvidia-smi"

    def sshd_pid_file(self) -> str:
        return "/run/sshd.pid"

    def command(self, words: Sequence[str], user: str) -> tuple[list[str], dict[str, str]]:
        init = self.init()
        if init is None:
            raise LabError(f"{self.name} is off")
        number = ACCOUNTS.get(user, 0)
        home = f"/home/{user}" if number else "/root"
        enter = ["nsenter", "--target", str(init.pid), "--mount", "--uts", "--ipc", "--net", "--pid"]
        argv = [*enter, f"--setgid={number}", f"--setuid={number}", "--"]
        return [*argv, "sh", "-c", 'cd "$HOME" && exec "$@"', "sh", *words], base_environment(user, home)

    def resize_home(self, *, full: bool) -> None:
        """Full = not one byte more than now; else the usual limit."""
        state = os.statvfs(self.homes)
        size = (state.f_blocks - state.f_bfree) * state.f_frsize if full else HOME_SIZE
        network.execute(["mount", "-o", f"remount,size={size}", str(self.homes)])

    def _make_homes(self, authorized: str) -> None:
        if not self.homes.is_mount():
            self.homes.mkdir(parents=True, exist_ok=True)
            network.execute(["mount", "-t", "tmpfs", "-o", f"mode=0755,size={HOME_SIZE}", "tmpfs", str(self.homes)])
        for user, number in ACCOUNTS.items():
            home = self.homes / user
            if home.exists():  # a shared home that another node has made
                continue
            keys = home / ".ssh" / "authorized_keys"
            keys.parent.mkdir(parents=True)
            keys.write_text(authorized)
            for path, mode in ((home, 0o700), (keys.parent, 0o700), (keys, 0o600)):
                path.chmod(mode)
                os.chown(path, number, number)

    def _write_accounts(self) -> None:
        """This machine's accounts plus the lab's. "*" = no password: a locked account ("!") could not log in by key."""
        for name, line in (
            ("passwd", "{user}:x:{number}:{number}::/home/{user}:/bin/sh"),
            ("group", "{user}:x:{number}:"),
            ("shadow", "{user}:*:19000:0:99999:7:::"),
        ):
            source = Path("/etc", name)
            kept = source.read_text().splitlines() if source.exists() else []
            kept = [entry for entry in kept if entry.split(":")[0] not in ACCOUNTS]
            own = [line.format(user=user, number=number) for user, number in ACCOUNTS.items()]
            self._write(f"etc/{name}", "\n".join([*kept, *own]) + "\n", 0o600 if name == "shadow" else 0o644)
        self._write("etc/hostname", f"{self.name}\n")

    def _write(self, path: str, text: str, mode: int = 0o644) -> None:
        target = self.upper / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(mode)


def possible() -> str:
    """ "" when nodes in namespaces can be made here, else why not."""
    if os.geteuid() != 0:
        return "not root"
    for tool, package in (("ip", "iproute2"), ("nsenter", "util-linux"), ("pivot_root", "util-linux")):
        if shutil.which(tool, path=NODE_PATH) is None:
            return f"{tool} is missing (apt-get install {package})"
    tried = subprocess.run(
        ["unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "true"], capture_output=True, check=False
    )
    return "" if tried.returncode == 0 else f"unshare: {tried.stderr.decode().strip()}"


def mount_fs(lab_folder: Path) -> None:
    """One tmpfs for all uppers of a lab: an overlay cannot lie on another overlay, as in a container."""
    fs = lab_folder / "fs"
    fs.mkdir()
    network.execute(["mount", "-t", "tmpfs", "-o", "mode=0700", "tmpfs", str(fs)])


def unmount_fs(lab_folder: Path) -> None:
    fs = lab_folder / "fs"
    if fs.is_mount():
        network.execute(["umount", "--recursive", "--lazy", str(fs)])
