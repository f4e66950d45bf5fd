"""Trouble with a job on several nodes: all of it starts or nothing, all of it ends, what is out of sight is held."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing

import pytest

from mgpu.core.model import JobId
from mgpu.core.ports import meeting_port
from tests.conftest import LabMaker
from tests.end_to_end.cluster import QUICK, Cluster, until
from tests.end_to_end.conftest import ClusterMaker
from tests.lab import Lab, Settings

LISTEN = """
import socket, sys, time
other = socket.create_server(("", int(sys.argv[1])))
print("listening", flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def trio(swept: None, lab_prefix, separate_lab: None) -> Iterator[Cluster]:
    """Three nodes of four GPUs, to be hurt and mended."""
    with Lab(Settings(nodes=3, ephemeral=True), lab_prefix()) as lab, closing(Cluster(lab, "trio")) as cluster:
        cluster("nodes")
        yield cluster


@pytest.fixture
def gang(trio: Cluster) -> Iterator[Cluster]:
    yield trio
    for node in trio.lab.nodes:
        node.fault("link", "ok")
    trio.clear()


def parts(cluster: Cluster, job_id: int) -> dict[str, str]:
    return {part["node"]: part["state"] for part in cluster.job(job_id)["allocation"]}


def test_a_node_that_is_lost_in_the_middle_keeps_its_gpus_and_goes_on(gang: Cluster) -> None:
    job_id = gang.submit("-w", "node001,node002", "--gpus-per-node", 2, "--", "sh", "-c", "sleep 5; exit $MGPU_RANK")
    gang.await_running(job_id)
    gang.lab.node("node002").fault("link", "drop")
    lost = gang.await_job(job_id, "RUNNING", reason="ContactLost")
    assert "contact lost with node002" in lost["detail"]
    assert parts(gang, job_id)["node002"] == "LOST"
    until("the other has ended", lambda: parts(gang, job_id)["node001"] == "ENDED")
    # what is out of sight is given to nobody
    assert [state for state in gang.gpus("node002") if state != "free"][:2] == ["allocated", "allocated"]
    waiting = gang.submit("-w", "node002", "--", "true")
    assert gang.await_job(waiting, "PENDING", reason="ReqNodeNotAvail")["allocation"] == []
    gang.lab.node("node002").fault("link", "ok")
    ended = gang.await_job(job_id, patience_s=60)
    assert (ended["state"], ended["exit_code"], ended["attempt"]) == ("FAILED", 1, 1)
    assert "node002" in ended["detail"]
    gang.await_job(waiting, "COMPLETED", patience_s=60)


def test_a_node_that_is_lost_while_it_is_stopped(gang: Cluster) -> None:
    job_id = gang.submit("-w", "node001,node002", "--", "sleep", "600")
    gang.await_running(job_id)
    gang.lab.node("node002").fault("link", "drop")
    gang("cancel", job_id)
    until("it has ended where it could be told", lambda: parts(gang, job_id)["node001"] == "ENDED")
    gang.await_job(job_id, "RUNNING", reason="ContactLost")
    assert gang.gpus("node001") == ["free"] * 4
    assert "allocated" in gang.gpus("node002")
    gang.lab.node("node002").fault("link", "ok")
    assert gang.await_job(job_id, patience_s=60)["state"] == "CANCELLED"
    assert gang.lab.node("node002").run("pgrep -f 'sleep [6]00'", check=False).stdout == ""


def test_a_node_that_reboots_is_avoided_by_the_next_try(gang: Cluster) -> None:
    script = "echo $MGPU_ATTEMPT $MGPU_RANK $MGPU_NODE_ID; [ $MGPU_ATTEMPT = 2 ] || sleep 600"
    job_id = gang.submit("-N", 2, "--gpus-per-node", 4, script)
    first = gang.await_running(job_id)
    assert [part["node"] for part in first["allocation"]] == ["node001", "node002"]
    gang.lab.node("node001").fault("reboot")
    ended = gang.await_job(job_id, "COMPLETED", patience_s=60)
    assert ended["attempts"][0]["reason"] == "on node001: the node rebooted"
    lines = [gang.output(job_id, "--rank", rank, "--attempt", 2) for rank in (0, 1)]
    assert lines == ["2 0 node002\n", "2 1 node003\n"]
    gang.idle()


def test_ranks_stay_as_they_were_asked_for_over_tries(gang: Cluster) -> None:
    words = ("--retries", 1, "--node-gpu-ids", "node003:2;node001:0,1", "--", "sh", "-c")
    job_id = gang.submit(*words, "echo $MGPU_RANK $MGPU_NODE_ID $CUDA_VISIBLE_DEVICES; exit $((2 - MGPU_ATTEMPT))")
    gang.await_job(job_id, "COMPLETED", patience_s=60)
    for attempt in (1, 2):
        lines = [gang.output(job_id, "--rank", rank, "--attempt", attempt) for rank in (0, 1)]
        assert lines == ["0 node003 2\n", "1 node001 0,1\n"]


def test_a_node_that_does_not_answer_starts_nothing_anywhere(gang: Cluster) -> None:
    """It hangs between its last sign of life and the start: the others wait for it, and nothing runs twice."""
    mark = f"once-{os.getpid()}"
    gang("node", "probe", "--all")
    gang.lab.node("node002").fault("sshd", "freeze")
    job_id = gang.submit("-w", "node001,node002", "--", "sh", "-c", f"echo run >>/tmp/{mark}")
    gang.await_job(job_id, "RUNNING", reason="ContactLost")
    assert gang.job(job_id)["start_time"] is None
    gang.lab.node("node002").fault("sshd", "thaw")
    ended = gang.await_job(job_id, patience_s=60)
    assert ended["state"] == "COMPLETED"
    for name in ("node001", "node002"):
        assert gang.lab.node(name).run(f"cat /tmp/{mark}").stdout == "run\n"


def test_a_word_against_it_beside_one_for_it_ends_all_of_it(gang: Cluster) -> None:
    """As a crash can leave it: one node was told to run, another gave up. Nothing is left, and it is tried again."""
    before = gang.submit("--", "true")
    gang.await_job(before, "COMPLETED")
    job_id = before + 1
    node = gang.lab.node("node002")
    place = node.run("echo ~/.mgpu/*/node002").stdout.strip()
    node.run(f"mkdir -p {place}/{job_id}.1 && chmod 700 {place}/{job_id}.1 && ln -s abort {place}/{job_id}.1/go")
    assert gang.submit("-w", "node001,node002", "echo ran $MGPU_ATTEMPT; [ $MGPU_ATTEMPT = 2 ] || sleep 600") == job_id
    ended = gang.await_job(job_id, "COMPLETED", patience_s=60)
    assert ended["attempt"] == 2
    assert gang.output(job_id, "--rank", 1, "--attempt", 2) == "ran 2\n"


def test_two_masters_with_a_gang_each_on_the_same_gpus(gang: Cluster, make_cluster: ClusterMaker) -> None:
    """Neither knows of the other; each may get a lease that the other needs, and gives way."""
    other = make_cluster(gang.lab, config=QUICK)
    other("nodes")
    words = ("-w", "node001,node002", "--gpus-per-node", 4, "--no-requeue", "--", "sleep", "0.3")
    jobs = [(cluster, cluster.submit(*words)) for cluster in (gang, other)]
    for cluster, job_id in jobs:
        assert cluster.await_job(job_id, patience_s=90)["exit_code"] == 0


def test_somebody_else_listens_where_the_ranks_were_to_meet(gang: Cluster) -> None:
    before = gang.submit("--", "true")
    gang.await_job(before, "COMPLETED")
    port = meeting_port(JobId(before + 1), 1, ())
    listener = gang.start("srun", "-Q", "-G", 0, "-w", "node001", "--", "python3", "-c", LISTEN, port + 7)
    listener.read_until("listening")  # job before + 1, whose number the next one does not have
    job_id = gang.submit("-w", "node001,node002", "--", "sh", "-c", "echo $MASTER_PORT")
    ended = gang.await_job(job_id, "COMPLETED", patience_s=60)
    assert meeting_port(JobId(job_id), 1, ()) == port + 7
    assert ended["attempt"] == 2
    wanted = f"on node001: port {port + 7}, where its ranks were to meet, is in use here"
    assert ended["attempts"][0]["reason"] == wanted
    ports = {gang.output(job_id, "--rank", rank, "--attempt", 2) for rank in (0, 1)}
    assert ports == {f"{meeting_port(JobId(job_id), 2, ())}\n"}
    listener.send(signal.SIGTERM)


def test_a_command_that_finds_its_port_in_use_is_tried_once_more(gang: Cluster) -> None:
    """As torchrun says it, of a port that somebody took just before."""
    says = 'echo "failed to bind to [::]:$MASTER_PORT (errno: 98 - Address already in use)." >&2; exit 1'
    words = ("-w", "node001,node002", "--", "sh", "-c")
    once = gang.submit(*words, f"[ $MGPU_RANK$MGPU_ATTEMPT != 01 ] || {{ {says}; }}; sleep 0.2")
    always = gang.submit(*words, f"[ $MGPU_RANK = 1 ] && sleep 60; {says}")
    ended = gang.await_job(once, "COMPLETED")
    assert (
        ended["attempts"][0]["reason"] == "exit code 1 on node001: its port was in use there; tried again with another"
    )
    failed = gang.await_job(always, "FAILED")
    assert (failed["attempt"], failed["exit_code"], failed["failed_rank"]) == (2, 1, 0)


def test_a_limit_that_ends_all_ranks_is_the_fault_of_none(gang: Cluster) -> None:
    result = gang("srun", "-w", "node001,node002", "-t", "0:01", "sleep", 60, check=False)
    (job,) = gang.json("history", "--states", "TIMEOUT")["jobs"]
    assert [part["exit_code"] for part in job["allocation"]] == [143, 143]
    assert (result.code, job["failed_rank"]) == (124, None)
    assert result.told[-1] == f"mgpu: job {job['job_id']} TIMEOUT (time limit reached)"


def test_two_nodes_of_one_machine_do_not_end_each_other(make_lab: LabMaker, make_cluster: ClusterMaker) -> None:
    """What is left of one part is looked for by its token, and the other's processes are here too."""
    cluster = make_cluster(make_lab(nodes=2, gpus=1, mode="loopback"))
    ran = cluster("srun", "-Q", "-N", 2, "sh", "-c", "sleep $((2 * MGPU_RANK)); echo $MGPU_RANK")
    assert sorted(ran.lines) == ["0", "1"]
