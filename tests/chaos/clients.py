"""The people in front of it: srun, submit and cancel as processes of their own, also killed in the middle."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import time

from tests.chaos.checker import Ending
from tests.chaos.plans import JobPlan
from tests.end_to_end.cluster import Cluster

TREE_B = 3 << 20
JOB = Path(__file__).with_name("job.sh")


@dataclass
class Client:
    plan: JobPlan
    process: subprocess.Popen[bytes]
    stdout: Path
    stderr: Path
    killed: bool = False
    interrupted: bool = False

    def ending(self) -> Ending:
        kind = "srun" if self.plan.kind == "srun" else "submit"
        told = self.stderr.read_text(errors="replace")
        code = self.process.poll()
        return Ending(self.plan.serial, kind, code, self.killed, self.interrupted, self.stdout.read_bytes(), told)


class Clients:
    """Their output lies in `folder`."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder
        self._by_serial: dict[int, Client] = {}
        self._cancels: list[tuple[int, subprocess.Popen[bytes]]] = []
        self._others: list[subprocess.Popen[bytes]] = []
        self.wished: set[int] = set()
        self.cancelled: dict[int, float] = {}

    def __iter__(self) -> Iterator[Client]:
        return iter(self._by_serial.values())

    # --- what they do -----------------------------------------------------------------------------------------------

    def begin(self, plan: JobPlan) -> None:
        options = [*plan.options(), *self._ship(plan)]
        command = ["--", "/bin/sh", "-c", JOB.read_text(), JOB.name]
        if plan.kind == "srun":
            words = ["srun", *options, *command, *plan.arguments()]
        elif plan.kind == "argv":
            words = ["--json", "submit", *options, *command, *plan.arguments()]
        else:
            words = ["--json", "submit", *options, str(JOB), *plan.arguments()]
        stdout, stderr = self._folder / f"{plan.serial}.out", self._folder / f"{plan.serial}.err"
        self._by_serial[plan.serial] = Client(plan, self._start(words, stdout, stderr), stdout, stderr)

    def _ship(self, plan: JobPlan) -> list[str]:
        """The tree that goes along, with the sums of what is in it."""
        if not plan.tree:
            return []
        folder = self._folder / ("tree" if plan.tree == "shared" else f"tree-{plan.serial}")
        if not folder.exists():
            (folder / "sub").mkdir(parents=True)
            data = {"sub/large": os.urandom(TREE_B), "small": plan.name.encode()}
            for name, content in data.items():
                (folder / name).write_bytes(content)
            sums = "".join(f"{hashlib.md5(content).hexdigest()}  {name}\n" for name, content in data.items())
            (folder / "sums").write_text(sums)
        return [f"--ship={folder}"]

    def kill(self, serial: int) -> bool:
        client = self._by_serial[serial]
        if client.process.poll() is not None:
            return False
        client.killed = True
        client.process.kill()
        return True

    def running(self) -> list[int]:
        return [client.plan.serial for client in self if client.process.poll() is None]

    def cancel(self, serial: int) -> bool:
        """By ^C where it is in the foreground. False = not yet: its submit is still under way."""
        client = self._by_serial[serial]
        running = client.process.poll() is None
        if client.plan.kind == "srun":
            if running and not client.stderr.stat().st_size and not client.killed:
                return False  # its python may not even listen to signals yet
            if running:
                client.interrupted = True
                self.wished.add(serial)
                client.process.send_signal(signal.SIGINT)
            return True
        if running:
            return False
        if client.process.returncode == 0:
            job_id = json.loads(client.stdout.read_bytes())["job_id"]
            self.wished.add(serial)
            log = self._folder / f"{serial}.cancel"
            self._cancels.append((serial, self._start(["cancel", str(job_id)], log, log)))
        return True

    def master(self, *words: str) -> None:
        """A command that begins a master, or tries to."""
        log = self._folder / "masters"
        self._others.append(self._start(["daemon", *words], log, log))

    # --- what comes of it -------------------------------------------------------------------------------------------

    def attend(self) -> None:
        """Takes note of the cancels that were answered."""
        for serial, process in [*self._cancels]:
            if process.poll() is not None:
                self._cancels.remove((serial, process))
                if process.returncode == 0:
                    self.cancelled.setdefault(serial, time())

    def busy(self) -> bool:
        return bool(self.running() or self._cancels)

    def close(self) -> None:
        """Ends all that still runs, the masters that were begun here too."""
        everything = [client.process for client in self] + [process for _, process in self._cancels] + self._others
        for process in everything:
            if process.poll() is None:
                process.kill()
                process.wait()

    def _start(self, words: Sequence[str], stdout: Path, stderr: Path) -> subprocess.Popen[bytes]:
        with stdout.open("ab") as out, stderr.open("ab") as err:
            return subprocess.Popen(
                self._cluster.argv(words),
                env=self._cluster.environ,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )
