"""mgpu doctor --residue and mgpu node clean: all of ours on the nodes is shown, what is over can be removed."""

from __future__ import annotations

import pytest

from tests.conftest import LabMaker
from tests.end_to_end.cluster import Cluster, until
from tests.end_to_end.conftest import ClusterMaker
from tests.lab import Lab


def age(lab: Lab, seconds: int = 3600) -> None:
    """As if nothing had changed in the run directories for so long."""
    lab.node("node001").run(f"touch -d '-{seconds} seconds' ~/.mgpu/*/node001/*.*")


def kept(cluster: Cluster, *options: str) -> dict[int, str]:
    """Run directories of this database on the first node: job -> condition."""
    [node] = cluster.json("doctor", "--residue", "node001")["nodes"]
    return {run["job_id"]: run["condition"] for run in node["run_directories"] if run["this_database"]}


@pytest.mark.usefixtures("separate_nodes")
def test_what_is_left_is_shown_and_removed_when_it_is_over(make_lab: LabMaker, make_cluster: ClusterMaker) -> None:
    lab = make_lab(nodes=2)  # nobody else has left anything there
    cluster, other = make_cluster(lab), make_cluster(lab)
    ended = cluster.submit("-w", "node001", "echo x")
    cluster.await_job(ended, "COMPLETED")
    runs = cluster.submit("-w", "node001", "sleep 600")
    cluster.await_running(runs)
    theirs = other.submit("-w", "node001", "echo y")
    other.await_job(theirs, "COMPLETED")
    until("it is collected", lambda: kept(cluster) == {ended: "tombstone", runs: "alive"})
    # once it is old, its own master's order to clean up, should that come late, would remove it
    until("theirs, too", lambda: kept(other) == {theirs: "tombstone"})

    shown = cluster("doctor", "--residue")
    assert f"job {ended}.1" in shown.out
    assert "tombstone" in shown.out
    assert "node002  " in shown.out
    assert "lease GPU-" in shown.out
    [node] = cluster.json("doctor", "--residue", "node001")["nodes"]
    assert node["error"] is None
    [strange] = [run for run in node["run_directories"] if not run["this_database"] and run["job_id"] == theirs]
    assert (strange["job_state"], strange["collected"], strange["alive"]) == (None, None, False)
    [mine] = [run for run in node["run_directories"] if run["this_database"] and run["job_id"] == ended]
    assert (mine["job_state"], mine["collected"], mine["alive"]) == ("COMPLETED", True, False)
    [held] = [lease["uuid"] for lease in node["leases"] if lease["held"]]

    young = cluster.json("node", "clean", "node001")
    assert ended in [run["job_id"] for run in young["left"] if "a request still on its way" in run["why"]]
    age(lab)
    answer = cluster.json("node", "clean", "node001")
    assert [run["job_id"] for run in answer["removed"] if run["kind"] == "run_directory"] == [ended]
    assert {run["job_id"]: run["why"] for run in answer["left"] if run.get("this_database")} == {
        runs: "a process of it lives"
    }
    assert [lease["why"] for lease in answer["left"] if lease.get("uuid") == held] == ["a process holds it"]
    assert kept(cluster) == {runs: "alive"}
    assert other.output(theirs) == "y\n"

    assert "give --yes" in cluster.refused("node", "clean", "node001", "--all")
    said = cluster("node", "clean", "node001", "--all", "--yes").out
    assert f"job {theirs}.1" in said.splitlines()[0]
    assert kept(other) == {}
    assert cluster.job(runs)["state"] == "RUNNING"
    # both go on there as before
    assert other("srun", "-w", "node001", "echo", "still").out == "still\n"
    cluster("cancel", runs)
    cluster.await_job(runs, "CANCELLED")
    cluster.idle()


@pytest.mark.usefixtures("separate_nodes")
def test_a_node_that_does_not_answer_is_a_line(cluster: Cluster) -> None:
    node = cluster.lab.node("node002")
    node.fault("link", "drop")
    try:
        result = cluster("doctor", "--residue", check=False)
        assert result.code == 1
        [line] = [line for line in result.lines if line.startswith("node002")]
        assert line.startswith("node002: ")
        assert [line for line in result.lines if line.startswith("node001  ")]
        nodes = {node["node_id"]: node for node in cluster.json("doctor", "--residue", check=False)["nodes"]}
        assert nodes["node001"]["error"] is None
        assert nodes["node002"]["error"]["message"]
    finally:
        node.fault("link", "ok")
    assert "there is no node" in cluster.refused("doctor", "--residue", "node9", code=1)
