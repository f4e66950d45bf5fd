"""Ranks that cannot reach each other are told so in seconds, before anything runs; and where they meet is where they
really reach each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.conftest import LabMaker
from tests.end_to_end.cluster import Cluster
from tests.end_to_end.conftest import ClusterMaker
from tests.lab import Lab, Settings, choose_mode

WHERE = 'echo "$MGPU_NODE_ID $MASTER_ADDR"'


@pytest.fixture(scope="module")
def separate_lab() -> None:
    if choose_mode() != "namespaces":
        pytest.skip("needs nodes in namespaces (root)")


@pytest.fixture(scope="module")
def trio(swept: None, lab_prefix, separate_lab: None) -> Iterator[Cluster]:
    """Three nodes of two GPUs."""
    with Lab(Settings(nodes=3, gpus=2, ephemeral=True), lab_prefix()) as lab, closing(Cluster(lab, "meet")) as cluster:
        cluster("nodes")
        yield cluster


@pytest.fixture
def meeting(trio: Cluster) -> Iterator[Cluster]:
    """With a master that knows nothing of its nodes yet."""
    trio("stop")
    yield trio
    for node in trio.lab.nodes:
        node.fault("link", "ok")
    trio.clear()


def test_a_wall_between_two_nodes_is_told_before_anything_runs(meeting: Cluster) -> None:
    meeting.lab.node("node001").fault("link", "shut", "1024-65535")
    done = meeting("srun", "-N", 2, "-w", "node001,node002", "--", "true", check=False)
    assert done.code == 1
    (line,) = [line for line in done.told if "cannot reach" in line]
    address = meeting.lab.node("node001").address
    assert f"node002 cannot reach node001 at {address}:2" in line
    assert "timed out (a firewall? network.address in the inventory names another address; mgpu preflight -w" in line
    (job,) = [job for job in meeting.json("history")["jobs"] if "cannot reach" in str(job)]
    assert (job["state"], job["reason"], job["attempt"], job["exit_code"]) == ("FAILED", "LaunchFailed", 1, None)
    assert {name: meeting.gpus(name) for name in ("node001", "node002")} == {
        "node001": ["free"] * 2,
        "node002": ["free"] * 2,
    }
    assert {node["state"] for node in meeting.json("nodes")["nodes"]} == {"UP"}


def test_a_port_that_is_turned_down_is_no_secret_either(meeting: Cluster) -> None:
    meeting.lab.node("node002").fault("link", "shut", "1024-65535", "reject")
    done = meeting("srun", "-N", 2, "-w", "node001,node002", "--", "true", check=False)
    assert done.code == 1
    assert "node001 cannot reach node002" in done.err
    assert ": refused (" in done.err


def test_other_nodes_are_taken_where_there_are_some(meeting: Cluster) -> None:
    meeting.lab.node("node001").fault("link", "shut", "1024-65535", "reject")
    done = meeting("srun", "-N", 2, "--gpus-per-node", 2, "--", "sh", "-c", WHERE)
    address = meeting.lab.node("node002").address
    assert sorted(done.lines) == [f"node002 {address}", f"node003 {address}"]
    assert "attempt 2" in done.err


def test_a_node_without_the_programs_for_it_is_given_the_benefit_of_the_doubt(meeting: Cluster) -> None:
    node = meeting.lab.node("node001")
    hidden = (
        "for tool in perl python3 nc socat; do for place in $(which -a $tool); do mv $place $place.away; done; done"
    )
    back = "for place in /usr/bin/*.away /usr/local/bin/*.away; do mv $place ${place%.away}; done"
    node.run(hidden, user="root", check=False)
    try:
        assert not node.run("command -v perl python3 nc socat", check=False).stdout
        done = meeting("srun", "-N", 2, "-w", "node001,node002", "--", "sh", "-c", WHERE)
    finally:
        node.run(back, user="root", check=False)
    assert sorted(done.lines) == [f"node001 {node.address}", f"node002 {node.address}"]


def test_a_name_of_its_own_for_a_loopback_is_of_no_account(meeting: Cluster) -> None:
    node = meeting.lab.node("node001")
    node.run("echo 127.0.1.1 node001 >>/etc/hosts", user="root")
    done = meeting("srun", "-N", 2, "-w", "node001,node002", "--", "sh", "-c", f"{WHERE}; getent hosts node001")
    assert f"node002 {node.address}" in done.lines
    assert f"node001 {node.address}" in done.lines


def test_nodes_that_are_one_machine_meet_on_its_loopback(make_lab: LabMaker, make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(make_lab(nodes=2, gpus=2, mode="loopback"))
    done = cluster("srun", "-N", 2, "--", "sh", "-c", WHERE)
    assert sorted(done.lines) == ["node001 127.0.0.1", "node002 127.0.0.1"]
