"""The way in which the older system was asked still works."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.end_to_end.cluster import Cluster


def older(cluster: Cluster, name: str, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    program = f"from mgpu.cli import older; older.run_{name}()"
    environ = {**cluster.environ, **env}
    return subprocess.run(
        [sys.executable, "-c", program, *words], env=environ, cwd="/", capture_output=True, text=True, check=False
    )


def test_exactly_these_gpus_of_two_nodes(cluster: Cluster) -> None:
    shown = 'sleep 0.$MGPU_RANK; echo "$MGPU_RANK $(hostname) $CUDA_VISIBLE_DEVICES"'
    ran = older(cluster, "srun", "--node-gpu-ids", "node001:0,1;node002:0", "--", "sh", "-c", shown)
    assert ran.returncode == 0, ran.stderr
    names = [cluster.node(name)["hostname"] for name in ("node001", "node002")]
    assert sorted(ran.stdout.splitlines()) == [f"0 {names[0]} 0,1", f"1 {names[1]} 0"]


def test_a_command_line_in_the_foreground(cluster: Cluster) -> None:
    ran = older(cluster, "client", "submit", "--gpus", "1", "--interactive", "echo one; echo two >&2; exit 3")
    assert (ran.returncode, ran.stdout) == (3, "one\n")
    assert "two" in ran.stderr.splitlines()


def test_queue_and_cancel(cluster: Cluster) -> None:
    job_id = cluster.submit("--", "sleep", "300")
    assert str(job_id) in older(cluster, "queue").stdout
    assert older(cluster, "cancel", str(job_id)).returncode == 0
    assert cluster.await_job(job_id)["state"] == "CANCELLED"


@pytest.mark.parametrize("option", ["--session-timeout", "--max-wait-time"])
def test_a_limit_ends_the_following_and_not_the_job(cluster: Cluster, option: str) -> None:
    ran = older(cluster, "srun", option, "1", "sleep", "300")
    [job_id] = cluster.active_jobs()
    assert ran.returncode == 75
    assert option in ran.stderr
    assert f"mgpu attach {job_id}" in ran.stderr
    assert cluster.job(job_id)["state"] == "RUNNING"


@pytest.mark.parametrize(("option", "value"), [("--connection-timeout", "1"), ("--max-consecutive-timeouts", "2")])
def test_a_lost_master_that_stays_away(cluster: Cluster, option: str, value: str) -> None:
    command = cluster.start("srun", option, value, "--master", cluster.state_dir / "mgpu.sock", "sleep", "300")
    command.read_until("runs on")
    [job_id] = cluster.active_jobs()
    os.kill(cluster.master_pid(), 9)
    result = command.finish()
    assert result.code == 75
    assert option in result.err
    assert f"mgpu attach {job_id}" in result.err
    cluster("nodes")  # starts it again
    assert cluster.job(job_id)["state"] == "RUNNING"
