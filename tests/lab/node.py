"""What every node of a lab offers, whichever way it is made."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING

from tests.lab import processes
from tests.lab.processes import Process

if TYPE_CHECKING:
    from tests.lab.gpus import Gpus

NODE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
Completed = subprocess.CompletedProcess[str]


class LabError(Exception):
    """One line: what went wrong in the lab and what to do."""


class Unsupported(LabError):
    """This kind of lab cannot do that; the one in namespaces can."""


@dataclass(frozen=True)
class Plan:
    """A node as laid out before it starts. `number` counts from 1."""

    name: str
    number: int
    address: str
    port: int
    gpus: int


class Node:
    """One node: `start`, `stop`, `run`, `pids` and faults by words. `folder` is its place on this machine."""

    accounts: tuple[str, ...]
    user: str  # the account that mgpu logs in as

    def __init__(self, lab_folder: Path, plan: Plan) -> None:
        from tests.lab.gpus import Gpus

        self.plan = plan
        self.name = plan.name
        self.address = plan.address
        self.port = plan.port
        self.lab_folder = lab_folder
        self.folder = lab_folder / "nodes" / plan.name
        self.init_file = self.folder / "init"
        self.log = self.folder / "log"
        self.gpus: Gpus = Gpus(self.folder / "gpu")

    # --- what each kind of lab does its own way ---------------------------------------------------------------------

    def prepare(self, authorized: str, max_sessions: int, max_startups: str) -> None:
        raise NotImplementedError

    def start(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        """Power off: all its processes die, its link goes. Silent when it was off."""
        raise NotImplementedError

    def pids(self) -> list[Process]:
        """All its processes, with the pids of this machine."""
        raise NotImplementedError

    def start_sshd(self) -> None:
        raise NotImplementedError

    def smi_path(self) -> str:
        """Where its nvidia-smi stands, as the node sees it."""
        raise NotImplementedError

    def sshd_pid_file(self) -> str:
        """As the node sees it."""
        raise NotImplementedError

    def command(self, words: Sequence[str], user: str) -> tuple[list[str], dict[str, str]]:
        """The argv and environment that run `words` on the node as `user`, from this machine."""
        raise NotImplementedError

    # --- the same for all -------------------------------------------------------------------------------------------

    def run(
        self, command: str | Sequence[str], user: str = "", *, check: bool = True, timeout_s: float = 30
    ) -> Completed:
        """Runs a shell line or an argv there, in the account's home, without ssh. `user` "" = the lab's own account.

        Raises LabError for a status other than 0, unless `check` is False.
        """
        words = ["sh", "-c", command] if isinstance(command, str) else list(command)
        user = user or self.user
        if user not in (*self.accounts, "root"):
            raise LabError(f"no account {user} on {self.name}; there are {', '.join(self.accounts)}")
        argv, env = self.command(words, user)
        done = subprocess.run(
            argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s, check=False
        )
        if check and done.returncode:
            raise LabError(f"{self.name}: {words[-1]}: status {done.returncode}: {done.stderr.strip()}")
        return done

    def fault(self, *words: str | int) -> str:
        """A fault by its words, as `scripts/lab fault NODE` takes them; what it says is returned."""
        from tests.lab.faults import apply

        return apply(self, [str(word) for word in words])

    def init(self) -> Process | None:
        """Its first process, while it runs."""
        try:
            recorded = processes.parse_stat(self.init_file.read_text())
        except OSError:
            return None
        return recorded if recorded and processes.alive(recorded) else None

    def reboot(self) -> None:
        self.stop()
        self.start()

    def wait_for_sshd(self, timeout_s: float = 10) -> None:
        deadline = monotonic() + timeout_s
        while not self.answers():
            if monotonic() > deadline:
                raise LabError(f"{self.name}: sshd does not answer at {self.address}:{self.port}; see {self.log}")
            sleep(0.005)

    def answers(self, timeout_s: float = 1) -> bool:
        """True when sshd sends its banner."""
        try:
            with socket.create_connection((self.address, self.port), timeout_s) as connection:
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    def sshd_pids(self) -> list[Process]:
        return [process for process in self.pids() if process.command.startswith("sshd")]

    def jobs(self) -> list[Process]:
        """What runs there on its own: nothing of the first process's session, no sshd, nothing below a live login."""
        everything = self.pids()
        init = self.init()
        sshd = [process for process in everything if process.command.startswith("sshd")]
        kept = {process.pid for process in [*sshd, *processes.descendants([p.pid for p in sshd], everything)]}
        return [
            process for process in everything if init and process.pid not in kept and process.session != init.session
        ]

    def _await_init(self, timeout_s: float = 10) -> Process:
        deadline = monotonic() + timeout_s
        while monotonic() < deadline:
            if init := self.init():
                return init
            sleep(0.002)
        raise LabError(f"{self.name} did not start; see {self.log}")


def base_environment(user: str, home: str, **more: str) -> dict[str, str]:
    return {
        "HOME": home,
        "USER": user,
        "LOGNAME": user,
        "SHELL": "/bin/sh",
        "PATH": NODE_PATH,
        "LANG": "C.UTF-8",
    } | more
