"""mgpu from Python over real nodes: the client, the one for asyncio, and the samples as their texts say to run them."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from mgpu import (
    AsyncClient,
    Client,
    JobFailed,
    MasterError,
    NodeManager,
    NoMaster,
    SimpleClient,
    SimpleMaster,
    SimpleNode,
)
from tests.end_to_end.cluster import Cluster, until
from tests.end_to_end.test_distributed import TORCH, needs_torch, shipped

SAMPLES = Path(__file__).parents[2] / "samples"


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    with Client(config=cluster.config_path, state_dir=cluster.state_dir) as made:
        yield made


def test_a_job_from_its_submission_to_its_output(client: Client) -> None:
    job = client.submit(
        "echo $CUDA_VISIBLE_DEVICES; echo $LR >&2; exit 3",
        node_gpu_ids={"node002": [1, 3]},
        time=timedelta(minutes=5),
        export={"LR": "0.1,0.2"},
    )
    assert [(line.kind, line.text) for line in sorted(client.lines(job))] == [("stderr", "0.1,0.2"), ("stdout", "1,3")]
    with pytest.raises(JobFailed, match="exit 3 on node002"):
        client.wait(job, check=True)
    ended = client.history(limit=1)[0]
    assert (ended.job_id, ended.exit_status, ended.time_limit_s) == (job.job_id, 3, 300)
    assert (client.logs(job), client.logs(job, "stderr")) == (b"1,3\n", b"0.1,0.2\n")


def test_in_the_foreground_with_something_to_read(client: Client) -> None:
    text = b"".join(b"%d\n" % number for number in range(100_000))
    ran = client.run(["sh", "-c", "tee /dev/stderr | wc -c"], input=text, capture_output=True, check=True)
    assert (int(ran.stdout), ran.stderr) == (len(text), text)
    with pytest.raises(TimeoutError):
        client.run(["sleep", "1000"], timeout=0.5)
    until("it is gone", lambda: not client.queue())


def test_a_stream_goes_on_when_the_master_is_killed(client: Client) -> None:
    job = client.submit("for n in 1 2 3 4 5 6 7 8; do echo $n; sleep 0.2; done")
    lines = client.lines(job)
    assert next(lines).text == "1"
    os.kill(client.status().pid, signal.SIGKILL)
    assert [line.text for line in lines] == list("2345678")
    assert client.wait(job).succeeded


def test_without_a_master_none_is_started_unless_it_may(cluster: Cluster) -> None:
    state_dir = cluster.home / "other"
    with Client(config=cluster.config_path, state_dir=state_dir, start=False) as client, pytest.raises(NoMaster):
        client.nodes()
    with Client(config=cluster.config_path, state_dir=state_dir) as client:
        assert {node.node_id for node in client.nodes()} == {"node001", "node002"}
        client.call("POST", "/v1/stop")


def test_the_same_with_asyncio(cluster: Cluster) -> None:
    async def work() -> None:
        async with AsyncClient(config=cluster.config_path, state_dir=cluster.state_dir) as client:
            ran = await asyncio.gather(*(client.run(["echo", str(n)], capture_output=True) for n in range(4)))
            assert [one.stdout for one in ran] == [b"0\n", b"1\n", b"2\n", b"3\n"]
            runs = asyncio.create_task(client.run("echo; sleep 1000", capture_output=True))
            while not (queued := await client.queue(states="RUNNING")):
                await asyncio.sleep(0.05)
            runs.cancel()
            with pytest.raises(asyncio.CancelledError):
                await runs
            assert (await client.wait(queued[0])).state == "CANCELLED"

    asyncio.run(work())


def test_a_master_a_node_and_a_client_by_their_old_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """In a home of their own, on this machine alone."""
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    master = SimpleMaster("127.0.0.1", port)
    thread = threading.Thread(target=master.start_server)
    thread.start()
    try:
        until("it answers", lambda: SimpleClient("127.0.0.1", port).queue()["status"] == "ok")
        node = SimpleNode("node1", "127.0.0.1", port, 8081).start_agent()
        assert (node.node_id, node.status) == ("node1", "online")
        client = SimpleClient("127.0.0.1", port)
        assert [row["node_id"] for row in client.queue()["nodes"]] == ["node1"]
        capfd.readouterr()
        answer = client.submit_job(gpus=0, cmd="echo $MGPU_NODE_ID; exit 3", interactive=True)
        assert (answer["state"], answer["exit_code"], capfd.readouterr().out) == ("FAILED", 3, "node1\n")
        with pytest.raises(MasterError, match="bad name"):
            SimpleNode("bad name", "127.0.0.1", port).start_agent()
        manager = NodeManager("127.0.0.1", port)
        assert manager.test_connection("node1")
        assert list(manager.nodes()) == ["node1"]
    finally:
        master.stop_server()
        thread.join()
    assert SimpleClient("127.0.0.1", port).queue()["status"] == "error"


def test_the_sweep(cluster: Cluster) -> None:
    ran = subprocess.run(
        [sys.executable, SAMPLES / "sweep.py"],
        env=cluster.environ,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    table = [line.split() for line in ran.stdout.partition("LOSS")[2].splitlines()[1:]]
    assert [float(row[0]) for row in table] == sorted(float(row[0]) for row in table)
    assert table[0][:3] == ["0.0073", "0.1", "64"]
    assert {row[4] for row in table} <= {"node001", "node002"}


@needs_torch
@pytest.mark.timeout(300)
def test_the_load_test(cluster: Cluster) -> None:
    command = cluster.start(
        *("submit", "--gpus", 1, "--interactive", f"--ship={SAMPLES}", "--export", "OMP_NUM_THREADS=1"),
        f"{TORCH / 'python'} load_test.py --cpu --seconds 0.1",
    )
    result = command.finish(240)
    assert result.code == 0, result.err
    assert "PyTorch version: " in result.out
    assert result.out.rstrip().splitlines()[-2] == "all is well"


@needs_torch
@pytest.mark.timeout(300)
def test_the_distributed_training(cluster: Cluster) -> None:
    pins = "node001:0;node002:0"
    where = (f"--ship={SAMPLES}", "--node-gpu-ids", pins, "--distributed")
    result = shipped(cluster, *where, "--", TORCH / "torchrun", "ddp.py", "--epochs", 3)
    losses = [float(line.split()[-1]) for line in result.lines if line.startswith("epoch")]
    assert len(losses) == 3
    assert losses[-1] < losses[0] / 2
    assert {line.partition(" on ")[2] for line in result.lines if " on " in line} == {"node001: cpu", "node002: cpu"}
