"""The order of the walk, and what is left out where it makes no sense any more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mgpu.config.model import Config, NodeConfig, SshSettings
from mgpu.core.finding import Finding, Findings, failure, ok, warning
from mgpu.core.model import NodeName
from mgpu.core.plan import NodeFacts
from mgpu.doctor.case import Case, MasterView
from mgpu.doctor.patience import within
from mgpu.doctor.walk import WALK, Check, examine, examine_all

NOWHERE = Path("/nonexistent")


def case(name: str = "gpu01", local: bool = False) -> Case:
    node = NodeConfig(NodeName(name), "local" if local else "ssh", SshSettings(name), NodeFacts(NodeName(name)))
    return Case(node, Config(None, (node,)), NOWHERE)


def says(*findings: Finding) -> Callable[[Case], Findings]:
    return lambda _case: findings


def test_each_check_comes_after_what_it_stands_on() -> None:
    assert [check.name for check in WALK] == [
        "ssh", "name", "tcp", "banner", "host key", "keys", "login", "sessions", "shell", "tools",
        "home", "python", "nvidia-smi", "gpus", "locks", "logind", "clock", "residue", "master",
    ]  # fmt: skip
    # no gate after what is not one: all that can be looked at is looked at
    assert [check.gate for check in WALK] == sorted((check.gate for check in WALK), reverse=True)


def test_a_shut_gate_ends_it_and_says_what_was_not_looked_at() -> None:
    shut = failure("b", "no", "do it")
    checks = [
        Check("a", says(ok("a", "yes"))),
        Check("b", says(shut), gate=True),
        Check("c", says()),
        Check("d", says()),
    ]
    assert examine(case(), checks) == [
        ok("a", "yes"),
        shut,
        Finding("skipped", "the rest", "cannot be looked at so: c, d"),
    ]


def test_what_fails_beside_the_way_ends_nothing() -> None:
    checks = [
        Check("a", says(warning("a", "odd", "x")), gate=True),
        Check("b", says(failure("b", "no", "x"))),
        Check("c", says(ok("c", "yes"))),
    ]
    assert [each.check for each in examine(case(), checks)] == ["a", "b", "c"]


def test_a_shut_gate_at_the_end_leaves_nothing_out() -> None:
    assert len(examine(case(), [Check("a", says(failure("a", "no", "x")), gate=True)])) == 1


def test_this_machine_is_not_logged_in_to() -> None:
    checks = [Check("a", says(failure("a", "no", "x")), gate=True, remote=True), Check("b", says(ok("b", "yes")))]
    assert [each.check for each in examine(case(local=True), checks)] == ["connection", "b"]


def test_nodes_come_in_their_order() -> None:
    # no such host name can be asked for: the first gate is shut without a program being run
    cases = [case(name) for name in ("-c", "-a", "-b")]
    found = list(examine_all(cases))
    assert [each.node.name for each, _ in found] == ["-c", "-a", "-b"]
    assert all(findings[0].check == "ssh" and findings[0].status == "failure" for _, findings in found)


def test_what_an_operator_said_of_single_gpus() -> None:
    made = case()
    drained = {"index": 5, "uuid": "GPU-5", "reason": "drained by al: fan", "drain": {"by": "al"}, "suspect": None}
    suspect = {"index": 1002, "uuid": "MIG-2", "reason": "suspect, used last: jobs", "suspect": {"by": "mgpu"}}
    gone = {"index": None, "uuid": "GPU-9", "reason": "held by job 4; drained by al", "drain": {"by": "al"}}
    fine = {"index": 0, "uuid": "GPU-0", "reason": "", "drain": None, "suspect": None}
    made.master = MasterView({"state": "UP", "reason": "", "gpus": [fine, drained, suspect, gone]}, None)
    up, *said = WALK[-1].look(made)
    assert (up.status, [(each.status, each.text, each.hint) for each in said]) == (
        "ok",
        [
            ("warning", "GPU 5: drained by al: fan", "mgpu node resume gpu01:5 ends that"),
            ("warning", "GPU 0.2: suspect, used last: jobs", "mgpu node resume gpu01:0.2 ends that"),
            ("warning", "GPU GPU-9: held by job 4; drained by al", "mgpu node resume gpu01:GPU-9 ends that"),
        ],
    )


def test_nothing_is_waited_for_without_end() -> None:
    import threading

    assert within(30, lambda: 5) == 5
    with pytest.raises(ValueError, match="mine"):
        within(30, lambda: int("mine"))
    with pytest.raises(TimeoutError):
        within(0.01, threading.Event().wait)
