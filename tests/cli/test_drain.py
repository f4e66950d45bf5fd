"""mgpu node drain and resume: what is meant by the words, and what is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.client.peer import Peer


def answer(name: str, **more: Any) -> dict[str, Any]:
    usual = {"gpus": [], "changed": True, "state": "UP", "reason": "", "running": [], "still_drained": []}
    return {"node_id": name, **usual, **more}


def test_nodes_and_gpus_are_drained(peer: Peer, mgpu: Callable) -> None:
    peer.answers["POST", "/v1/nodes/n1/drain"] = answer("n1", state="DRAINING", running=[4, 7])
    peer.answers["POST", "/v1/nodes/n2/drain"] = answer("n2", gpus=["0", "5"], running=[4])
    peer.answers["POST", "/v1/nodes/n3/drain"] = answer("n3", state="DRAINED")
    ran = mgpu("node", "drain", "n1", "n2:0", "n3", "n2:5", "--reason", "new fan")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == (
        "n1: drained; jobs 4, 7 go on there\n"
        "n2 GPU 0,5: drained; job 4 goes on there\n"
        "n3: drained; nothing runs there\n"
    )
    assert peer.bodies("POST", "/v1/nodes/n1/drain") == [{"reason": "new fan"}]
    assert peer.bodies("POST", "/v1/nodes/n2/drain") == [{"reason": "new fan", "gpus": ["0", "5"]}]


def test_one_that_is_refused_does_not_keep_the_others_from_it(peer: Peer, mgpu: Callable) -> None:
    peer.answers["POST", "/v1/nodes/n1/drain"] = answer("n1")
    peer.answers["POST", "/v1/nodes/n3/drain"] = answer("n3")
    ran = mgpu("node", "drain", "n[1-3]")
    assert (ran.status, ran.out.count("drained")) == (1, 2)
    assert ran.err == "mgpu: no /v1/nodes/n2/drain: look\n"
    assert json.loads(mgpu("--json", "node", "drain", "n1").out) == {"nodes": [answer("n1")]}


def test_what_is_wrong_with_many_is_said_once(peer: Peer, mgpu: Callable) -> None:
    peer.answers["POST", "/v1/nodes/n1/drain"] = answer("n1")
    ran = mgpu("node", "drain", "n[1-500]", "m2")
    assert (ran.status, ran.err) == (1, "mgpu: no /v1/nodes/n[2-500],m2/drain: look\n")
    ran = mgpu("--json", "node", "probe", "n[2-9]")
    assert (ran.status, json.loads(ran.out)) == (1, {"nodes": []})
    assert json.loads(ran.err)["error"]["message"] == "no /v1/nodes/n[2-9]/probe"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "n1: resumed"),
        ({"changed": False}, "n1: was not drained"),
        ({"state": "DOWN", "reason": "node is down: no route"}, "n1: resumed; DOWN node is down: no route"),
        ({"gpus": ["5"]}, "n1 GPU 5: resumed"),
        ({"gpus": ["5"], "changed": False}, "n1 GPU 5: was neither drained nor suspect"),
        (
            {"changed": False, "still_drained": ["0", "5"]},
            "n1: was not drained; 2 GPUs still drained: mgpu node resume n1:0,5",
        ),
    ],
)
def test_what_is_said_of_a_resumed_node(peer: Peer, mgpu: Callable, more: dict[str, Any], said: str) -> None:
    peer.answers["POST", "/v1/nodes/n1/resume"] = answer("n1", **more)
    for word in ("resume", "undrain"):
        assert mgpu("node", word, "n1") == (0, f"{said}\n", "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "which node? name one, or GPUs of one: gpu07, gpu07:5"),
        (["n1:"], "'n1:': write NODE or NODE:GPUS, like gpu07 or gpu07:0,5"),
        ([":5"], "':5': write NODE or NODE:GPUS, like gpu07 or gpu07:0,5"),
        (["n1:0,n2:1"], "'n1:0,n2:1': 'n2:1' is no GPU: nodes with GPUs are parted by blanks"),
        (["n1", "n1:0"], "n1 is named twice: name the node, or GPUs of it"),
        (["n1:0", "n[1-2]"], "n1 is named twice: name the node, or GPUs of it"),
    ],
)
def test_words_that_cannot_be_meant(peer: Peer, mgpu: Callable, words: list[str], said: str) -> None:
    assert mgpu("node", "drain", *words) == (2, "", f"mgpu: {said}\n")
    assert not peer.requests
