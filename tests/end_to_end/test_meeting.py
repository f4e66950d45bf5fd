"""Ranks that cannot reach each other are told so in seconds, before anything runs; and where they meet is where they
really reach each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.conftest import LabMaker
from tests.end_to_end.cluster import Cluster
from tests.end_to_end.conftest import ClusterMaker
from tests.lab import Lab, Settings

WHERE = 'echo "$MGPU_NODE_ID $MASTER_ADDR"'


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


def test_preflight_says_the_same_and_then_that_all_is_well(meeting: Cluster) -> None:
    node = meeting.lab.node("node001")
    node.fault("link", "shut", "1024-65535")
    bad = meeting("preflight", "-w", "node001,node002", check=False)
    assert bad.code == 1
    (line,) = [line for line in bad.lines if line.startswith("  failure")]
    assert bad.lines[-1].startswith("2 nodes: ")
    assert "1 failure" in bad.lines[-1]
    assert f"node002 cannot reach node001 at {node.address}:2" in line
    assert "timed out -> a firewall: open ports 20000-29999" in line
    assert meeting("srun", "-N", 2, "-w", "node001,node002", "--", "true", check=False).code == 1
    node.fault("link", "ok")
    good = meeting("preflight", "--nodes", 2)
    assert good.lines[0] == "node[001-002]"
    assert f"node001 is reached by node002 at {node.address} (where the master reaches it too), ports 2" in good.out
    # what it has seen counts for jobs, too
    assert meeting("srun", "-N", 2, "-w", "node001,node002", "--", "true").code == 0
    assert not meeting.lab.node("node001").run("ls -d /home/train/.mgpu.*", check=False).stdout


def test_preflight_as_a_document(meeting: Cluster) -> None:
    told = meeting.json("preflight", "-w", "node003,node001", cwd=Path("/tmp"))
    assert told["nodes"] == ["node003", "node001"]
    assert {way["result"] for way in told["ways"]} == {"ok"}
    assert {(way["from"], way["to"]) for way in told["ways"]} == {("node003", "node001"), ("node001", "node003")}
    checks = {finding["check"]: finding for finding in told["findings"]}
    assert {"way", "interface", "driver", "cuda", "clock", "directory"} <= checks.keys()
    assert {finding["status"] for finding in told["findings"]} <= {"ok", "warning"}


def test_preflight_of_nodes_that_there_are_not(meeting: Cluster) -> None:
    assert "4 nodes were asked for, 3 would do" in meeting.refused("preflight", "-N", 4)
    assert "there is no node 'node009'" in meeting.refused("preflight", "-w", "node00[1,9]", code=1)
    assert "no node is of a partition 'nowhere'" in meeting.refused("preflight", "-p", "nowhere")
    assert "nodes are named or counted, not both" in meeting.refused("preflight", "-N", 2, "-w", "node001,node002")
    assert "two nodes are needed" in meeting.refused("preflight", "-w", "node001")
    assert "--nodes must be a number" in meeting.refused("preflight", "-N", "some")


def test_preflight_sees_a_node_as_a_job_would(meeting: Cluster) -> None:
    """Its own idea of its name, and interfaces that are called otherwise."""
    first, second = meeting.lab.node("node001"), meeting.lab.node("node002")
    first.run("cp /etc/hosts /root/hosts; echo 127.0.1.1 node001 >/etc/hosts", user="root")
    second.run("ip link set eth0 name eno1; ip link set eno1 up", user="root", check=False)
    try:
        found = meeting("preflight", "-w", "node001,node002").out
        assert "node001 takes its own name, node001, for 127.0.1.1" in found
        assert "node001 goes to node002 over eth0" in found
        assert "node002 goes to node001 over eno1" in found
        assert meeting("srun", "-N", 2, "-w", "node001,node002", "--", "true").code == 0
    finally:
        first.run("cp /root/hosts /etc/hosts", user="root")
        second.run("ip link set eno1 down; ip link set eno1 name eth0; ip link set eth0 up", user="root", check=False)


PYTHON = r"""#!/bin/sh
echo python 3.9.1
echo torch 2.5.1+cu124 12.4
"""


def test_preflight_sees_python_as_a_job_of_this_user_would(meeting: Cluster) -> None:
    node = meeting.lab.node("node001")
    make = (
        f"mkdir -p /opt/theirs/bin; cat >/opt/theirs/bin/python <<'EOF'\n{PYTHON}EOF\nchmod 755 /opt/theirs/bin/python"
    )
    node.run(make, user="root")
    try:
        found = meeting("preflight", "-w", "node001,node002", env={"VIRTUAL_ENV": "/opt/theirs"}).out
    finally:
        node.run("rm -r /opt/theirs", user="root")
    assert "Python differs: 3.9.1 on node001; 3." in found
    assert "PyTorch differs: 2.5.1+cu124 (CUDA 12.4) on node001; none on node002" in found


def test_preflight_sees_what_is_shared(make_lab: LabMaker, make_cluster: ClusterMaker, separate_lab: None) -> None:
    cluster = make_cluster(make_lab(nodes=2, gpus=1, shared_home=True))
    cluster("nodes")
    found = cluster("preflight", cwd=Path("/tmp")).out
    assert "ok       directory    home (~) is one directory for all" in found
    assert "ok       directory    this directory (/tmp) is not shared: what is made there on node001" in found
    for node in cluster.lab.nodes:
        assert not node.run("ls -A ~ /tmp | grep '^.mgpu[.]'", check=False).stdout


def test_a_port_that_is_turned_down_is_no_secret_either(meeting: Cluster) -> None:
    meeting.lab.node("node002").fault("link", "shut", "1024-65535", "reject")
    done = meeting("srun", "-N", 2, "-w", "node001,node002", "--", "true", check=False)
    assert done.code == 1
    assert "node001 cannot reach node002" in done.err
    assert ": refused (" in done.err


def test_a_firewall_that_lets_only_the_range_through_is_found_as_well(meeting: Cluster) -> None:
    meeting.lab.node("node002").fault("link", "shut", "30000-65535", "reject")
    done = meeting("srun", "-N", 2, "-w", "node001,node002", "--", "true", check=False)
    assert done.code == 1
    assert "node001 cannot reach node002" in done.err
    assert "(a port of the kernel's choice, as NCCL and gloo take them): refused (" in done.err


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
