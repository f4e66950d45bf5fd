"""What keeps jobs from GPUs besides other jobs: the owner, the site's check, MIG; and what a node tells of itself."""

from __future__ import annotations

import re
import secrets
from pathlib import Path

import pytest

from tests.end_to_end.cluster import QUICK, Cluster
from tests.end_to_end.conftest import ClusterMaker
from tests.lab import Lab

MIG = """#!/bin/sh
case $* in
--query-gpu=*)
  echo '0, GPU-11111111-0000-0000-0000-000000000000, 00000000:01:00.0, NVIDIA H100 80GB HBM3, 81559, 40, [N/A], Default, Enabled, 41, 71.2, 0, No, None' ;;
'-q -d PIDS') printf 'GPU 00000000:01:00.0\\n    Processes                             : None\\n' ;;
-L)
  echo 'GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-11111111-0000-0000-0000-000000000000)'
  echo '  MIG 1g.10gb     Device  0: (UUID: MIG-@MARK@-0000-0000-0000-000000000000)'
  echo '  MIG 1g.10gb     Device  1: (UUID: MIG-@MARK@-0000-0000-0000-000000000001)' ;;
'')
  echo '|  0    9   0   0  |               9MiB /  9984MiB    | 16      0 |  1   0    1    0    1 |'
  echo '|  0   10   0   1  |               9MiB /  9984MiB    | 16      0 |  1   0    1    0    1 |' ;;
*) exit 2 ;;
esac
"""  # noqa: E501


@pytest.mark.usefixtures("separate_nodes")
def test_the_owner_keeps_the_machine(cluster: Cluster) -> None:
    cluster.lab.node("node001").run("echo 'demo until 5 pm' >/tmp/mgpu.keepout")
    try:
        cluster("node", "probe", "node001")
        job_id = cluster.submit("-w", "node001", "--", "true")
        waits = cluster.await_job(job_id, "PENDING", reason="ReqNodeNotAvail")
        assert waits["detail"].endswith("(mgpu.keepout on the node): demo until 5 pm")
        cluster("srun", "-Q", "true")  # elsewhere, jobs start
    finally:
        cluster.lab.node("node001").run("rm -f /tmp/mgpu.keepout")
    cluster("node", "probe", "node001")
    cluster.await_job(job_id, "COMPLETED")


@pytest.mark.usefixtures("separate_nodes")
def test_the_sites_own_check_keeps_jobs_from_a_node(lab: Lab, make_cluster: ClusterMaker) -> None:
    check = "health: {check: 'test ! -e /tmp/broken || { echo the disk is broken; exit 1; }'}\n"
    cluster = make_cluster(lab, config=QUICK + check)
    cluster("nodes")
    running = cluster.submit("-w", "node001", "--", "sleep", "1000")
    cluster.await_running(running)
    lab.node("node001").run("touch /tmp/broken")
    try:
        cluster("node", "probe", "node001")
        job_id = cluster.submit("-w", "node001", "--", "true")
        waits = cluster.await_job(job_id, "PENDING", reason="ReqNodeNotAvail")
        assert waits["detail"] == "node001: health check failed: the disk is broken"
        assert cluster.job(running)["state"] == "RUNNING"
    finally:
        lab.node("node001").run("rm -f /tmp/broken")
    cluster("node", "probe", "node001")
    cluster.await_job(job_id, "COMPLETED")


@pytest.mark.usefixtures("separate_nodes")
def test_instances_of_a_gpu_that_is_cut_up(lab: Lab, make_cluster: ClusterMaker, tmp_path: Path) -> None:
    """Two jobs on two instances, each named by its own UUID; the third waits, and nobody gets the GPU itself."""
    home = lab.node("node001").run("echo ~").stdout.strip()
    mark = secrets.token_hex(4)
    lab.node("node001").run(f"cat >~/mig-smi <<'END'\n{MIG.replace('@MARK@', mark)}END\nchmod +x ~/mig-smi")
    line = next(line for line in lab.cluster_config().splitlines() if "node_id: node001" in line)
    line = re.sub(r", gpu_count: \d+", f", nvidia_smi: {home}/mig-smi", line)
    cluster = make_cluster(lab, nodes=f"nodes:\n{line}\n")
    shown = cluster("nodes").out
    assert cluster.gpus("node001") == ["free", "free"]
    assert "0.0" in shown and "0.1" in shown and "MIG 1g.10gb" in shown
    refused = cluster.refused("submit", "-G", "1", "--", "true")
    assert "no GPU is left that fits" in refused or "MIG" in refused
    say = "echo $CUDA_VISIBLE_DEVICES; sleep 1000"
    jobs = [cluster.submit("--gpu-type", "1g.10gb", "--", "sh", "-c", say) for _ in range(3)]
    for number, job_id in enumerate(jobs[:2]):
        cluster.await_running(job_id)
        cluster.await_output(job_id, f"MIG-{mark}-0000-0000-0000-00000000000{number}")
    cluster.await_job(jobs[2], "PENDING", reason="Resources")
    assert "node001:0.1" in cluster("queue").out


@pytest.mark.usefixtures("separate_nodes")
@pytest.mark.parametrize(("how", "who"), [("noaccess", "root"), ("invisible", "unknown user")])
def test_processes_that_the_node_hides_from_others(lab: Lab, make_cluster: ClusterMaker, how: str, who: str) -> None:
    """Where /proc is mounted so, only nvidia-smi tells of those of other accounts: here, of the node's first one."""
    node = lab.node("node001")
    smi = f"""#!/bin/sh
case $* in
--query-gpu=*) echo '0, GPU-{secrets.token_hex(4)}, 00000000:01:00.0, NVIDIA A100, 81920, 40, 0, Default, Disabled, 41, 71, 0, No, None' ;;
'-q -d PIDS') printf 'GPU 00000000:01:00.0\\n Processes\\n Process ID : 1\\n Used GPU Memory : 9 MiB\\n' ;;
esac
"""  # noqa: E501
    home = node.run("echo ~").stdout.strip()
    node.run(f"cat >~/one-smi <<'END'\n{smi}END\nchmod +x ~/one-smi")
    line = next(line for line in lab.cluster_config().splitlines() if "node_id: node001" in line)
    cluster = make_cluster(
        lab, nodes=f"nodes:\n{re.sub(r', gpu_count: [0-9]+', f', nvidia_smi: {home}/one-smi', line)}\n"
    )
    node.run(f"mount -o remount,hidepid={how} /proc", "root")
    try:
        assert f"external  {who}, pid 1, ?, 9 MiB" in cluster("nodes").out
    finally:
        node.run("mount -o remount,hidepid=off /proc", "root")


def test_what_a_node_tells_of_itself(cluster: Cluster) -> None:
    found = cluster.json("show", "node", "node001", "--json")["machine"]
    assert found["cpus"] > 0
    assert found["driver"] and found["cuda"] and found["nvlink"]
    assert {"load", "memory_total_mib", "memory_available_mib", "disk_free_mib", "clock_offset_s"} <= set(found)
    told = cluster("show", "node", "node001").out
    assert "NVLink  0-1 x4" in told and "driver" in told


@pytest.mark.usefixtures("separate_nodes")
@pytest.mark.parametrize("obstruct", ["touch {0}", "ln -s / {0}", "mkdir -m 0 {0}"])
def test_a_gpu_whose_lease_somebody_obstructs_is_left_alone(cluster: Cluster, obstruct: str) -> None:
    node = cluster.lab.node("node001")
    cluster("node", "probe", "node001")
    path = f"/tmp/mgpu.lease.{node.gpus.uuid(0)}"
    node.run(f"rm -rf {path}; {obstruct.format(path)}")
    try:
        placed = cluster.await_job(cluster.submit("-w", "node001", "--", "true"), "COMPLETED")
        assert placed["allocation"][0]["devices"] == [1]
        assert cluster.gpus("node001") == ["unknown", "free", "free", "free"]
        assert f"lock path obstructed by something of {node.user}: {path}" in cluster("nodes").out
    finally:
        node.run(f"rm -rf {path}")
    cluster("node", "probe", "node001")
    assert cluster.gpus("node001") == ["free"] * 4


@pytest.mark.usefixtures("separate_nodes")
def test_a_node_that_refused_a_start_is_looked_at_before_the_next(lab: Lab, make_cluster: ClusterMaker) -> None:
    """Retries are not used up by what a look from before the refusal says."""
    cluster = make_cluster(lab, config=QUICK.replace("heartbeat_interval: 1", "heartbeat_interval: 30"))
    node = lab.node("node001")
    path = f"/tmp/mgpu.lease.{node.gpus.uuid(0)}"
    cluster("node", "probe", "node001")
    node.run(f"rm -rf {path}; touch {path}")
    try:
        placed = cluster.await_job(cluster.submit("-w", "node001", "--", "true"), "COMPLETED")
        assert (placed["allocation"][0]["devices"], placed["attempt"]) == ([1], 2)
    finally:
        node.run(f"rm -rf {path}")


@pytest.mark.usefixtures("separate_nodes")
def test_an_nvidia_smi_without_end_is_a_fault_of_its_node_alone(lab: Lab, make_cluster: ClusterMaker) -> None:
    home = lab.node("node001").run("echo ~").stdout.strip()
    lab.node("node001").run("printf '#!/bin/sh\\nyes 0, GPU-1, A100, 81920\\n' >~/endless-smi; chmod +x ~/endless-smi")
    lines = [line for line in lab.cluster_config().splitlines() if "node_id: node00" in line]
    lines[0] = re.sub(r", gpu_count: \d+", f", nvidia_smi: {home}/endless-smi", lines[0])
    cluster = make_cluster(lab, nodes="nodes:\n" + "\n".join(lines) + "\n")
    assert "nvidia-smi printed more than 1024 KiB: not its usual output" in cluster("nodes").out
    assert cluster.gpus("node001") == []
    cluster("srun", "-Q", "-w", "node002", "true")
