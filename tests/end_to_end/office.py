"""A master for all over the nodes of a lab, run by an account of its own, and users who have other accounts there."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.cluster import FINAL, PATIENCE_S, QUICK, until
from tests.end_to_end.test_shared import ANN, BOB, IMPORTS, PYTHONS, SERVICE, TREE, House, as_user
from tests.lab import Lab, Settings, choose_mode

EVE = "man"  # whom the table refuses
THERE = {ANN: "alice", BOB: "bob"}
USERS = f"users: {{{ANN}: alice, {BOB}: bob, {EVE}: none}}\n"


class Office(House):
    """`mgpu` may be called for each of the users; `master` are further keys of that section."""

    def __init__(self, folder: Path, python: str, modules: str, lab: Lab, master: str = "", more: str = USERS) -> None:
        super().__init__(folder, python, modules)
        self.lab = lab
        for name in (SERVICE, ANN, BOB):
            self._lend(lab, folder / name, name)
        text = lab.cluster_config().replace("mode: personal", f"mode: shared, run_as: submitter{master}")
        text = text.replace(str(lab.state_dir), str(self.state)).replace(str(lab.folder), str(folder / SERVICE))
        self.config.write_text(text.partition("networking:")[0] + QUICK + more)

    def _lend(self, lab: Lab, home: Path, name: str) -> None:
        """The lab's way in, and an ssh that goes by it: OpenSSH asks the system where a home is."""
        for file in (lab.key, lab.known_hosts):
            shutil.copy(file, home / file.name)
            shutil.chown(home / file.name, name)
        own = home / "ssh_config"
        text = lab.ssh_config.read_text().replace(str(lab.folder), str(home)).replace("  User train\n", "")
        own.write_text(text)
        ssh = home / "ssh"
        ssh.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {own} "$@"\n')
        ssh.chmod(0o755)

    def environment(self, name: str) -> dict[str, str]:
        home = self.folder / name
        return {**super().environment(name), "PATH": f"{home}:/usr/bin:/bin", "TERM": "xterm"}

    # --- as somebody ------------------------------------------------------------------------------------------------

    def ok(self, name: str, *words: str, given: str | None = None) -> str:
        command = subprocess.run(
            self.words(*words), input=given, capture_output=True, check=False, timeout=60, **self._as(name)
        )
        assert command.returncode == 0, (words, command)
        return str(command.stdout)

    def on_terminal(self, name: str, *words: str) -> str:
        line = ["script", "-qec", shlex.join(self.words(*words)), "/dev/null"]
        done = subprocess.run(
            line, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60, **self._as(name)
        )
        return str(done.stdout)

    def submit(self, name: str, *words: str) -> int:
        return int(json.loads(self.ok(name, "--json", "submit", *words))["job_id"])

    def job(self, name: str, job_id: int) -> dict[str, Any]:
        return dict(json.loads(self.ok(name, "--json", "show", "job", str(job_id))))

    def await_job(
        self, name: str, job_id: int, *states: str, reason: str = "", patience_s: float = PATIENCE_S
    ) -> dict[str, Any]:
        def there() -> dict[str, Any] | None:
            job = self.job(name, job_id)
            return job if job["state"] in (states or FINAL) and (not reason or job["reason"] == reason) else None

        found: dict[str, Any] = until(f"job {job_id} in {states or FINAL} {reason}", there, patience_s)
        return found

    def await_running(self, name: str, job_id: int) -> None:
        """Once its command runs, on every node of it."""

        def there() -> bool:
            parts = self.job(name, job_id)["allocation"]
            return bool(parts) and all(part["state"] == "RUNNING" for part in parts)

        until(f"job {job_id} runs", there)

    def enroll(self, name: str) -> None:
        line = self.ok(name, "enroll", "--print")
        for node in self.lab.nodes:
            add = f"umask 077; grep -qF {shlex.quote(line.strip())} .ssh/authorized_keys || cat >>.ssh/authorized_keys"
            node.run(f"printf %s {shlex.quote(line)} | {{ {add}; }}", user=THERE[name])
        self.ok(name, "enroll")

    def expel(self, name: str) -> None:
        for node in self.lab.nodes:
            node.run("sed -i /restrict/d .ssh/authorized_keys", user=THERE[name])

    # --- its master -------------------------------------------------------------------------------------------------

    def kill(self) -> None:
        assert self._master is not None
        self._master.send_signal(signal.SIGKILL)
        self._master.communicate(timeout=30)
        (self.state / "mgpu.sock").unlink()

    def clear(self) -> None:
        for name in (ANN, BOB):
            self(name, "cancel", "--me")

            def over(name: str = name) -> bool:
                return not json.loads(self.ok(name, "--json", "queue", "--me"))["jobs"]

            until("no job is left", over)


def interpreter() -> tuple[str, str]:
    """A Python that these accounts may run mgpu with, and where its modules are."""
    modules = os.pathsep.join([str(TREE), *(path for path in sys.path if path.endswith("site-packages"))])
    for python in PYTHONS:
        try:
            subprocess.run(
                [python, "-B", "-c", IMPORTS],
                cwd="/", env={"PYTHONPATH": modules}, check=True, capture_output=True, **as_user(ANN),
            )  # fmt: skip
        except (OSError, KeyError, subprocess.CalledProcessError):
            continue
        return python, modules
    pytest.skip("no Python here that these accounts may run mgpu with")


@contextmanager
def opened(lab_prefix: Callable[[], str], master: str = "", prepare: Callable[[Lab], None] = id) -> Iterator[Office]:
    """With a lab of its own. `prepare` is called with that first."""
    if choose_mode() != "namespaces":
        pytest.skip("needs nodes in namespaces (root)")
    python, modules = interpreter()
    with (
        Lab(Settings(ephemeral=True), lab_prefix()) as lab,
        tempfile.TemporaryDirectory(dir="/run", prefix="mgpu-test-") as name,
    ):
        prepare(lab)
        Path(name).chmod(0o755)
        with closing(Office(Path(name), python, modules, lab, master)) as made:
            made.start()
            yield made
