"""What is told of the future: when jobs are expected to start, and what would let them start now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mgpu.wording.jobs import queue_place
from tests.client.peer import Peer, job


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")


def test_why_tells_who_holds_what_and_until_when(peer: Peer, mgpu: Callable) -> None:
    holders = [
        {"job_id": 12, "user": "ann", "gpus_until": "2026-06-02T01:30:00Z", "time_limit_s": 600},
        {"job_id": 9, "user": "bob", "gpus_until": "2026-06-03T01:30:00Z", "time_limit_s": None},
        {"job_id": 8, "user": "eve", "gpus_until": None, "time_limit_s": None},
    ]
    peer.answers["GET", "/v1/jobs/17/why"] = {
        "job_id": 17,
        "state": "PENDING",
        "reason": "Resources",
        "detail": "nothing fits now",
        "nodes": [],
        "ahead": 3,
        "expected_start": "2026-06-02T01:30:00Z",
        "expected_on": [{"node": "gpu01", "devices": [0, 1]}],
        "holders": holders * 4,
        "sooner": ["-G 2 instead of -G 4"],
    }
    lines = mgpu("why", "17").out.splitlines()
    assert lines[1:5] == [
        "  JOB  USER  ENDS",
        "   12  ann   2026-06-02 01:30:00 at the latest",
        "    9  bob   2026-06-03 01:30:00 is assumed: it has no limit",
        "    8  eve   nobody can tell: it is out of sight, or nobody asks how long jobs run",
    ]
    assert lines[12:] == [
        "  and 2 more",
        "3 jobs before it in the queue",
        "expected to start 2026-06-02 01:30:00 on gpu01:0-1",
        "it would start now with:",
        "  -G 2 instead of -G 4",
    ]


def test_when_jobs_are_expected_to_start(peer: Peer, mgpu: Callable) -> None:
    waits = job("PENDING", job_id=3, reason="Resources", detail="", expected_start=None, expected_on=[])
    on = [{"node": "gpu01", "devices": [0, 1, 2]}, {"node": "gpu02", "devices": []}]
    soon = job("PENDING", job_id=4, expected_start="2026-06-02T01:30:00Z", expected_on=on)
    task = {**waits, "job_id": "2_1"}
    peer.answers["GET", "/v1/jobs"] = {"jobs": [task, waits, soon, {**waits, "array_rest": "5-9%2"}]}
    lines = mgpu("queue", "--start", "--me").out.splitlines()
    assert lines[0].split() == ["JOBID", "NAME", "USER", "GPUS", "START", "NODE:GPU", "(REASON)"]
    assert lines[1].split()[0] == "4" and lines[1].endswith("2026-06-02 01:30:00  gpu01:0-2 gpu02")
    assert [line.split()[0] for line in lines[2:]] == ["2_1", "3", "3_[5-9%2]"]
    assert lines[3].endswith("-                    (Resources)")
    assert "start=1" in peer.paths()[-1] and "states=PENDING" in peer.paths()[-1]


UNKNOWN = "when it would start cannot be told: Resources: 1 GPU is free"


@pytest.mark.parametrize("command", ["srun", "submit"])
@pytest.mark.parametrize(
    ("changes", "out"),
    [
        ({"now": True, "expected_start": "2026-06-02T01:30:00Z"}, "it would start now on gpu01:0\n"),
        ({"expected_start": "2026-06-02T01:30:00Z"}, "expected to start 2026-06-02 01:30:00 on gpu01:0\n"),
        (
            {"sooner": ["without -w"], "expected_on": [], "reason": "Resources", "detail": "1 GPU is free"},
            f"{UNKNOWN}\nit would start now with:\n  without -w\n",
        ),
        ({"held": "JobHeldUser by ann"}, "it would be held\n"),
        ({"waits_for": "job 3 has to end first", "never": False}, "it would wait: job 3 has to end first\n"),
        ({"waits_for": "no job 3", "never": True}, "it would wait for what can never be: no job 3\n"),
        (
            {"waits_for": "job 3", "never": False, "untold": "nobody knows"},
            "it would wait: job 3\nwhen it would start cannot be told: nobody knows\n",
        ),
        ({"held": "h", "waits_for": "3", "never": False}, "it would be held\nit would wait: 3\n"),
    ],
)
def test_test_only_queues_nothing(peer: Peer, mgpu: Callable, command: str, changes: dict[str, Any], out: str) -> None:
    answer = {"now": False, "expected_start": None, "expected_on": [{"node": "gpu01", "devices": [0]}], "sooner": []}
    peer.answers["POST", "/v1/jobs/test"] = {**answer, "held": "", "notices": ["a notice"], **changes}
    assert mgpu(command, "--test-only", "-G", "1", "true") == (0, out, "mgpu: a notice\n")
    (body,) = peer.bodies("POST", "/v1/jobs/test")
    assert (body["options"], peer.bodies("POST", "/v1/jobs")) == ({"gpus": "1"}, [])


def test_a_place_in_the_queue_in_few_words() -> None:
    now = 1780360200.0  # 2026-06-02T00:30:00Z
    on = [{"node": "gpu01", "devices": [0, 1]}]
    at = {"expected_start": "2026-06-02T01:30:00Z", "expected_on": on}
    assert queue_place({"ahead": 2, **at}, now - 86_400) == "2 before it, expected 06-02 01:30 on gpu01:0-1"
    assert queue_place({"ahead": 0, **at}, now) == "next in line, expected 01:30 on gpu01:0-1"
    assert queue_place({"ahead": 3, "expected_start": None, "expected_on": []}, now) == "3 before it"
    nothing = {"ahead": None, "expected_start": None, "expected_on": []}
    assert queue_place(nothing, now) == queue_place({}, now) == ""
