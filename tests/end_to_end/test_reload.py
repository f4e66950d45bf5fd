"""A configuration that changes under a running master: it is taken up without harm to what runs, or refused."""

from __future__ import annotations

import os
import signal

from tests.end_to_end.cluster import QUICK, Cluster, until
from tests.end_to_end.conftest import ClusterMaker
from tests.lab import Lab


def lines_of(lab: Lab) -> list[str]:
    return [line for line in lab.cluster_config().splitlines() if "node_id:" in line]


def rewrite(cluster: Cluster, old: str, new: str) -> None:
    text = cluster.config_path.read_text()
    assert old in text
    cluster.config_path.write_text(text.replace(old, new))


def masters_begun(cluster: Cluster) -> int:
    return (cluster.state_dir / "master.log").read_text().count(": master of ")


def test_a_node_more_and_one_less_while_a_job_streams(lab: Lab, make_cluster: ClusterMaker) -> None:
    first, second = lines_of(lab)[:2]
    cluster = make_cluster(lab, nodes=f"nodes:\n{first}\n")
    ticking = f"i=0; until [ -e ~/{cluster.state_dir.name} ]; do echo $i; i=$((i + 1)); sleep 0.05; done"
    streaming = cluster.start("srun", "-w", "node001", "sh", "-c", ticking)
    streaming.read_until("3\n")
    pid = cluster.master_pid()
    rewrite(cluster, first, f"{first}\n{second}")
    assert cluster("config", "reload").out == "Reloaded; nodes: added node002\n"
    until("the new node", lambda: cluster("srun", "-Q", "-w", "node002", "hostname", check=False).out == "node002\n")
    assert cluster.master_pid() == pid
    rewrite(cluster, f"{first}\n{second}", second)
    refused = cluster.refused("config", "reload")
    still = "nodes that are gone from the inventory still have jobs: node001 (job 1)"
    assert still in refused
    os.kill(pid, signal.SIGHUP)
    until("the log", lambda: f"SIGHUP: {still}" in (cluster.state_dir / "master.log").read_text())
    rewrite(cluster, second, f"{first}\n{second}")
    lab.nodes[0].run(f"touch ~/{cluster.state_dir.name}")
    ended = streaming.finish()
    assert ended.code == 0
    assert ended.lines == [str(number) for number in range(len(ended.lines))]
    rewrite(cluster, f"{first}\n{second}", second)
    assert cluster("config", "reload").out == "Reloaded; nodes: removed node001\n"
    until("the table", lambda: "node001" not in cluster("nodes").out)


def test_faults_leave_the_old_one_in_force(lab: Lab, make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(lab, config=QUICK)
    cluster("nodes")
    rewrite(cluster, "retries:", "retris:")
    refused = cluster.refused("config", "reload")
    assert "retris: unknown key" in refused and "the old configuration stays in force" in refused
    os.kill(cluster.master_pid(), signal.SIGHUP)
    until("the log", lambda: "SIGHUP: " in (cluster.state_dir / "master.log").read_text())
    assert cluster("srun", "-Q", "echo", "on").out == "on\n"
    rewrite(cluster, "retris:", "retries:")
    before = masters_begun(cluster)
    os.kill(cluster.master_pid(), signal.SIGHUP)
    until("another master", lambda: masters_begun(cluster) > before)


def test_an_edit_right_after_the_reload_ends_no_master(lab: Lab, make_cluster: ClusterMaker) -> None:
    """What was checked comes into force, not what stands there a moment later."""
    cluster = make_cluster(lab, config=QUICK)
    pid = cluster("nodes") and cluster.master_pid()
    assert cluster("config", "reload").out.startswith("Reloaded")
    rewrite(cluster, "retries:", "foo: 1\nretries:")
    until("the successor", lambda: cluster("srun", "-Q", "echo", "on", check=False).out == "on\n")
    assert cluster.master_pid() == pid


def test_that_no_node_is_left_must_be_meant(lab: Lab, make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(lab, config=QUICK)
    cluster("nodes")
    text = cluster.config_path.read_text()
    cluster.config_path.write_text("# emptied\n")
    refused = cluster.refused("config", "reload")
    assert "none of the nodes would be left: node[001-002]" in refused and "--yes" in refused
    os.kill(cluster.master_pid(), signal.SIGHUP)
    until("the log", lambda: "SIGHUP: none of the nodes" in (cluster.state_dir / "master.log").read_text())
    assert cluster("nodes").out.startswith("node001")
    assert "removed node001, node002" in cluster("config", "reload", "--yes").out
    cluster.config_path.write_text(text)
    until("the way back", lambda: "added node001" in cluster("config", "reload", check=False).out)


def test_nodes_that_were_never_reached_are_no_loss(lab: Lab, make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(lab, config=QUICK)
    text = cluster.config_path.read_text()
    cluster.config_path.write_text("nodes: [{node_id: typo, ip: 192.0.2.1}]\n")
    cluster("nodes")
    cluster.config_path.write_text(text)
    assert "added node001, node002; removed typo" in cluster("config", "reload").out


def test_many_reloads_at_once(lab: Lab, make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(lab, config=QUICK)
    cluster("nodes")
    begun = [cluster.start("config", "reload") for _ in range(4)]
    assert [each.finish().code for each in begun] == [0] * 4


def test_without_a_master_there_is_nothing_to_reload(lab: Lab, make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(lab)
    assert "no master runs" in cluster.refused("config", "reload", code=69)


def test_nodes_are_added_and_removed(lab: Lab, make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(lab)
    text = cluster.config_path.read_text()
    head, _, rest = text.partition("nodes:\n")
    folder = cluster.home / "inventory"
    folder.mkdir()
    (folder / "nodes.yaml").write_text(f"nodes:\n{lines_of(lab)[0]}\n")
    tail = "".join(line for line in rest.splitlines(keepends=True) if "node_id:" not in line)
    cluster.config_path.write_text(f"{head}inventory: inventory/\n{tail}")
    assert cluster("nodes").out.startswith("node001")
    second = lab.nodes[1]
    words = ["--ip", second.address, "--port", second.port, "--gpu-count", 4]
    told = cluster("node", "add", second.name, *words).out
    assert told == f"node002 stands in {folder}/added.yaml; next: mgpu node trust node002; mgpu nodes\n"
    until("the new node", lambda: cluster("srun", "-Q", "-w", "node002", "true", check=False).code == 0)
    assert "node002" in cluster.refused("node", "add", second.name)  # a second one of that name
    assert "does not stand in" in cluster.refused("node", "remove", "node001")
    assert "there is no node 'node003'" in cluster.refused("node", "remove", "node003", code=1)
    assert "did you mean 'node001'?" in cluster.refused("node", "remove", "noed001", code=1)
    job_id = cluster.submit("-w", "node002", "--", "sleep", "1000")
    cluster.await_running(job_id)
    assert f"still have jobs: node002 (job {job_id})" in cluster.refused("node", "remove", "node002")
    assert "node002" in (folder / "added.yaml").read_text()
    cluster("cancel", job_id)
    cluster.await_job(job_id, "CANCELLED")
    until("its removal", lambda: cluster("node", "remove", "node002", check=False).code == 0)
    assert not (folder / "added.yaml").exists()
    until("the table", lambda: "node002" not in cluster("nodes").out)
