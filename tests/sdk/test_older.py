"""The older system's classes: their dicts and limits against a peer that speaks the wire."""

from __future__ import annotations

import inspect
import threading
from typing import Any

import pytest

from mgpu import NodeInfo, NodeManager, SimpleClient, SimpleMaster, SimpleNode
from tests.client.peer import CUT, Peer, end, job, output, state

GPUS = [{"state": "free"}, {"state": "allocated"}, {"state": "unhealthy"}, {"state": "external"}]
NODE = {"node_id": "gpu01", "state": "UP", "address": "10.0.0.1", "hostname": "gpu01.lab", "gpus": GPUS}


@pytest.fixture
def client(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> SimpleClient:
    monkeypatch.setenv("MGPU_MASTER", peer.path)
    return SimpleClient()


def test_the_arguments_are_those_of_the_old_examples() -> None:
    inspect.signature(SimpleClient).bind("localhost", 8080)
    inspect.signature(SimpleClient.submit_job).bind(None, gpus=2, cmd="python train.py")
    inspect.signature(SimpleMaster).bind("0.0.0.0", 8080)
    inspect.signature(SimpleNode).bind("node1", "localhost", 8080, 8081)


def test_a_job_is_submitted_in_a_shell(client: SimpleClient, peer: Peer) -> None:
    answer = client.submit_job(gpus=2, cmd="venv/bin/python train.py", node_gpu_ids="node001:0,1")
    assert answer == {"status": "ok", "job_id": 17, "message": "Job submitted"}
    body = peer.wait_for("POST", "/v1/jobs")
    assert body["command"] == {"form": "shell", "words": ["venv/bin/python train.py"]}
    assert body["options"] == {"gpus": "2", "node_gpu_ids": "node001:0,1"}


def test_the_queue_tells_where_and_what_is_waited_for(client: SimpleClient, peer: Peer) -> None:
    peer.answers["GET", "/v1/jobs"] = {"jobs": [job("RUNNING"), {**job("PENDING"), "job_id": 18}]}
    peer.answers["GET", "/v1/nodes"] = {"nodes": [NODE]}
    runs = {"job_id": 17, "user": "alice", "cmd": "python train.py"}
    assert client.queue() == {
        "status": "ok",
        "jobs": [
            {**runs, "status": "running", "where": "gpu01:gpu0,gpu01:gpu1"},
            {**runs, "job_id": 18, "status": "queued", "waiting_for": 2},
        ],
        "nodes": [{"node_id": "gpu01", "status": "online", "gpus": 4, "free": 1, "busy": 2}],
    }


def test_what_is_refused_is_an_answer(client: SimpleClient, peer: Peer) -> None:
    refused = {"error": {"code": "bad_request", "message": "needs 77 GPUs", "hint": "use -G 8"}}
    peer.answers["POST", "/v1/jobs"] = (400, refused, {})
    told = {"status": "error", "message": "needs 77 GPUs: use -G 8", "code": "bad_request"}
    assert client.submit_job(gpus=77, cmd="x") == told
    error = {"job_id": 9, "code": "not_found", "message": "there is no job 9", "hint": ""}
    peer.answers["POST", "/v1/cancel"] = {"cancelled": [], "errors": [error]}
    assert client.cancel_job(9) == {"status": "error", "message": "there is no job 9", "code": "not_found"}
    assert client.queue()["code"] == "not_found"  # the peer has none


def test_a_job_is_cancelled(client: SimpleClient) -> None:
    assert client.cancel_job(17) == {"status": "ok", "job_id": 17, "message": "Job 17 cancelled"}


def test_an_interactive_job_is_followed(client: SimpleClient, peer: Peer, capfd: pytest.CaptureFixture[str]) -> None:
    peer.streams = [[state("RUNNING"), output(b"out\n"), end("FAILED", exit_code=3)]]
    answer = client.submit_job(cmd="x", interactive=True, session_timeout=None, max_wait_time=None)
    assert (answer["status"], answer["state"], answer["exit_code"]) == ("ok", "FAILED", 3)
    assert capfd.readouterr().out == "out\n"


LIMITS: list[tuple[dict[str, int], list[Any]]] = [
    ({"session_timeout": 0}, [state("RUNNING"), "wait"]),
    ({"max_wait_time": 0}, [state("RUNNING"), "wait"]),
    ({"max_consecutive_timeouts": 0}, [state("RUNNING"), CUT]),
]


@pytest.mark.parametrize(("limits", "messages"), LIMITS, ids=lambda given: next(iter(given)) if given else "")
def test_the_older_limits_end_the_following_and_not_the_job(
    client: SimpleClient, peer: Peer, limits: dict[str, int], messages: list[Any]
) -> None:
    forever = threading.Event()
    peer.streams = [[forever if message == "wait" else message for message in messages]]
    answer = client.submit_job(cmd="x", interactive=True, **limits)
    forever.set()
    [(name, _)] = limits.items()
    assert answer["status"] == "timeout"
    assert answer["message"] == f"stopped following after {name} = 0: job 17 goes on"
    assert peer.bodies("POST", "/v1/cancel") == []


def test_nodes_in_the_older_words(client: SimpleClient, peer: Peer) -> None:
    states = {
        "UP": "online",
        "DRAINED": "maintenance",
        "DRAINING": "maintenance",
        "DOWN": "offline",
        "UNKNOWN": "offline",
    }
    nodes = [{**NODE, "node_id": name, "state": name, "last_seen": "2026-01-01T00:00:00Z"} for name in states]
    peer.answers["GET", "/v1/nodes"] = {"nodes": nodes}
    peer.answers["POST", "/v1/nodes/UP/probe"] = {**NODE, "probe_failure": None}
    peer.answers["POST", "/v1/nodes/DOWN/probe"] = {**NODE, "probe_failure": "no route"}
    manager = NodeManager()
    assert {name: node.status for name, node in manager.nodes().items()} == states
    assert manager.nodes()["UP"] == NodeInfo(
        "UP", "gpu01.lab", "10.0.0.1", 8081, 4, "online", last_heartbeat=1767225600.0, free=1, busy=2
    )
    assert manager.test_connection("UP")
    assert not manager.test_connection("DOWN")
