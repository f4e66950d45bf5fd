"""mgpu node probe: which nodes are meant, what is said of each, and the exit status."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.client.peer import Peer


def answer(name: str, *states: str, **more: Any) -> dict[str, Any]:
    gpus = [{"index": index, "state": state, "name": "A100"} for index, state in enumerate(states)]
    return {"node_id": name, "state": "UP", "reason": "", "gpus": gpus, "probe_failure": None, **more}


def answers(peer: Peer, *nodes: dict[str, Any]) -> None:
    for node in nodes:
        peer.answers["POST", f"/v1/nodes/{node['node_id']}/probe"] = node


def test_one_node_is_shown_with_its_gpus(peer: Peer, mgpu: Callable) -> None:
    answers(peer, answer("n1", "free"), answer("n2", state="DOWN", reason="no route", probe_failure="no route"))
    ran = mgpu("node", "probe", "n1")
    assert (ran.status, ran.err) == (0, "")
    assert "1 of 1 GPUs free" in ran.out
    assert json.loads(mgpu("--json", "node", "probe", "n[1-1]").out) == answer("n1", "free")
    ran = mgpu("node", "probe", "n2")
    assert (ran.status, ran.err) == (1, "")
    assert "no route" in ran.out


def test_of_several_each_is_a_line(peer: Peer, mgpu: Callable) -> None:
    peer.answers["GET", "/v1/nodes"] = {"nodes": [{"node_id": f"n{number}"} for number in range(1, 5)]}
    nodes = [
        answer("n1", "free", "external", "free"),
        answer("n2", probe_failure="no route to host\x1b"),
        answer("n3", "free", reason="node is draining: fan"),
        answer("n4"),
    ]
    answers(peer, *nodes)
    said = [
        "n1: 3 GPUs: 2 free, 1 external",
        "n2: failed: no route to host\\e",
        "n3: 1 GPU: 1 free; node is draining: fan",
        "n4: 0 GPUs",
    ]
    ran = mgpu("node", "probe", "n[1-3]", "n4", "n1")
    assert (ran.status, sorted(ran.out.splitlines()), ran.err) == (1, said, "")
    ran = mgpu("node", "probe", "--all")
    assert (ran.status, sorted(ran.out.splitlines()), ran.err) == (1, said, "")
    assert json.loads(mgpu("--json", "node", "probe", "--all").out) == {"nodes": nodes}
    assert mgpu("node", "probe", "n1", "n3").status == 0


def test_one_that_is_refused_does_not_keep_the_others_from_it(peer: Peer, mgpu: Callable) -> None:
    answers(peer, answer("n1"), answer("n3"))
    ran = mgpu("node", "probe", "n[1-3]")
    assert (ran.status, sorted(ran.out.splitlines())) == (1, ["n1: 0 GPUs", "n3: 0 GPUs"])
    assert ran.err == "mgpu: no /v1/nodes/n2/probe: look\n"


def test_nobody_waits_for_one_that_hangs(peer: Peer, mgpu_process: Callable[..., subprocess.Popen[bytes]]) -> None:
    hanging = threading.Event()
    answers(peer, answer("n1"), answer("n3"))
    peer.answers["POST", "/v1/nodes/n2/probe"] = hanging
    process = mgpu_process("node", "probe", "n[1-3]")
    assert process.stdout is not None
    try:
        assert {process.stdout.readline() for _ in range(2)} == {b"n1: 0 GPUs\n", b"n3: 0 GPUs\n"}
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
    finally:
        hanging.set()


@pytest.mark.parametrize(
    ("words", "said"),
    [([], "which node? name one; --all means all of the inventory"), (["n[1-"], "n[1-")],
)
def test_words_that_cannot_be_meant(peer: Peer, mgpu: Callable, words: list[str], said: str) -> None:
    ran = mgpu("node", "probe", *words)
    assert (ran.status, ran.out) == (2, "")
    assert said in ran.err
    assert not peer.requests
