"""The personal master: who starts it, whose it is, when it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from mgpu.client.http import Endpoint
from mgpu.client.locate import Location
from mgpu.tui.source import Source
from tests.conftest import LabMaker
from tests.end_to_end.cluster import QUICK, Cluster, until
from tests.end_to_end.conftest import ClusterMaker
from tests.lab import Lab


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_first_command_starts_it(lab: Lab, make_cluster: ClusterMaker) -> None:
    """Several at the same instant start one."""
    cluster = make_cluster(lab)
    assert cluster.refused("status", code=69).startswith("mgpu: no master runs at ")
    clients = [cluster.start("queue") for _ in range(3)]
    assert [client.finish().code for client in clients] == [0, 0, 0]
    log = (cluster.state_dir / "master.log").read_text()
    assert "another master" not in log
    pid = cluster.master_pid()
    assert cluster.state_dir.stat().st_mode & 0o077 == 0
    assert os.getsid(pid) == pid  # it outlives the terminal
    status = cluster("status").out
    assert f"{pid}" in status
    assert str(cluster.config_path) in status
    # a second one says who holds the lock
    second = cluster("daemon", check=False)
    assert second.code == 69
    assert len(second.told) == 1
    assert str(pid) in second.err
    assert cluster("daemon", "--ensure").code == 0
    assert cluster.master_pid() == pid
    assert cluster("stop").out == "The master has ended. Jobs run on.\n"
    assert not alive(pid)
    assert not (cluster.state_dir / "mgpu.sock").exists()
    assert cluster.refused("stop", code=69).startswith("mgpu: no master runs at ")


def test_another_configuration_is_refused(cluster: Cluster) -> None:
    other = cluster.home / "other.yaml"
    other.write_text(cluster.config_path.read_text())
    line = cluster.refused("--config", other, "queue")
    assert str(other) in line
    assert str(cluster.config_path) in line
    assert cluster("--config", other, "stop").out == "The master has ended. Jobs run on.\n"
    assert cluster("--config", other, "queue").code == 0
    cluster("stop")
    assert cluster("queue").code == 0


STRANGER = """
import os, socket, sys
os.setgid(12345)
os.setuid(12345)
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print("there", flush=True)
connection, _ = listener.accept()
print(connection.recv(9), flush=True)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_a_stranger_at_the_socket(cluster: Cluster) -> None:
    """Whoever it is, it is not told what we want."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chown(folder, 12345, 12345)
        path = f"{folder}/mgpu.sock"
        stranger = subprocess.Popen(
            ["/usr/bin/env", "-i", "python3", "-c", STRANGER, path], stdout=subprocess.PIPE, text=True, cwd="/"
        )
        try:
            assert stranger.stdout is not None
            assert stranger.stdout.readline() == "there\n"
            result = cluster("--master", path, "queue", check=False)
            assert result.code == 77
            assert "12345" in result.err
            assert stranger.stdout.readline() == "b''\n"
        finally:
            stranger.kill()
            stranger.communicate()


def test_it_ends_when_idle(lab: Lab, make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(lab)
    text = cluster.config_path.read_text()
    cluster.config_path.write_text(text.replace("master: {mode: personal", "master: {mode: personal, idle_exit: 1s"))
    assert cluster("srun", "-Q", "sh", "-c", "sleep 2; echo done").out == "done\n"  # not while something runs
    pid = cluster.master_pid()
    until("it ended", lambda: not alive(pid))
    assert not (cluster.state_dir / "mgpu.sock").exists()
    assert [job["state"] for job in cluster.json("history")["jobs"]] == ["COMPLETED"]  # of the next one


def test_it_stays_while_a_monitor_looks(lab: Lab, make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(lab)
    text = cluster.config_path.read_text()
    cluster.config_path.write_text(text.replace("master: {mode: personal", "master: {mode: personal, idle_exit: 1s"))
    cluster("queue")
    pid = cluster.master_pid()
    endpoint = Endpoint(str(cluster.state_dir / "mgpu.sock"), None, (os.getuid(),))
    source = Source(Location("", "", endpoint, False))
    for _ in range(20):
        assert source.window()["matching"] == 0
        time.sleep(0.2)
    assert alive(pid)
    until("it ended", lambda: not alive(pid))


def test_ticks_alone(lab: Lab, make_cluster: ClusterMaker) -> None:
    """From cron: one full pass collects what ended meanwhile and starts what waits, and no master stays."""
    cluster = make_cluster(lab)
    first = cluster.submit("-G", 8, "sleep 1; echo first")
    second = cluster.submit("-G", 8, "echo second")
    cluster.await_running(first)
    os.kill(cluster.master_pid(), signal.SIGKILL)
    cluster("tick")
    assert not (cluster.state_dir / "mgpu.sock").exists()
    assert cluster("tick").code == 0
    assert [job["job_id"] for job in cluster.json("history")["jobs"]] == [first, second]
    pid = cluster.master_pid()  # that of the last command
    assert cluster("tick").out == ""  # it does all there is to do
    assert cluster.master_pid() == pid


def test_the_log_as_json(lab: Lab, make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(lab, config=f"{QUICK}log: {{format: json}}\n")
    job_id = cluster.submit("exit 3")
    cluster.await_job(job_id, "FAILED")
    cluster("stop")
    lines = [json.loads(line) for line in (cluster.state_dir / "master.log").read_text().splitlines()]
    told = [
        (line["event"], line.get("attempt"), line.get("exit_code")) for line in lines if line.get("job_id") == job_id
    ]
    told = [one for one in told if one[0] != "notice"]
    assert told == [("submit", None, None), ("placed", 1, None), ("started", 1, None), ("ended: FAILED", 1, 3)]
    assert {line["node"] for line in lines if line.get("event") == "node UP"} == {node.name for node in lab.nodes}


def test_daemon_in_the_foreground(lab: Lab, make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(lab)
    daemon = cluster.start("daemon")
    until("it answers", (cluster.state_dir / "mgpu.sock").exists)
    job_id = cluster.submit("echo begun; sleep 600")
    cluster.await_running(job_id)
    assert cluster.master_pid() == daemon.pid
    daemon.send(signal.SIGTERM)
    assert daemon.finish().code == 0
    assert cluster("logs", job_id).out == "begun\n"  # of a personal one that takes over
    assert cluster.job(job_id)["state"] == "RUNNING"
    cluster.clear()


def test_without_any_configuration(make_lab: LabMaker, make_cluster: ClusterMaker, tmp_path: Path) -> None:
    """This machine is the one node; no GPU is needed to run on it. What the first command's shell ignored, its jobs
    do not."""
    cluster = make_cluster(make_lab(nodes=1))
    for name in ("MGPU_CONFIG", "MGPU_STATE_DIR"):
        del cluster.environ[name]
    ignored = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in ignored}
    try:
        [node] = cluster.json("nodes", cwd=tmp_path)["nodes"]
        for number, handler in before.items():
            signal.signal(number, handler)
        assert node["connection"] == "local"
        assert node["hostname"] == socket.gethostname()
        result = cluster("srun", "-G", 0, "sh", "-c", "pwd; hostname", cwd=tmp_path)
        assert result.lines == [str(tmp_path), socket.gethostname()]
        assert "no GPU" in result.told[0]
        assert (cluster.home / ".local/state/mgpu/mgpu.sock").exists()
        assert cluster("srun", "-G", 0, "sh", "-c", "exit 7", check=False, cwd=tmp_path).code == 7
        [line] = cluster("srun", "-Q", "-G", 0, "grep", "SigIgn", "/proc/self/status", cwd=tmp_path).lines
        assert line.split()[1] == "0" * 16
    finally:
        cluster("stop", cwd=tmp_path)


def test_what_is_removed_under_a_running_master(lab: Lab, make_cluster: ClusterMaker) -> None:
    """A socket is made again; a master without its lock or database makes way for another, and never acts beside it."""
    cluster = make_cluster(lab)
    cluster("queue")
    first = cluster.master_pid()
    (cluster.state_dir / "mgpu.sock").unlink()
    until("the socket is there again", (cluster.state_dir / "mgpu.sock").exists)
    assert cluster.master_pid() == first
    for removed in ("lock", "mgpu.db"):
        pid = cluster.master_pid()
        (cluster.state_dir / removed).unlink()
        until("the master has ended", lambda: not alive(pid))  # noqa: B023 - used before the next one
        cluster("queue")
        assert cluster.master_pid() != pid
    assert "was emptied or moved" in (cluster.state_dir / "master.log").read_text()
