"""What an operator drains stays drained, and what fails again and again is used last: over everything that happens."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from tests.end_to_end.cluster import Cluster, until
from tests.lab import Lab

ClusterMaker = Callable[..., Cluster]


@pytest.fixture
def drains(lab: Lab, make_cluster: ClusterMaker) -> Iterator[Cluster]:
    cluster = make_cluster(lab)
    cluster("nodes")
    return cluster


def restart(cluster: Cluster) -> None:
    os.kill(cluster.master_pid(), signal.SIGKILL)
    cluster("daemon", "--ensure")


def test_a_drained_node_runs_on_and_starts_nothing_until_it_is_resumed(drains: Cluster) -> None:
    running = drains.submit("-w", "node001", "--", "sleep", "1000")
    drains.await_running(running)
    said = drains("node", "drain", "node001", "--reason", "new fan").out
    assert said == f"node001: drained; job {running} goes on there\n"
    waits = drains.await_job(drains.submit("-w", "node001", "--", "true"), "PENDING", reason="ReqNodeNotAvail")
    assert waits["detail"].startswith("node001: drained by root: new fan (since 20")
    drains("srun", "-Q", "true")  # elsewhere, jobs start
    assert drains.node("node001")["state"] == "DRAINING"
    assert "drained by root: new fan (since 20" in drains("nodes").out
    assert "node001  drained by root: new fan" in drains("why", waits["job_id"]).out
    restart(drains)
    assert drains.job(running)["state"] == "RUNNING"
    assert drains.node("node001")["state"] == "DRAINING"
    drains("cancel", running)
    until("the node is drained", lambda: drains.node("node001")["state"] == "DRAINED")
    drains("node", "probe", "node001")
    assert drains.job(waits["job_id"])["state"] == "PENDING"
    assert drains("node", "resume", "node001").out == "node001: resumed\n"
    drains.await_job(waits["job_id"], "COMPLETED")
    assert drains("node", "resume", "node001").out == "node001: was not drained\n"


@pytest.mark.usefixtures("separate_nodes")
def test_contact_that_comes_back_resumes_nothing(drains: Cluster, lab: Lab) -> None:
    drains("node", "drain", "node001")
    node = lab.node("node001")
    node.fault("link", "drop")
    try:
        until("it does not answer", lambda: "does not answer" in drains.node("node001")["reason"])
        assert drains.node("node001")["state"] == "DRAINED"
    finally:
        node.fault("link", "ok")
    until("it answers", lambda: "does not answer" not in drains.node("node001")["reason"])
    assert drains.node("node001")["state"] == "DRAINED"
    assert drains.node("node001")["reason"].startswith("drained by root (since 20")
    drains("node", "resume", "node001")
    drains("srun", "-Q", "-w", "node001", "true")


def test_a_single_gpu_is_drained_by_index_and_kept_by_uuid(drains: Cluster) -> None:
    assert "node001 has no GPU 9: its GPUs are 0,1,2,3" in drains.refused("node", "drain", "node001:9")
    running = drains.submit("--node-gpu-ids", "node001:1", "--", "sleep", "1000")
    drains.await_running(running)
    said = drains("node", "drain", "node001:1-2", "--reason", "smoke").out
    assert said == f"node001 GPU 1,2: drained; job {running} goes on there\n"
    assert drains.gpus("node001") == ["free", "allocated", "unhealthy", "free"]
    waits = drains.await_job(drains.submit("--node-gpu-ids", "node001:2", "--", "true"), "PENDING", reason="Resources")
    assert "2 drained by root: smoke" in waits["detail"]
    restart(drains)
    drains("cancel", running)
    until("its job is gone", lambda: drains.gpus("node001") == ["free", "unhealthy", "unhealthy", "free"])
    placed = drains.await_running(drains.submit("-w", "node001", "-G", "2", "--", "sleep", "1000"))
    assert placed["allocation"][0]["devices"] == [0, 3]
    assert drains("node", "resume", "node001:1,2").out == "node001 GPU 1,2: resumed\n"
    drains.await_job(waits["job_id"], "COMPLETED")


@pytest.mark.parametrize("fault", ["lost 3", "hidden 3"])
def test_a_gpu_that_is_gone_is_counted_once_and_named_by_its_index(drains: Cluster, lab: Lab, fault: str) -> None:
    running = drains.submit("--node-gpu-ids", "node001:3", "--", "sleep", "1000")
    drains.await_running(running)
    lab.node("node001").gpus.fault(fault)
    try:
        drains("node", "probe", "node001")
        assert drains.gpus("node001") == ["free", "free", "free", "allocated"]
        assert drains("node", "drain", "node001:3").out == f"node001 GPU 3: drained; job {running} goes on there\n"
        drains("cancel", running)
        until("its job is gone", lambda: drains.gpus("node001") == ["free", "free", "free", "unhealthy"])
        assert "drained by root" in drains("nodes").out
        assert drains("node", "resume", "node001:3").out == "node001 GPU 3: resumed\n"
    finally:
        lab.node("node001").gpus.clear()
    drains("node", "probe", "node001")
    assert drains.gpus("node001") == ["free"] * 4


def test_a_gpu_on_which_job_after_job_fails_is_used_last(drains: Cluster) -> None:
    drains.await_running(drains.submit("--node-gpu-ids", "node002:0", "--", "sleep", "1000"))
    for _ in range(3):
        failed = drains.submit("--node-gpu-ids", "node001:0", "--", "false")
        drains.await_job(failed, "FAILED")

    def shown() -> str:
        return str(drains.node("node001")["gpus"][0]["reason"])

    assert shown().startswith("suspect, used last: jobs ")
    restart(drains)
    until("it is free again", lambda: drains.gpus("node001") == ["free"] * 4)
    assert f"{failed} failed there one after the other, each within 60 s, while others ran" in shown()
    placed = drains.await_running(drains.submit("-w", "node001", "--", "sleep", "1000"))
    assert placed["allocation"][0]["devices"] == [1]
    drains("srun", "-Q", "--node-gpu-ids", "node001:0", "true")  # not refused, and clears it
    until("nothing is held against it", lambda: not shown())
