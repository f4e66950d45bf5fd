"""Jobs that wait because of a node: the reason is shown at once, and what mends it makes them run."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.conftest import LabMaker
from tests.end_to_end.cluster import Cluster, until
from tests.end_to_end.conftest import ClusterMaker
from tests.lab import Lab


@pytest.fixture(scope="module")
def troubled(lab: Lab) -> Iterator[Cluster]:
    """A master of its own, which never saw the nodes before the trouble began."""
    with closing(Cluster(lab, "troubled")) as made:
        yield made


def test_a_node_that_is_down(troubled: Cluster) -> None:
    node = troubled.lab.node("node002")
    node.fault("sshd", "stop")
    try:
        follower = troubled.start("srun", "-w", "node002", "echo", "ran")
        follower.read_until("waits: ")
        follower.read_until("node002")
        until("the node is down", lambda: troubled.node("node002")["state"] == "DOWN")
        assert "refused" in troubled.node("node002")["reason"].lower()
        assert "DOWN" in troubled("nodes").out
        assert follower.running
    finally:
        node.fault("sshd", "start")
    result = follower.finish()
    assert (result.code, result.out) == (0, "ran\n")


def test_no_nvidia_smi(troubled: Cluster) -> None:
    node = troubled.lab.node("node001")
    node.fault("gpu", "missing")
    try:
        troubled("node", "probe", "node001")
        follower = troubled.start("srun", "-w", "node001", "echo", "ran")
        follower.read_until("nvidia-smi not found")
        follower.read_until("/usr/bin")  # the PATH that was searched
        assert troubled("srun", "-Q", "-G", 0, "-w", "node001", "echo", "no GPU needed").out == "no GPU needed\n"
    finally:
        node.fault("gpu", "ok")
    assert follower.finish().code == 0


def test_a_node_that_answers_slowly_delays_no_job_that_another_could_take(lab: Lab, make_cluster: ClusterMaker) -> None:
    """Both are idle, and the first of the inventory would be taken if it answered."""
    cluster = make_cluster(lab)
    until("both were seen", lambda: cluster("srun", "-Q", "-N", 2, "true", check=False).code == 0)
    node = cluster.lab.node("node001")
    node.fault("gpu", "slow", "30")
    try:
        time.sleep(5.1)  # what was seen is too old to give GPUs out by
        assert cluster("srun", "-Q", "sh", "-c", "echo $MGPU_NODELIST").out.strip() == "node002"
    finally:
        node.fault("gpu", "ok")


def test_a_host_key_that_nobody_knows(lab: Lab, make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(lab)
    stranger = cluster.home / "known_hosts"
    config = cluster.config_path.read_text()
    cluster.config_path.write_text(config.replace(str(lab.known_hosts), str(stranger)))
    stranger.write_text("")
    follower = cluster.start("srun", "-w", "node001", "echo", "ran")
    follower.read_until("mgpu node trust node001")
    assert "fingerprints" in cluster.refused("node", "trust", "node001")
    wrong = cluster.refused("node", "trust", "node001", "--fingerprint", "SHA256:none", code=1)
    assert "shows no such key but SHA256:" in wrong
    words = ["ssh-keygen", "-lf", str(lab.node("node001").folder / "host_key.pub")]
    fingerprint = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()[1]
    trusted = cluster("node", "trust", "node001", "--fingerprint", fingerprint).lines
    assert trusted[0] == "node001: 1 host key trusted"
    assert re.match(r"node001: \d GPUs: ", trusted[1])
    result = follower.finish()
    assert (result.code, result.out) == (0, "ran\n")
    assert "trusted already" in cluster("node", "trust", "node001").out
    stranger.write_text(f"@revoked * {lab.known_hosts.read_text().splitlines()[0].split(' ', 1)[1]}\n")
    assert "is revoked" in cluster.refused("node", "trust", "node001", "--yes", code=77)
    assert cluster.node("node002")["reason"] != ""  # only the one


def test_a_host_key_that_changed(make_lab: LabMaker, make_cluster: ClusterMaker) -> None:
    lab = make_lab(nodes=1)
    cluster = make_cluster(lab)
    cluster("srun", "true")
    text = lab.known_hosts.read_text()
    other = subprocess.run(
        ["sh", "-c", f"ssh-keygen -qt ed25519 -N '' -f {cluster.home}/k && cut -d' ' -f2 {cluster.home}/k.pub"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    old = text.split()[2]
    lab.known_hosts.write_text(text.replace(old, other))
    cluster("stop")
    cluster("nodes")
    until("it is refused", lambda: "changed" in cluster.node("node001")["reason"])
    assert "SHA256:" in cluster.node("node001")["reason"]
    refused = cluster.refused("node", "trust", "node001", "--yes", code=77)
    assert "have changed" in refused
    # the command that it gives is typed as it stands
    removal, then = refused.rpartition("if you know why: ")[2].strip().split(" && ")
    assert removal in cluster.node("node001")["reason"]
    subprocess.run(["sh", "-c", removal], check=True, capture_output=True)
    assert then == "mgpu node trust node001"
    cluster("node", "trust", "node001", "--yes")
    cluster("srun", "true")


def test_an_encrypted_key_and_no_agent(lab: Lab, make_cluster: ClusterMaker) -> None:
    """Told in seconds: nobody is asked for a passphrase."""
    cluster = make_cluster(lab)
    key = cluster.home / "locked"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", str(key)], check=True)
    config = cluster.config_path.read_text()
    cluster.config_path.write_text(config.replace(str(lab.key), str(key)))
    follower = cluster.start("srun", "-w", "node001", "true")
    follower.read_until("encrypted")
    follower.read_until("ssh-add")
    assert str(key) in follower.err
    follower.abandon()


@pytest.mark.usefixtures("separate_nodes")
def test_a_node_refuses_the_key(lab: Lab, make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(lab)
    key = cluster.home / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    config = cluster.config_path.read_text()
    cluster.config_path.write_text(config.replace(str(lab.key), str(key)))
    follower = cluster.start("srun", "-w", "node001", "true")
    follower.read_until("1 key offered, none accepted for train")
    follower.abandon()


def test_every_node_with_its_reason(troubled: Cluster) -> None:
    nodes = troubled.lab.nodes
    troubled("nodes")
    until("both are up", lambda: all(troubled.node(node.name)["state"] == "UP" for node in nodes))
    nodes[1].fault("gpu", "fail", 9)
    try:
        troubled("node", "probe", "node002")
        job_id = troubled.submit("-G", 4, "-x", "node001", "true")
        job = troubled.await_job(job_id, "PENDING", reason="GpusUnknown")
        reasons = {node["node"]: node["reason"] for node in json.loads(troubled("--json", "why", job_id).raw)["nodes"]}
        assert reasons["node001"] == "excluded by the job"
        assert "the NVIDIA driver is not running" in reasons["node002"]
        assert job["detail"] == f"node002: {reasons['node002']}"
    finally:
        nodes[1].fault("gpu", "ok")
    troubled.await_job(job_id, "COMPLETED")


def test_its_place_and_start_on_a_terminal(cluster: Cluster) -> None:
    running = cluster.submit("-t", 30, "-G", 8, "--", "sleep", 60)
    cluster.await_running(running)
    waiting = cluster.submit("-t", 10, "-G", 8, "--", "true")
    terminal = cluster.terminal("srun", "-t", 1, "-G", 8, "true")
    terminal.read_until("(1 before it, expected ")
    terminal.read_until("node001:0-3")
    cluster("cancel", waiting)
    terminal.read_until("(next in line, expected ")
    terminal.type("\x03")
    assert terminal.finish() == 130
