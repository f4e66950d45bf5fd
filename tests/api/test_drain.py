"""Drain and resume: which GPUs an operator means, what is answered, what is shown, and who may."""

from __future__ import annotations

import pytest

from tests.api.conftest import Served

NODE = "/v1/nodes/gpu01"


def test_a_node_is_drained_and_resumed(served: Served) -> None:
    job_id = served.submit()
    [part] = served.start(job_id)
    status, answer = served.ask("POST", f"{NODE}/drain", {"reason": "new fan"})
    assert status == 200
    reason = answer.pop("reason")
    assert answer == {
        "node_id": "gpu01",
        "gpus": [],
        "changed": True,
        "state": "DRAINING",
        "running": [job_id],
        "still_drained": [],
    }
    shown = served.ask("GET", NODE)[1]
    since = shown["drain"]["since"]
    by = shown["drain"]["by"]
    assert shown["drain"] == {"by": by, "since": since, "reason": "new fan"}
    assert shown["reason"] == reason == f"drained by {by}: new fan (since {since[:10]} {since[11:16]} UTC)"
    assert [gpu["drain"] for gpu in shown["gpus"]] == [None, None]
    assert part.uuids == (shown["gpus"][0]["uuid"],)
    again = served.ask("POST", f"{NODE}/drain", {})[1]
    assert (again["changed"], again["reason"]) == (False, reason)
    for changed in (True, False):
        answer = served.ask("POST", f"{NODE}/resume", {})[1]
        assert (answer["changed"], answer["state"], answer["reason"]) == (changed, "UP", "")
    assert served.ask("GET", NODE)[1]["drain"] is None
    assert served.desk.wakes


def test_single_gpus(served: Served) -> None:
    served.start(job_id := served.submit())
    status, answer = served.ask("POST", f"{NODE}/drain", {"gpus": ["0-1", "GPU-gpu01-1"], "reason": "smoke"})
    assert (status, answer["gpus"], answer["running"], answer["state"]) == (200, ["0", "1"], [job_id], "UP")
    gpus = served.ask("GET", NODE)[1]["gpus"]
    assert [gpu["state"] for gpu in gpus] == ["allocated", "unhealthy"]
    by = gpus[1]["drain"]["by"]
    assert f"held by job {job_id}; drained by {by}: smoke" in gpus[0]["reason"]
    assert gpus[1]["reason"].startswith(f"drained by {by}: smoke (since 20")
    whole = served.ask("POST", f"{NODE}/resume", {})[1]
    assert (whole["changed"], whole["still_drained"]) == (False, ["0", "1"])
    one = served.ask("POST", f"{NODE}/resume", {"gpus": [1]})[1]
    assert (one["gpus"], one["changed"], one["still_drained"]) == (["1"], True, ["0"])


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"gpus": ["7"]}, "gpu01 has no GPU 7: its GPUs are 0,1"),
        ({"gpus": ["0", "1-2", "GPU-x"]}, "gpu01 has no GPU 2,GPU-x: its GPUs are 0,1"),
        ({"gpus": []}, "gpus must be a list of GPU indices or UUIDs"),
        ({"gpus": "0"}, "gpus must be a list of GPU indices or UUIDs"),
        ({"gpus": [None]}, "gpus must be a list of GPU indices or UUIDs"),
        ({"gpus": ["3-1"]}, "gpus: the range '3-1' runs backwards"),
        ({"gpus": ["0", "1-0"]}, "gpus: the range '1-0' runs backwards"),
        ({"gpus": ["0-9999"]}, "more than 256 GPUs of one node are named"),
        ({"reason": "two\nlines"}, "--reason must not hold control characters"),
        ({"reason": "x" * 301}, "--reason is longer than 300 bytes"),
        ({"reasons": "x"}, "the key 'reasons' is not known to this master: did you mean 'reason'?"),
    ],
)
def test_what_cannot_be_meant_is_refused(served: Served, body: dict[str, object], words: str) -> None:
    status, answer = served.ask("POST", f"{NODE}/drain", body)
    assert (status, answer["error"]["message"]) == (400, words)
    assert served.ask("GET", NODE)[1]["state"] == "UP"


def test_only_operators_may(served: Served) -> None:
    assert served.ask("POST", "/v1/nodes/gpu03/drain", {})[0] == 404
    served.restart_shared(owner_uid=served.context.owner_uid + 1)
    status, _ = served.ask("POST", f"{NODE}/drain", {})
    assert status == (200 if served.context.owner_uid == 1 else 403)  # root always may
