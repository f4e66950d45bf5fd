"""Which nodes a preflight is about, what is told of them, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from mgpu.core.model import JobState
from tests.api.conftest import NODES, Served


def ask(served: Served, **body: Any) -> tuple[int, Any]:
    return served.ask("POST", "/v1/preflight", body)


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({}, NODES),
        ({"nodes": "2"}, NODES),
        ({"nodelist": "gpu[02,01]"}, (NODES[1], NODES[0])),
        ({"gpu_type": "A100"}, NODES),
        ({"nodes": None, "nodelist": "gpu01,gpu02,gpu01"}, NODES),
    ],
)
def test_which_nodes_are_meant(served: Served, body: dict[str, Any], names: tuple[str, ...]) -> None:
    status, told = ask(served, **body, cwd="/here", virtual_env="/venv")
    assert status == 200
    assert told["nodes"] == list(names)
    assert served.desk.inquiries == [(list(names), "/here", "/venv")]
    assert [way["result"] for way in told["ways"]] == ["ok", "ok"]
    assert "way" in {finding["check"] for finding in told["findings"]}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"nodes": "3"}, "3 nodes were asked for, 2 would do"),
        ({"nodes": "1"}, "--nodes must be a number from 2 on"),
        ({"nodes": "9" * 5000}, "--nodes must be a number from 2 on"),
        ({"nodes": 2}, "must be text"),
        ({"nodes": "2", "nodelist": "gpu01"}, "not both"),
        ({"nodelist": "gpu01"}, "only gpu01 would do"),
        ({"nodelist": "gpu[01"}, "gpu[01"),
        ({"partition": "nowhere"}, "no node is of a partition 'nowhere'"),
        ({"gpu_type": "H100"}, "H100"),
        ({"gpu_type": "|"}, "empty part"),
        ({"cwd": "a\nb"}, "must be text"),
    ],
)
def test_what_is_refused(served: Served, body: dict[str, Any], words: str) -> None:
    status, told = ask(served, **body)
    assert status == 400
    assert words in told["error"]["message"]
    assert served.desk.inquiries == []


def test_a_node_that_there_is_not(served: Served) -> None:
    status, told = ask(served, nodelist="gpu01,gpu09")
    assert status == 404
    assert "there is no node 'gpu09'" in told["error"]["message"]


def test_a_directory_that_is_none_is_not_looked_for(served: Served) -> None:
    ask(served, cwd="here")
    assert served.desk.inquiries[0][1] == ""


def test_a_job_whose_nodes_call_each_other_says_so(served: Served) -> None:
    job_id = served.submit("a" * 8)
    served.start(job_id)
    served.change_job(job_id, state=JobState.RUNNING, reason="Starting", attempt=1)
    before = served.ask("GET", f"/v1/jobs/{job_id}/why")[1]
    served.desk.looked_at.add(job_id)
    now = served.ask("GET", f"/v1/jobs/{job_id}/why")[1]
    assert "try whether they reach each other" in now["detail"]
    assert "try whether" not in before["detail"]
