"""Nodes without root: one sshd per node on a loopback port, run as the user, with a home and a PATH of its own.

They share this machine's processes, boot id, /tmp and network; what belongs to a node is what its reaper adopted (all
that came by ssh) or what carries its LAB_NODE mark (what came by `run`).
"""

from __future__ import annotations

import os
import pwd
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.lab import gpus, processes
from tests.lab.node import NODE_PATH, Node, Plan, Unsupported, base_environment
from tests.lab.processes import Process
from tests.lab.sshd import find_sshd, server_configuration

REAPER = Path(__file__).with_name("reaper.py")
# sshd starts sessions in the account's real home; sh, since the login shell may be another
IN_OWN_HOME = (
    """sh -c 'cd "$HOME"; test -z "$SSH_ORIGINAL_COMMAND" || exec "$SHELL" -c "$SSH_ORIGINAL_COMMAND"; exec "$SHELL"'"""
)


class LoopbackNode(Node):
    def __init__(self, lab_folder: Path, plan: Plan, *, shared_home: bool = False) -> None:
        super().__init__(lab_folder, plan)
        self.user = pwd.getpwuid(os.geteuid()).pw_name
        self.accounts = (self.user,)
        self.home = lab_folder / "home" if shared_home else self.folder / "home"
        self.configuration = self.folder / "sshd_config"
        self.mark = str(self.folder)

    def prepare(self, authorized: str, max_sessions: int, max_startups: str) -> None:
        for folder in (self.gpus.folder, self.folder / "bin", self.folder / "tmp"):
            folder.mkdir(parents=True, exist_ok=True)
        self.home.mkdir(exist_ok=True)
        (self.folder / "authorized_keys").write_text(authorized)
        gpus.install(Path(self.smi_path()), str(self.gpus.folder), "grep", self.mark)
        settings = server_configuration(
            address=self.address,
            port=self.port,
            host_key=str(self.folder / "host_key"),
            authorized_keys=str(self.folder / "authorized_keys"),
            pid_file=self.sshd_pid_file(),
            max_sessions=max_sessions,
            max_startups=max_startups,
        )
        own = " ".join(f"{name}={value}" for name, value in self._own_variables().items())
        self.configuration.write_text(f"{settings}StrictModes no\nSetEnv {own}\nForceCommand {IN_OWN_HOME}\n")

    def start(self) -> None:
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd of root refuses to start without it
        self.init_file.unlink(missing_ok=True)
        words = ["setsid", "-f", sys.executable, "-I", "-S", str(REAPER), str(self.init_file), find_sshd()]
        env = {"PATH": NODE_PATH, "LAB_NODE": self.mark}
        with self.log.open("a") as log:
            subprocess.run(
                [*words, str(self.configuration), str(self.log)],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=True,
            )
        self._await_init()

    def stop(self) -> None:
        init = self.init()
        processes.kill_all(lambda: [process for process in self.pids() if process != init])
        if init:
            processes.send(init, signal.SIGKILL)
            processes.kill_all(lambda: [process for process in [init] if processes.alive(process)])

    def pids(self) -> list[Process]:
        everything = processes.everything()
        init = self.init()
        own = {init.pid: init} if init else {}
        own |= {process.pid: process for process in processes.descendants(own, everything)}
        own |= {p.pid: p for p in everything if f"LAB_NODE={self.mark}" in processes.environment(p)}
        own.pop(os.getpid(), None)
        return list(own.values())

    def start_sshd(self) -> None:
        if init := self.init():
            processes.send(init, signal.SIGUSR1)

    def reboot(self) -> None:
        raise Unsupported("a loopback node has the boot id of this machine: reboot needs the lab in namespaces (root)")

    def smi_path(self) -> str:
        return str(self.folder / "bin" / "nvidia-smi")

    def sshd_pid_file(self) -> str:
        return str(self.folder / "sshd.pid")

    def command(self, words: Sequence[str], user: str) -> tuple[list[str], dict[str, str]]:
        if user != self.user:
            raise Unsupported(f"a loopback node has one account, {self.user}; others need the lab in namespaces (root)")
        env = base_environment(user, str(self.home)) | self._own_variables()
        return ["sh", "-c", 'cd "$HOME" && exec "$@"', "sh", *words], env

    def _own_variables(self) -> dict[str, str]:
        path = f"{self.folder / 'bin'}:{NODE_PATH}"
        return {"HOME": str(self.home), "PATH": path, "TMPDIR": str(self.folder / "tmp"), "LAB_NODE": self.mark}


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, all different."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports
