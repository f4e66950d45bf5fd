"""What a user is told to put where, and what is tried: for their own account alone, as the table has it."""

from __future__ import annotations

import getpass
from dataclasses import replace
from typing import Any

import pytest

from mgpu.core.logins import Logins
from tests.api.conftest import NODES, Served

ME = getpass.getuser()


def apart(served: Served, table: dict[str, str] | None = None, **more: Any) -> None:
    logins = Logins({ME: "ann"} if table is None else table, frozenset({"root"}))
    served.restart(config=replace(served.context.config, run_as="submitter", logins=logins, **more))


def test_the_line_and_the_ways(served: Served) -> None:
    apart(served)
    status, told = served.ask("GET", "/v1/enroll?nodes=gpu01")
    assert status == 200
    assert (told["user"], told["via"]) == (ME, "login")
    assert told["line"].startswith("restrict ssh-ed25519 AAAA mgpu@")
    [node] = told["nodes"]
    assert (node["node"], node["login"], node["here"]) == ("gpu01", "ann", ["-l", "ann", "gpu01.lab"])


def test_by_sudo_there_is_no_line(served: Served) -> None:
    apart(served, via="sudo")
    status, told = served.ask("GET", "/v1/enroll")
    assert (status, told["line"], [node["node"] for node in told["nodes"]]) == (200, "", list(NODES))


def test_what_is_tried_is_told_node_by_node_and_audited(served: Served) -> None:
    apart(served)
    served.desk.shut[ME, NODES[1]] = "not enrolled"
    status, told = served.ask("POST", "/v1/enroll", {})
    assert status == 200
    assert told["nodes"] == [
        {"node": NODES[0], "login": "ann", "ok": True, "why": ""},
        {"node": NODES[1], "login": "ann", "ok": False, "why": "not enrolled"},
    ]
    served.desk.shut[ME, NODES[1]] = None
    [late] = served.ask("POST", "/v1/enroll", {"nodes": NODES[1]})[1]["nodes"]
    assert (late["ok"], late["why"]) == (False, "it did not answer in time")
    with served.store.read() as reader:
        assert "1 of 2 nodes can be entered" in [entry.detail for entry in reader.audits(what="enroll")]


@pytest.mark.parametrize(
    ("nodes", "code", "words"),
    [
        ("gpu09", 404, "there is no node 'gpu09'"),
        ("gpu[01", 400, "gpu[01"),
        (5, 400, "must be text"),
        ("a\nb", 400, "text"),
    ],
)
def test_nodes_that_there_are_not(served: Served, nodes: object, code: int, words: str) -> None:
    apart(served)
    status, told = served.ask("POST", "/v1/enroll", {"nodes": nodes})
    assert (status, words in told["error"]["message"]) == (code, True), told


@pytest.mark.parametrize("table", [{ME: "none"}, {"*": "none"}])
def test_who_is_refused(served: Served, table: dict[str, str]) -> None:
    apart(served, table)
    for method in ("GET", "POST"):
        status, told = served.ask(method, "/v1/enroll", None if method == "GET" else {})
        assert (status, told["error"]["code"]) == (403, "not_allowed")
    assert served.ask("POST", "/v1/jobs", {"request_id": "1" * 8, "kind": "batch"})[0] == 400  # that comes first


def test_where_all_run_under_one_account_nobody_has_to(served: Served) -> None:
    status, told = served.ask("GET", "/v1/enroll")
    assert (status, "nobody has to enroll here" in told["error"]["message"]) == (400, True)
