"""A job outlives everything but its own node: a killed master, a cut link. Started once, every byte once."""

from __future__ import annotations

import os
import signal

import pytest

from tests.end_to_end.cluster import Cluster, until

# Counts its own starts, and numbers its lines.
COUNTER = (
    "echo start >>/tmp/{mark}; i=0; while [ $i -lt {lines} ]; do echo line $i; i=$((i+1)); sleep 0.02; done; exit 5"
)


def starts(cluster: Cluster, node: str, mark: str) -> int:
    return cluster.lab.node(node).run(f"cat /tmp/{mark} 2>/dev/null", check=False).stdout.count("start\n")


@pytest.mark.usefixtures("separate_nodes")
def test_the_master_is_killed_while_output_streams(cluster: Cluster) -> None:
    mark = f"killed-{os.getpid()}"
    follower = cluster.start("srun", "-w", "node001", "sh", "-c", COUNTER.format(mark=mark, lines=200))
    other = cluster.submit("-w", "node002", COUNTER.format(mark=mark, lines=100))
    cluster.await_running(other)
    for line in ("line 20\n", "line 90\n"):
        follower.read_until(line)
        os.kill(cluster.master_pid(), signal.SIGKILL)
    result = follower.finish()
    assert result.code == 5
    assert result.lines == [f"line {number}" for number in range(200)]
    assert (starts(cluster, "node001", mark), starts(cluster, "node002", mark)) == (1, 1)
    job = cluster.await_job(other, "FAILED")
    assert (job["attempt"], job["exit_code"]) == (1, 5)
    assert cluster.output(other).splitlines() == [f"line {number}" for number in range(100)]


def test_jobs_end_while_there_is_no_master(cluster: Cluster) -> None:
    job_id = cluster.submit("sleep 1; echo alone; exit 6")
    waiting = cluster.submit("-G", 8, "echo after")
    cluster.await_running(job_id)
    os.kill(cluster.master_pid(), signal.SIGKILL)
    node = cluster.lab.node("node001")
    until("it ended there", lambda: not node.run("grep -l 'echo alone' /proc/[0-9]*/environ", check=False).stdout)
    cluster("nodes")
    job = cluster.await_job(job_id, "FAILED")
    assert (job["exit_code"], job["attempt"], cluster.output(job_id)) == (6, 1, "alone\n")
    cluster.await_job(waiting, "COMPLETED")


def test_a_kill_at_the_moment_of_the_start(cluster: Cluster) -> None:
    """Whether it began before or after, it begins once."""
    mark = f"begin-{os.getpid()}"
    cluster("nodes")
    ids = []
    for _ in range(2):
        ids.append(cluster.submit("-w", "node001", COUNTER.format(mark=mark, lines=3)))
        os.kill(cluster.master_pid(), signal.SIGKILL)
        cluster("daemon", "--ensure")
    for job_id in ids:
        job = cluster.await_job(job_id, "FAILED")
        assert (job["exit_code"], job["attempt"]) == (5, 1)
        assert cluster.output(job_id) == "line 0\nline 1\nline 2\n"
    assert starts(cluster, "node001", mark) == 2


@pytest.mark.usefixtures("separate_nodes")
def test_the_node_reboots(cluster: Cluster) -> None:
    follower = cluster.start("srun", "-w", "node002", "sh", "-c", "echo begun; sleep 600")
    follower.read_until("begun")
    batch = cluster.submit("-w", "node002", "echo attempt $MGPU_ATTEMPT; [ $MGPU_ATTEMPT = 2 ] || sleep 600")
    stays = cluster.submit("-w", "node002", "--no-requeue", "sleep 600")
    for job_id in (batch, stays):
        cluster.await_running(job_id)
    cluster.lab.node("node002").fault("reboot")
    result = follower.finish()
    assert result.code == 70
    assert "NODE_FAIL" in result.told[-1]
    assert "node002: the node rebooted" in result.told[-1]
    job = cluster.await_job(batch, "COMPLETED")
    assert (job["attempt"], cluster.output(batch)) == (2, "attempt 2\n")
    assert job["attempts"][0]["reason"] == "on node002: the node rebooted"
    assert cluster.await_job(stays)["state"] == "NODE_FAIL"
    cluster.idle()


@pytest.mark.usefixtures("separate_nodes")
def test_the_link_is_cut_for_a_while(cluster: Cluster) -> None:
    node = cluster.lab.node("node001")
    follower = cluster.start("srun", "-w", "node001", "sh", "-c", "echo begun; sleep 3; echo end; exit 4")
    follower.read_until("begun")
    [job] = cluster.json("queue")["jobs"]
    node.fault("link", "drop")
    try:
        lost = cluster.await_job(job["job_id"], "RUNNING", reason="ContactLost")
        assert "node001" in lost["detail"]
        assert "ContactLost" in cluster("queue").out
        assert follower.running
    finally:
        node.fault("link", "ok")
    result = follower.finish(60)
    assert (result.code, result.out) == (4, "begun\nend\n")
    assert cluster.job(job["job_id"])["attempt"] == 1


@pytest.mark.usefixtures("separate_nodes")
def test_cancel_reaches_it_when_the_link_is_back(cluster: Cluster) -> None:
    node = cluster.lab.node("node001")
    job_id = cluster.submit("-w", "node001", "sleep 600")
    cluster.await_running(job_id)
    node.fault("link", "drop")
    try:
        cluster("cancel", job_id)
        assert cluster.await_job(job_id, "RUNNING", reason="ContactLost")["stop"] == "CANCEL by root"
    finally:
        node.fault("link", "ok")
    assert cluster.await_job(job_id, patience_s=60)["state"] == "CANCELLED"
    cluster.idle()


@pytest.mark.usefixtures("separate_nodes")
def test_the_next_master_tells_of_a_limit_that_this_one_could_not(cluster: Cluster) -> None:
    """And of the job whose node knows its limit it asks nothing but how it is."""
    node = cluster.lab.node("node001")
    moved = cluster.submit("-w", "node001", "-t", 60, "sleep 600")
    stays = cluster.submit("-w", "node001", "-t", 60, "echo begun; sleep 600")
    cluster.await_output(stays, "begun")
    cluster.await_running(moved)
    node.fault("link", "drop")
    try:
        cluster("update", moved, "--time", "0:01")
        cluster.await_job(moved, "RUNNING", reason="ContactLost")
        os.kill(cluster.master_pid(), signal.SIGKILL)
    finally:
        node.fault("link", "ok")
    cluster("queue")  # which starts the next one
    assert cluster.await_job(moved, patience_s=60)["state"] == "TIMEOUT"
    assert cluster.job(stays)["state"] == "RUNNING"


@pytest.mark.usefixtures("separate_nodes")
def test_an_operator_gives_a_lost_node_up(cluster: Cluster) -> None:
    """Its jobs end without proof; when it is back after all, what still runs there is ended before it gets work."""
    node = cluster.lab.node("node001")
    mark = f"given-up-{os.getpid()}"
    still_there = f"pgrep -f '[{mark[0]}]{mark[1:]}'"  # which does not find itself
    job_id = cluster.submit("-w", "node001", f'[ $MGPU_ATTEMPT = 2 ] || sh -c "sleep 600; : {mark}"')
    cluster.await_running(job_id)
    assert "there is nothing to give up" in cluster.refused("node", "down", "node001", "--yes")
    node.fault("link", "drop")
    try:
        cluster.await_job(job_id, "RUNNING", reason="ContactLost")
        assert "give --yes" in cluster.refused("node", "down", "node001")
        assert cluster.json("node", "down", "node001", "--yes") == {"node_id": "node001", "given_up": [job_id]}
        waiting = cluster.await_job(job_id, "PENDING")
        assert "it may run twice" in waiting["detail"]
        assert node.run(still_there, check=False).stdout
    finally:
        node.fault("link", "ok")
    job = cluster.await_job(job_id, "COMPLETED", patience_s=60)
    assert job["attempt"] == 2
    assert not node.run(still_there, check=False).stdout
    cluster.idle()
