"""Nodes, the master itself, and the wire's own rules."""

import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from mgpu import clock
from mgpu.api.app import WIDE_THREADS
from mgpu.api.server import Server, listen
from mgpu.client import http
from mgpu.core.errors import NotAllowed, StoreError
from mgpu.core.model import NodeState
from mgpu.core.observation import Node
from mgpu.ops import nodes as ops_nodes
from mgpu.ops import status as ops_status
from mgpu.ops.context import Caller
from tests.api.conftest import NODES, observation, submission

OTHER = Caller(4711, "mallory")


def test_nodes_as_in_the_contract(served):
    job_id = served.submit(gpus="1")
    served.start(job_id)
    answer = served.ask("GET", "/v1/nodes")[1]
    assert [node["node_id"] for node in answer["nodes"]] == list(NODES)
    node = answer["nodes"][0]
    assert " ".join(list(node)[:9]) == ("node_id state reason address hostname partition gpu_type last_seen gpus")
    assert (node["state"], node["hostname"], node["address"]) == ("UP", "gpu01.lab", "gpu01.lab")
    assert (node["partition"], node["gpu_type"], node["use"]) == ("train", "NVIDIA A100", "mixed")
    held, outside = node["gpus"]
    assert " ".join(list(held)[:11]) == (
        "index uuid name memory_total_mib memory_used_mib utilization state reason job_id user processes"
    )
    assert (held["state"], held["job_id"], held["memory_used_mib"]) == ("allocated", job_id, 9)
    assert (held["user"], outside["user"]) == (served.ask("GET", f"/v1/jobs/{job_id}")[1]["user"], None)
    assert outside["state"] == "external"
    outsider = {"pid": 4242, "user": "carol", "memory_mib": 512, "command": "python", "age_s": 60, "kind": ""}
    assert outside["processes"] == [outsider]
    assert served.ask("GET", "/v1/nodes/gpu01")[1] == node


def test_one_machine_under_two_names_is_told_by_its_gpus(served):
    answer = served.ask("GET", "/v1/nodes")[1]["nodes"]
    assert not any("one machine" in node["reason"] for node in answer)
    with served.store.write() as w:
        seen = observation(NODES[0], clock.now())
        for name in NODES:
            w.save_node(Node(name, NodeState.UP, last_seen=seen.at, observation=seen))
    first, second = served.ask("GET", "/v1/nodes")[1]["nodes"]
    assert first["reason"].startswith("gpu01 and gpu02 are one machine, booted once: ")
    assert served.ask("GET", "/v1/nodes/gpu02")[1]["reason"] == second["reason"]
    assert second["reason"].startswith("gpu02 and gpu01 are one machine, booted once: ")


@pytest.mark.parametrize(("boot", "words"), [("other", "and were not booted together"), ("", "if that is one machine")])
def test_a_gpu_that_two_machines_show_makes_them_none(served, boot, words):
    seen = observation(NODES[0], clock.now())
    with served.store.write() as w:
        for name, boot_id in zip(NODES, (seen.boot_id, boot), strict=True):
            there = replace(seen, node=name, boot_id=boot_id)
            w.save_node(Node(name, NodeState.UP, last_seen=seen.at, observation=there))
    for node in (served.ask("GET", "/v1/nodes/gpu01")[1], served.ask("GET", "/v1/nodes")[1]["nodes"][1]):
        assert "both show GPU-gpu01-" in node["reason"]
        assert words in node["reason"]
        assert "are one machine" not in node["reason"]


def test_an_unknown_node_is_named_with_the_nearest(served):
    for method, path in (("GET", ""), ("POST", "/probe"), ("GET", "/hostkeys"), ("POST", "/trust")):
        status, answer = served.ask(method, f"/v1/nodes/gpu1{path}", {} if method == "POST" else None)
        assert status == 404
        assert "did you mean 'gpu0" in answer["error"]["message"]


def test_probe_answers_with_the_fresh_node_or_why_not(served):
    answer = served.ask("POST", "/v1/nodes/gpu02/probe")[1]
    assert answer["last_seen"] is not None
    assert answer["probe_failure"] is None
    served.desk.failing[NODES[1]] = "no route to host"
    assert served.ask("POST", "/v1/nodes/gpu02/probe")[1]["probe_failure"] == "no route to host"
    served.desk.unreachable.add(NODES[1])
    status, answer = served.ask("POST", "/v1/nodes/gpu02/probe")
    assert (status, answer["error"]["message"]) == (503, "gpu02: no route to host")


def test_trust(served):
    keys = served.ask("GET", "/v1/nodes/gpu01/hostkeys")[1]
    assert (keys["status"], keys["known"], keys["address"]) == ("new", [], "10.0.0.1")
    lines = [key["line"] for key in keys["keys"]]
    assert served.ask("POST", "/v1/nodes/gpu01/trust", {"lines": lines})[1] == {"trusted": 1}
    assert served.desk.trusted == lines
    for wrong in (None, [], [1], ["gpu01 ssh-rsa A\ngpu02 ssh-rsa B"]):
        assert served.ask("POST", "/v1/nodes/gpu01/trust", {"lines": wrong})[0] == 400
    with pytest.raises(NotAllowed):
        ops_nodes.trust_node(served.context, OTHER, "gpu01", {"lines": lines})
    assert served.desk.trusted == lines


def test_status(served):
    served.submit()
    answer = served.ask("GET", "/v1/status")[1]
    assert answer["pid"] == os.getpid()
    assert answer["config"] == str(served.config.path)
    assert answer["state_dir"] == str(served.path.parent)
    assert answer["database_id"] == served.store.database_id
    assert answer["queue"] == {"PENDING": 1, "RUNNING": 0}
    assert answer["nodes"] == {"UP": 2}
    assert answer["errors"] == ["gpu02: no route to host"]


def test_stop_is_for_operators(served):
    with pytest.raises(NotAllowed):
        ops_status.stop(served.context, OTHER)
    assert not served.desk.stopped.is_set()
    assert served.ask("POST", "/v1/stop") == (200, {"stopping": True})
    assert served.desk.stopped.is_set()


def test_another_configuration_is_refused_with_both_named(served):
    served.endpoint = served.endpoint._replace(config="/etc/mgpu/cluster_config.yaml")
    status, answer = served.ask("GET", "/v1/jobs")
    assert (status, answer["error"]["code"]) == (409, "other_config")
    assert str(served.config.path) in answer["error"]["message"]
    assert "/etc/mgpu/cluster_config.yaml" in answer["error"]["message"]
    assert answer["error"]["hint"].startswith("`mgpu stop` ends that one (jobs run on)")
    assert served.ask("GET", "/v1/status")[0] == 200
    served.endpoint = served.endpoint._replace(config="")
    assert "no configuration" in served.ask("GET", "/v1/jobs")[1]["error"]["message"]
    served.endpoint = served.endpoint._replace(config=None)
    assert served.ask("GET", "/v1/jobs")[0] == 200
    served.endpoint = served.endpoint._replace(config="/etc/mgpu/cluster_config.yaml")
    assert served.ask("POST", "/v1/stop")[0] == 200  # the way out


@pytest.mark.skipif(os.getuid() == 0, reason="root is always served")
def test_a_personal_master_serves_its_owner_alone(served):
    served.restart(owner_uid=os.getuid() + 1)
    status, answer = served.ask("GET", "/v1/jobs")
    assert (status, answer["error"]["code"]) == (403, "not_allowed")


ASK = """
import socket, sys
with socket.socket(socket.AF_UNIX) as client:
    client.connect(sys.argv[1])
    client.sendall(b"GET /v1/jobs HTTP/1.0\\r\\n\\r\\n")
    print(client.makefile().read())
"""


def _python_for_all():
    """Ours, if others may run it, else the system's."""
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            subprocess.run([python, "-I", "-c", ""], user=4711, check=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        return python
    return pytest.skip("no Python here that others may run")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can ask as somebody else")
def test_strangers_are_refused_by_the_mode_and_by_who_they_are(served):
    """Should the socket's mode ever not keep them out, the kernel still says who they are."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        served.server.stop()
        served.path = Path(name) / "s.sock"
        served.restart()
        command = [_python_for_all(), "-I", "-c", ASK, str(served.path)]
        refused = subprocess.run(command, user=4711, capture_output=True, text=True, check=False)
        assert "PermissionError" in refused.stderr
        served.path.chmod(0o666)
        answered = subprocess.run(command, user=4711, capture_output=True, text=True, check=True).stdout
        assert " 403 " in answered.splitlines()[0]
        assert "this master serves uid 0 alone" in answered
        served.server.stop()


def test_what_is_not_there_or_not_json_is_one_line(served):
    assert served.ask("GET", "/v1/nothing")[1]["error"]["code"] == "not_found"
    assert served.ask("POST", "/v1/status")[0] == 405
    assert served.ask("GET", "/v1/jobs/17")[1]["error"]["message"] == "there is no job 17"
    assert served.ask("GET", "/v1/jobs/x")[0] == 400
    assert served.ask("POST", "/v1/jobs", [1])[1]["error"]["message"] == "the body must be a JSON object"
    with closing(http.connect(served.endpoint)) as connection:
        body = b"[" * 100_000
        head = f"POST /v1/jobs HTTP/1.1\r\nHost: mgpu\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        assert http.read_response(connection).status == 400


def test_a_body_over_the_limit_is_refused(served):
    status, answer = served.ask("POST", "/v1/jobs", {**submission("aaaaaaaa"), "cwd": "x" * (9 << 20)})
    assert (status, answer["error"]["code"]) == (413, "too_large")
    assert answer["error"]["message"] == "POST /v1/jobs: more than 8 MiB in one request"
    assert "send fewer at once" in answer["error"]["hint"]


def test_a_fault_of_ours_is_logged_and_answered(served, caplog):
    served.desk.planned = None
    served.submit()
    status, answer = served.ask("GET", "/v1/jobs")
    assert (status, answer["error"]["code"]) == (500, "internal")
    assert answer["error"]["message"].startswith("internal error: AttributeError")
    assert "Traceback" in caplog.text


def test_the_socket_is_private_whatever_the_umask_and_replaces_a_stale_one(tmp_path):
    path = tmp_path / "s.sock"
    left_behind = socket.socket(socket.AF_UNIX)
    left_behind.bind(str(path))
    left_behind.close()
    old = os.umask(0o777)
    try:
        listener = listen(path, 0o600)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir() if file.name != "home"] == ["s.sock"]
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
    listener.close()


def test_what_is_not_a_socket_is_left_alone(tmp_path):
    path = tmp_path / "s.sock"
    path.write_text("precious")
    with pytest.raises(StoreError, match="not a socket"):
        listen(path, 0o600)
    assert path.read_text() == "precious"


def test_a_path_that_is_too_long_is_said_at_the_start(served, tmp_path):
    with pytest.raises(StoreError, match="too long for a socket"):
        Server(served.context, tmp_path / ("x" * 120)).start()


def test_stopping_removes_the_socket_but_not_that_of_a_successor(served):
    served.server.stop()
    assert not served.path.exists()
    served.server = Server(served.context, served.path)
    served.server.start()
    successor = Server(served.context, served.path)
    successor.start()
    served.server.stop()
    assert served.ask("GET", "/v1/status")[0] == 200
    served.server = successor


def test_a_socket_that_somebody_removed_is_made_again(served, monkeypatch):
    monkeypatch.setattr("mgpu.api.server.WATCH_S", 0.05)
    assert served.ask("GET", "/v1/status")[0] == 200
    served.path.unlink()
    deadline = time.monotonic() + 20
    while not served.path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert served.ask("GET", "/v1/status")[0] == 200
    assert stat.S_IMODE(served.path.stat().st_mode) == 0o600
    served.server.stop()
    assert not served.path.exists()


def test_slow_nodes_hold_up_neither_the_queue_nor_other_nodes(served):
    """However many are asked: more wait here than there are threads."""
    served.desk.slow = True
    probes = [
        threading.Thread(target=served.ask, args=("POST", f"/v1/nodes/{NODES[0]}/probe"))
        for _ in range(2 * WIDE_THREADS)
    ]
    for probe in probes:
        probe.start()
    deadline = time.monotonic() + 20
    while len(served.desk.asked) < len(probes):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert served.ask("GET", "/v1/jobs")[0] == 200
    assert served.ask("GET", f"/v1/nodes/{NODES[1]}/residue")[0] == 200
    for outcome in served.desk.asked:
        outcome.set_result("")
    for probe in probes:
        probe.join()


def test_what_is_no_request_is_a_line_in_the_log(served, caplog):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(served.endpoint.socket_path)
        client.sendall(b"GET /v1/nodes/" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 400 " in client.recv(100)
    wanted = [record for record in caplog.records if "a request that is none" in record.getMessage()]
    assert len(wanted) == 1
    assert not wanted[0].exc_info
    assert len(wanted[0].getMessage()) < 300


def test_nothing_of_such_a_request_is_in_it(served, caplog):
    """As where a proxy breaks lines otherwise: the line that is shown to who sent it may be the one with the token."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(served.endpoint.socket_path)
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX: a\nAuthorization: Bearer secret\r\n\r\n")
        assert b" 400 " in client.recv(100)
    assert ["a request that is none" in record.getMessage() for record in caplog.records] == [True]
    assert "secret" not in caplog.text
