"""What cron does with the lines that were installed: run by a shell that has nothing of ours in its environment."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from tests.cli.stand_ins import CRONTAB
from tests.end_to_end.cluster import Cluster, until
from tests.end_to_end.conftest import ClusterMaker
from tests.lab import Lab


def install(cluster: Cluster, *options: str) -> list[str]:
    """The lines that cron was given."""
    folder = cluster.home / "bin"
    folder.mkdir()
    (folder / "crontab").write_text(CRONTAB)
    (folder / "crontab").chmod(0o755)
    cluster.environ["PATH"] = f"{folder}:{cluster.environ['PATH']}"
    (cluster.home / "crontab").write_text("# mine\n")
    cluster("service", "install", "cron", *options)
    lines = cluster.json("service", "status")["cron"]
    assert lines
    return [str(line) for line in lines]


def as_cron(cluster: Cluster, line: str) -> subprocess.Popen[bytes]:
    command = line.partition(" ")[2] if line.startswith("@") else line.split(" ", 5)[5]
    environ = {"HOME": str(cluster.home), "LOGNAME": "root", "SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"}
    return subprocess.Popen(["/bin/sh", "-c", command], env=environ, cwd=cluster.home)


def test_a_master_is_there_again_after_it_was_killed(lab: Lab, make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(lab)
    text = cluster.config_path.read_text()
    cluster.config_path.write_text(text.replace("master: {mode: personal", "master: {mode: personal, idle_exit: 1s"))
    at_boot, now_and_then = install(cluster)
    pid = cluster.master_pid()  # it was begun at once
    assert as_cron(cluster, now_and_then).wait(60) == 0
    assert cluster.master_pid() == pid
    os.kill(pid, signal.SIGKILL)
    several = [as_cron(cluster, line) for line in (at_boot, now_and_then, now_and_then)]
    assert [each.wait(60) for each in several] == [0, 0, 0]
    assert cluster.master_pid() != pid
    assert b"--personal" not in Path(f"/proc/{cluster.master_pid()}/cmdline").read_bytes()
    assert cluster("srun", "-Q", "echo", "here").out == "here\n"
    assert "uninstall" in (cluster.home / "crontab").read_text()
    cluster("service", "uninstall")
    assert (cluster.home / "crontab").read_text() == "# mine\n"
    assert cluster("status").code == 0  # jobs and master stay


def test_passes_alone(lab: Lab, make_cluster: ClusterMaker) -> None:
    """Each starts what waits and collects what ended; several at once are one; a master that lives is left to it."""
    cluster = make_cluster(lab)
    (line,) = install(cluster, "--tick")
    first = cluster.submit("-G", 8, "--", "sh", "-c", "sleep 1; echo first")
    second = cluster.submit("-G", 8, "--", "echo", "second")
    cluster.await_running(first)
    assert as_cron(cluster, line).wait(60) == 0  # nothing, while a master lives
    pid = cluster.master_pid()
    os.kill(pid, signal.SIGKILL)

    def over() -> bool:
        passes = [as_cron(cluster, line) for _ in range(2)]
        assert [each.wait(100) for each in passes] == [0, 0]
        return (cluster.state_dir / "spool").exists() and "second" in cluster_history(cluster, second)

    until("both have ended", over, 90)
    assert cluster.output(first) == "first\n" * 2  # once on each node


def cluster_history(cluster: Cluster, job_id: int) -> str:
    """Read without a master: none is to be begun by it."""
    found = [path for path in (cluster.state_dir / "spool").rglob("*") if path.is_file()]
    return "".join(path.read_text(errors="replace") for path in found if str(job_id) in str(path))
