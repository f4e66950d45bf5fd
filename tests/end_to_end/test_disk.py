"""The master's own disk fills up, cannot be written, or damages its database: a line says so, jobs run on, and nothing
is lost once that is mended."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.cluster import Cluster, until
from tests.end_to_end.conftest import ClusterMaker
from tests.lab import Lab

LINES = 100
# About 200 kB within 2 s, wherever the master is.
SPEAKER = f"i=0; while [ $i -lt {LINES} ]; do i=$((i+1)); printf '%01999d\\n' $i; sleep 0.02; done; exit 3"
SPOKEN = "".join(f"{number:01999d}\n" for number in range(1, LINES + 1))


class Disk:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        with self._ballast.open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))

    def make_room(self) -> None:
        self._ballast.unlink()

    def remount(self, how: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{how}", self.path], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A small one of its own."""
    path = tmp_path / "disk"
    path.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "none", path], check=False, capture_output=True
    )
    if made.returncode:
        pytest.skip("nothing can be mounted here (root)")
    yield Disk(path)
    subprocess.run(["umount", "-l", path], check=True)


@pytest.fixture
def cluster(lab: Lab, make_cluster: ClusterMaker, disk: Disk) -> Cluster:
    made = make_cluster(lab)
    made.state_dir = disk.path / "state"
    made.environ["MGPU_STATE_DIR"] = str(made.state_dir)
    return made


def health(cluster: Cluster) -> Any:
    return cluster.ask("GET", "/v1/health")[1]


def errors(cluster: Cluster) -> str:
    return "\n".join(cluster.ask("GET", "/v1/status")[1]["errors"])


def test_a_full_disk(cluster: Cluster, disk: Disk) -> None:
    job_id = cluster.submit("-w", "node001", SPEAKER)
    cluster.await_running(job_id)
    reader = cluster.start("logs", "-f", job_id)
    disk.fill()
    until("the master notices", lambda: "no space left" in errors(cluster))
    line = cluster.refused("submit", "echo", code=69)
    assert "no space left" in line
    assert str(cluster.state_dir) in line
    assert cluster.json("nodes")["nodes"][0]["gpus"]  # what needs no room goes on
    # what ends on the full disk cannot be stored: passes fail, in words and with pauses
    failing = until("health says so", lambda: health(cluster)["status"] == "failing" and health(cluster))
    assert "no space left" in failing["reason"]
    line = cluster.refused("submit", "--export", "SECRET=17", "echo", code=69)
    assert "no space left" in line
    disk.make_room()
    job = cluster.await_job(job_id, "FAILED")
    assert (job["attempt"], job["exit_code"]) == (1, 3)
    until("health is well again", lambda: health(cluster) == {"status": "ok"})
    assert cluster("db", "check").code == 0  # nothing is half there
    assert [job["job_id"] for job in cluster.json("queue")["jobs"]] == []
    until("it is collected", lambda: cluster.output(job_id) == SPOKEN)
    assert reader.finish().out == SPOKEN
    assert cluster("srun", "echo", "again").out == "again\n"


def test_little_room_is_told_before_it_is_too_late(cluster: Cluster, disk: Disk) -> None:
    cluster("nodes")
    assert "make room, or submissions are refused" in errors(cluster)
    assert "MiB are free for" in (cluster.state_dir / "master.log").read_text()
    assert cluster.json("status")["disk"]["free_bytes"] < 8 << 20


def test_a_master_that_dies_on_a_full_disk(cluster: Cluster, disk: Disk) -> None:
    job_id = cluster.submit("-w", "node001", SPEAKER)
    cluster.await_running(job_id)
    disk.fill()
    os.kill(cluster.master_pid(), signal.SIGKILL)
    line = cluster.refused("submit", "echo", code=69)
    assert "no space left" in line.lower()
    disk.make_room()
    cluster("queue")
    assert cluster.await_job(job_id, "FAILED")["exit_code"] == 3
    until("it is collected", lambda: cluster.output(job_id) == SPOKEN)


def test_the_master_can_be_stopped_on_a_full_disk(cluster: Cluster, disk: Disk) -> None:
    cluster("nodes")
    disk.fill()
    until("the master notices", lambda: "no space left" in errors(cluster))
    assert "The master has ended" in cluster("stop").out
    disk.make_room()


def test_a_state_directory_that_cannot_be_written(cluster: Cluster, disk: Disk) -> None:
    job_id = cluster.submit("-w", "node001", SPEAKER)
    cluster.await_running(job_id)
    cluster("stop")
    disk.remount("ro")
    try:
        line = cluster.refused("submit", "echo", code=69)
        assert os.strerror(errno.EROFS) in line
        assert "daemon" not in cluster.refused("daemon", code=69)
    finally:
        disk.remount("rw")
    cluster("queue")
    assert cluster.await_job(job_id, "FAILED")["exit_code"] == 3
    until("it is collected", lambda: cluster.output(job_id) == SPOKEN)


@pytest.mark.parametrize("kept", [0, 4096])
def test_a_damaged_database(cluster: Cluster, kept: int) -> None:
    """With a copy in its place all goes on: its jobs are found on their nodes."""
    job_id = cluster.submit("-w", "node001", SPEAKER)
    cluster.await_running(job_id)
    cluster("stop")
    file = cluster.state_dir / "mgpu.db"
    whole = file.read_bytes()
    file.write_bytes(whole[:kept] + b"\xff" * (len(whole) - kept))
    line = cluster.refused("submit", "echo", code=69)
    assert "the database is damaged" in line
    assert str(file) in line
    assert "damaged" in cluster.refused("daemon", code=69)
    file.write_bytes(whole)
    cluster("queue")
    assert cluster.await_job(job_id, "FAILED")["exit_code"] == 3
    until("it is collected", lambda: cluster.output(job_id) == SPOKEN)
