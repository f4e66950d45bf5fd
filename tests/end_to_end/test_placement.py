"""Where jobs go: shapes, names, kinds, policies, what is taken by others."""

from __future__ import annotations

import pytest

from tests.conftest import LabMaker
from tests.end_to_end.cluster import Cluster, Word, until
from tests.end_to_end.conftest import ClusterMaker

SHOW = ["sh", "-c", "echo $MGPU_NODE_ID $MGPU_RANK $CUDA_VISIBLE_DEVICES"]

SHAPES = {
    "-w node002": ["node002 0 0"],
    "-w node002 -G 4": ["node002 0 0,1,2,3"],
    "-x node001": ["node002 0 0"],
    "--gpu-ids 3,1": ["node001 0 3,1"],
    "-w node[001-002] --gpu-ids 2": ["node001 0 2", "node002 1 2"],
    "-N 2": ["node001 0 0", "node002 1 0"],
    "-N 2 -G 4": ["node001 0 0,1", "node002 1 0,1"],
    "-N 2 -G 3": ["node001 0 0,1", "node002 1 0"],
    "-N 2 --gpus-per-node 3": ["node001 0 0,1,2", "node002 1 0,1,2"],
    "-G 8": ["node001 0 0,1,2,3", "node002 1 0,1,2,3"],
    "-G 0": ["node001 0"],
    "-G 0 -N 2": ["node001 0", "node002 1"],
    "--node-gpu-ids node002:3;node001:0,2": ["node002 0 3", "node001 1 0,2"],  # the order is that of the ranks
    "--gpu-type A100": ["node001 0 0"],
    "--gpu-type A100|H100": ["node001 0 0"],
    "--gpu-mem 80G": ["node001 0 0"],
}


def placed(cluster: Cluster, *options: Word) -> list[str]:
    """NODE:GPUS of each rank of a job with these options that runs now."""
    job_id = cluster.submit(*options, "--", "sleep", 60)
    return [
        f"{part['node']}:{','.join(map(str, part['devices']))}" for part in cluster.await_running(job_id)["allocation"]
    ]


def shown(cluster: Cluster, *options: Word) -> list[str]:
    """What each rank prints about itself, by rank."""
    lines = cluster("srun", "-Q", *options, *SHOW).lines
    return sorted(lines, key=lambda line: line.split()[1])


def test_shapes(cluster: Cluster) -> None:
    cluster.idle()  # another master's jobs may just have ended on these nodes
    assert {options: shown(cluster, *options.split()) for options in SHAPES} == SHAPES


def test_uneven_numbers_of_gpus_are_told_as_soon_as_they_are_known(cluster: Cluster) -> None:
    for options, counts in (("-G 7", "4, 3"), ("-N 2 -G 3", "2, 1"), ("-N 2 -G 4", ""), ("-G 3", "")):
        told = [line for line in cluster("srun", *options.split(), "true").told if "uneven" in line]
        assert len(told) == bool(counts), options
        assert not told or f"({counts}): many launchers hang on that" in told[0]


def test_ranks_know_each_other(cluster: Cluster) -> None:
    line = "echo $MGPU_RANK $MGPU_NNODES $MGPU_GPUS $MGPU_NODELIST $MASTER_ADDR $MASTER_PORT $SLURM_NODEID"
    first, second = sorted(cluster("srun", "-Q", "-N", 2, "sh", "-c", line).lines)
    address = cluster.lab.node("node001").address
    port = first.split()[-2]
    assert first == f"0 2 2 node[001-002] {address} {port} 0"
    assert second == f"1 2 2 node[001-002] {address} {port} 1"
    assert 1024 < int(port) < 65536


@pytest.mark.usefixtures("separate_nodes")
def test_labels_and_logs_of_one_rank(cluster: Cluster) -> None:
    result = cluster("srun", "-N", 2, "-l", "hostname")
    assert sorted(result.lines) == ["0: node001", "1: node002"]
    [job_id] = {line.split()[2] for line in result.told if "runs on 2 nodes" in line}
    assert cluster.output(int(job_id), "--rank", 1) == "node002\n"


def test_one_rank_that_fails_ends_the_others(cluster: Cluster) -> None:
    result = cluster("srun", "-N", 2, "sh", "-c", "[ $MGPU_RANK = 1 ] && exit 3; sleep 600", check=False)
    assert result.code == 3
    assert "on node002" in result.told[-1]
    cluster.idle()


def test_fill_first_and_spread(cluster: Cluster) -> None:
    assert placed(cluster) == ["node001:0"]
    assert placed(cluster, "--policy", "spread") == ["node002:0"]
    assert placed(cluster, "--policy", "fill_first") == ["node001:1"]
    assert placed(cluster, "-G", 3) == ["node002:1,2,3"]  # never split where it fits on one
    assert placed(cluster, "-G", 2) == ["node001:2,3"]


def test_alone_on_a_node(cluster: Cluster) -> None:
    assert placed(cluster) == ["node001:0"]
    assert placed(cluster, "--exclusive") == ["node002:0,1,2,3"]
    waiting = cluster.submit("--exclusive", "true")
    other = cluster.submit("-w", "node002", "true")
    reasons = cluster.json("why", cluster.await_job(waiting, "PENDING", reason="Resources")["job_id"])["nodes"]
    assert reasons[0]["reason"] == "1 job there, --exclusive needs an empty node"
    assert "has the node for itself alone" in reasons[1]["reason"]
    assert "has the node for itself alone" in cluster("why", other).out


def test_ten_jobs_on_eight_gpus(cluster: Cluster) -> None:
    ids = [cluster.submit("sleep 60") for _ in range(10)]
    for job_id in ids[:8]:
        cluster.await_running(job_id)
    uuids = [uuid for job_id in ids[:8] for part in cluster.job(job_id)["allocation"] for uuid in part["uuids"]]
    assert len(set(uuids)) == 8
    assert cluster.gpus("node001") + cluster.gpus("node002") == ["allocated"] * 8
    for job_id in ids[8:]:
        assert cluster.await_job(job_id, "PENDING")["allocation"] == []
        why = cluster.json("why", job_id)
        assert [node["node"] for node in why["nodes"]] == ["node001", "node002"]
        for node in why["nodes"]:
            assert node["reason"].startswith("4 GPUs, 0 free; ")
            assert "held by job" in node["reason"]
    assert "4 GPUs, 0 free" in cluster("why", ids[9]).out
    cluster("cancel", ids[2], ids[5])
    for job_id in ids[8:]:
        cluster.await_running(job_id)


@pytest.mark.usefixtures("separate_nodes")
def test_outsiders_are_seen_named_and_avoided(cluster: Cluster) -> None:
    node = cluster.lab.node("node001")
    pid = int(node.fault("outsider", 0, "alice"))
    try:
        until("it is seen", lambda: cluster.json("node", "probe", "node001")["gpus"][0]["state"] == "external")
        gpu = cluster.node("node001")["gpus"][0]
        [process] = gpu["processes"]
        assert process["user"] == "alice"
        assert process["pid"] == pid
        assert process["memory_mib"] == 4096
        assert process["command"] == "sleep"
        assert isinstance(process["age_s"], int)
        assert f"alice, pid {pid}, sleep, 4 GiB" in cluster("nodes").out
        assert placed(cluster) == ["node001:1"]
        waiting = cluster.submit("--node-gpu-ids", "node001:0", "echo mine")
        until("the reason", lambda: f"external (alice, pid {pid}" in cluster("why", waiting).out)
    finally:
        node.fault("outsider", "stop")
    cluster.await_job(waiting, "COMPLETED")  # free again by itself


def test_who_comes_to_a_gpu_that_is_allocated_is_a_conflict(cluster: Cluster) -> None:
    """Shown on the node and on the job, which runs on, and told to its owner once."""
    started = cluster.start("srun", "--node-gpu-ids", "node001:2", "--", "sleep", "1000")
    started.read_until("runs on")
    [job_id] = cluster.active_jobs()
    node = cluster.lab.node("node001")
    pid = int(node.fault("outsider", 2, "bob"))
    try:
        until("the conflict", lambda: "conflict" in cluster.json("node", "probe", "node001")["gpus"][2]["reason"])
        assert cluster.node("node001")["gpus"][2]["state"] == "allocated"
        [trouble] = cluster.json("show", "job", job_id)["device_trouble"]
        assert trouble.startswith(f"node001 GPU 2: conflict with bob, pid {pid}, sleep")
        assert f"conflict with bob, pid {pid}" in cluster("show", job_id).out
        told = f"somebody else is on GPU 2 of node001, which this job holds: bob, pid {pid}, sleep"
        started.read_until(told)
    finally:
        node.fault("outsider", "stop")
    until("no conflict", lambda: not cluster.json("node", "probe", "node001")["gpus"][2]["reason"].count("conflict"))
    assert cluster.job(job_id)["state"] == "RUNNING"
    cluster("cancel", job_id)
    assert started.finish().err.count("somebody else") == 1


def test_two_masters_never_share_a_gpu(cluster: Cluster, make_cluster: ClusterMaker) -> None:
    """They do not know of each other; the leases on the nodes do."""
    other = make_cluster(cluster.lab)
    line = "echo $MGPU_NODE_ID $CUDA_VISIBLE_DEVICES; sleep 600"
    ids = [(who, who.submit("-w", "node001", line)) for _ in range(2) for who in (cluster, other)]
    for who, job_id in ids:
        who.await_output(job_id, "node001")
    assert sorted(who.output(job_id) for who, job_id in ids) == [f"node001 {index}\n" for index in range(4)]
    late = other.submit("-w", "node001", "echo late")
    assert other.await_job(late, "PENDING")["allocation"] == []
    cluster("cancel", "--me")
    other.await_job(late, "COMPLETED")
    other.clear()


def test_where_a_gpu_is_lost_the_others_go_by_their_uuid(cluster: Cluster) -> None:
    """CUDA leaves a lost GPU out, so that the indices behind it mean other ones."""
    node = cluster.lab.node("node001")
    node.fault("gpu", "lost", 1)
    try:
        until("the loss is seen", lambda: "lost" in cluster("node", "probe", "node001").out)
        cluster("srun", "-Q", "-w", "node001", "-G", 3, "-J", "three", *SHOW)
        (job,) = cluster.json("history", "--name", "three")["jobs"]
        (part,) = job["allocation"]
        assert part["devices"] == [0, 2, 3]
        assert cluster.output(job["job_id"]) == f"node001 0 {','.join(part['uuids'])}\n"
    finally:
        node.fault("gpu", "ok")
    until("it is back", lambda: "lost" not in cluster("node", "probe", "node001").out)


def test_kinds_of_gpu(make_lab: LabMaker, make_cluster: ClusterMaker) -> None:
    lab = make_lab(nodes=2, gpus=(2, 2), gpu_name="NVIDIA A10")
    names = {"node001": ["NVIDIA GeForce RTX 3090", "NVIDIA A100-SXM4-80GB"], "node002": ["NVIDIA A100-PCIE-40GB"] * 2}
    for node in lab.nodes:
        for index, name in enumerate(names[node.name]):
            node.fault("gpu", "set", index, f"name={name}")
    lab.node("node002").fault("gpu", "set", 0, "memory.total=40960")
    lab.node("node002").fault("gpu", "set", 1, "memory.total=40960")
    cluster = make_cluster(lab)
    until("both are seen", lambda: all(node["gpus"] for node in cluster.json("nodes")["nodes"]))
    assert shown(cluster, "--gpu-type", "3090") == ["node001 0 0"]
    assert shown(cluster, "--gpu-type", "a100-pcie-40gb", "-G", 2) == ["node002 0 0,1"]
    assert shown(cluster, "--gpu-mem", "60G", "--gpu-type", "A100-SXM4-80GB") == ["node001 0 1"]
    assert shown(cluster, "-G", 2) == ["node002 0 0,1"]  # all of one kind
    assert shown(cluster, "-G", 2, "-w", "node001", "--gpu-type", "any") == ["node001 0 0,1"]
    ambiguous = cluster.refused("srun", "--gpu-type", "A100", "true")
    assert ambiguous == (
        "mgpu: --gpu-type 'A100' is ambiguous, it may be: NVIDIA A100-SXM4-80GB, NVIDIA A100-PCIE-40GB: "
        "name one, or allow several: --gpu-type 'NVIDIA A100-SXM4-80GB|NVIDIA A100-PCIE-40GB'"
    )
    assert cluster.refused("srun", "--gpu-type", "A10", "true") == (
        "mgpu: no GPU here is of type A10; the types are: "
        "NVIDIA GeForce RTX 3090, NVIDIA A100-SXM4-80GB, NVIDIA A100-PCIE-40GB"
    )
    assert "of one kind" in cluster.refused("srun", "-G", 3, "true")
