"""The master as a service of systemd, whose part a small program plays: it begins, and ends, what the unit says."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from mgpu.cli import main
from mgpu.cli.service import systemd
from tests.end_to_end.cluster import Cluster, until
from tests.end_to_end.conftest import ClusterMaker
from tests.lab import Lab

COUNT = "for i in $(seq 1 1500); do echo $i; sleep 0.01; done"


class Machine:
    """One that systemd has started; `mgpu service` is told so in this process, all else are commands of their own."""

    def __init__(self, cluster: Cluster, patch: pytest.MonkeyPatch) -> None:
        self.cluster = cluster
        folder = cluster.home / "bin"
        folder.mkdir()
        program = folder / "systemctl"
        script = Path(__file__).with_name("small_systemd.py")
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(script))} "$@"\n')
        program.chmod(0o755)
        cluster.environ["PATH"] = f"{folder}:{cluster.environ['PATH']}"
        for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            patch.delenv(name)
        for name, value in cluster.environ.items():
            patch.setenv(name, value)
        patch.chdir("/")
        patch.setattr(systemd, "BOOTED", str(folder))

    def systemctl(self, word: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(["systemctl", "--user", word, "mgpu"], env=self.cluster.environ)

    @property
    def pid(self) -> int:
        return int(json.loads((self.cluster.home / "unit.json").read_text())["pid"])


@pytest.fixture
def machine(lab: Lab, make_cluster: ClusterMaker, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(make_cluster(lab), monkeypatch)


def test_from_a_personal_master_to_a_service_and_back(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = machine.cluster
    follower = cluster.start("srun", "-Q", "-G", 1, "sh", "-c", COUNT)
    follower.read_until("\n20\n")
    assert main.run(["service", "install", "systemd", "--user"]) == 0
    told = capsys.readouterr().out
    assert f"with {cluster.config_path}, its state in {cluster.state_dir}" in told
    assert "the master that ran was ended; jobs run on" in told
    assert cluster.master_pid() == machine.pid
    assert b"--personal" not in Path(f"/proc/{machine.pid}/cmdline").read_bytes()
    # who asks while it is being restarted waits, and starts none of its own
    restarting = machine.systemctl("restart")
    askers = [cluster.start("queue") for _ in range(3)]
    assert [each.finish(60).code for each in askers] == [0, 0, 0]
    assert restarting.wait(60) == 0
    assert cluster.master_pid() == machine.pid
    result = follower.finish(60)
    assert (result.code, result.out) == (0, "".join(f"{number}\n" for number in range(1, 1501)))
    # what is stopped stays so
    assert machine.systemctl("stop").wait(60) == 0
    line = cluster.refused("queue", code=69)
    assert "here it is the service mgpu, which is inactive: systemctl --user start mgpu; journalctl --user" in line
    assert "it is the service mgpu: systemctl --user start mgpu" in cluster.refused("status", code=69)
    assert "which is inactive" in cluster("doctor", check=False).out
    assert machine.systemctl("start").wait(60) == 0
    assert cluster("queue").code == 0
    pid = machine.pid
    assert main.run(["service", "uninstall", "systemd", "--user"]) == 0
    until("it has ended", lambda: not Path(f"/proc/{pid}/exe").exists())
    assert cluster("queue").code == 0  # by a master of its own again
    assert b"--personal" in Path(f"/proc/{cluster.master_pid()}/cmdline").read_bytes()
    assert [job["attempt"] for job in cluster.json("history")["jobs"]] == [1]


def test_restart_keeps_the_service(machine: Machine) -> None:
    cluster = machine.cluster
    assert main.run(["service", "install", "systemd", "--user"]) == 0
    pid = machine.pid
    assert cluster("restart").code == 0
    assert cluster.master_pid() == pid
    assert machine.systemctl("stop").wait(60) == 0
    assert not (cluster.state_dir / "mgpu.sock").exists()
