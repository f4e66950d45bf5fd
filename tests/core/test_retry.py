"""Verdicts on ended attempts, as a table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mgpu.core.model import FailureClass, JobKind, JobState, NodeName
from mgpu.core.retry import NEWCOMER_PAUSE_S, Given, Rules, judge, where_exit
from tests.core.trial import ended, job

NOW = 100.0
F = FailureClass
SRUN = {"kind": JobKind.SRUN}
Row = tuple[dict[str, Any], list[Any], dict[str, Any], tuple[JobState, str, int | None]]

VERDICTS: dict[str, Row] = {
    "all well": ({}, [ended(0), ended(1)], {}, (JobState.COMPLETED, "", 0)),
    "own exit": ({}, [ended(0, F.EXIT, 2)], {}, (JobState.FAILED, "NonZeroExitCode", 2)),
    "retries left": ({"spec": {"retries": 1}}, [ended(0, F.EXIT, 2)], {}, (JobState.PENDING, "Retry", 2)),
    "retries used": (
        {"spec": {"retries": 1}},
        [ended(0, F.EXIT, 2)],
        {"own_exits": 1},
        (JobState.FAILED, "NonZeroExitCode", 2),
    ),
    "cancelled": (
        {"stop": "CANCEL by bob"},
        [ended(0, F.EXIT, 143, stop="CANCEL")],
        {},
        (JobState.CANCELLED, "Cancelled", 143),
    ),
    "port in use, found before": (
        {},
        [ended(0, F.PORT), ended(1, F.STOPPED, stop="GANG")],
        {},
        (JobState.PENDING, "PortInUse", None),
    ),
    "port in use, told by the command": (
        SRUN,
        [ended(0, F.EXIT, 1, stop="PORT"), ended(1, F.EXIT, 2, at=4.0)],
        {},
        (JobState.PENDING, "PortInUse", 1),
    ),
    "port in use again": (
        {},
        [ended(0, F.EXIT, 1, stop="PORT")],
        {"ports": 1},
        (JobState.FAILED, "NonZeroExitCode", 1),
    ),
    "port in use, its stdin was given": (
        {"spec": {"input": "pipe"}},
        [ended(0, F.EXIT, 1, stop="PORT")],
        {},
        (JobState.FAILED, "NonZeroExitCode", 1),
    ),
    "no way between its nodes": (
        {},
        [ended(0, F.STOPPED), ended(1, F.NETWORK)],
        {},
        (JobState.PENDING, "LaunchFailed", None),
    ),
    "no way between its nodes, and there are no others": (
        {},
        [ended(1, F.NETWORK)],
        {"elsewhere": False},
        (JobState.FAILED, "LaunchFailed", None),
    ),
    "ended before the wish came": ({"stop": "CANCEL by bob"}, [ended(0)], {}, (JobState.COMPLETED, "", 0)),
    "timed out": ({}, [ended(0, F.EXIT, 143, stop="TIMEOUT")], {}, (JobState.TIMEOUT, "TimeLimit", 143)),
    "timed out, exit 0": ({}, [ended(0, stop="TIMEOUT")], {}, (JobState.TIMEOUT, "TimeLimit", 0)),
    "timed out before it was cancelled": (
        {"stop": "CANCEL by bob"},
        [ended(0, F.EXIT, 143, stop="TIMEOUT")],
        {},
        (JobState.TIMEOUT, "TimeLimit", 143),
    ),
    "ended while it was cancelled, after node trouble": (
        {"stop": "CANCEL by bob"},
        [ended(0, F.NODE)],
        {},
        (JobState.CANCELLED, "Cancelled", None),
    ),
    "out of memory": ({}, [ended(0, F.EXIT, 137, stop="OOM")], {}, (JobState.FAILED, "OutOfMemory", 137)),
    "out of memory before the wish came": (
        {"stop": "CANCEL by bob"},
        [ended(0, F.EXIT, 137, stop="OOM")],
        {},
        (JobState.FAILED, "OutOfMemory", 137),
    ),
    "out of memory, retries left": (
        {"spec": {"retries": 1}},
        [ended(0, F.EXIT, 137, stop="OOM")],
        {},
        (JobState.PENDING, "Retry", 137),
    ),
    "gang: one out of memory": (
        {},
        [ended(0, F.EXIT, 143, at=3.0, stop="GANG"), ended(1, F.EXIT, 137, at=4.0, stop="OOM")],
        {},
        (JobState.FAILED, "OutOfMemory", 137),
    ),
    "asked to be queued again": (
        {},
        [ended(0, stop="REQUEUE"), ended(1, F.EXIT, 143, stop="REQUEUE")],
        {"requeues": 19},
        (JobState.PENDING, "Requeued", 143),
    ),
    "asked once too often": ({}, [ended(0, stop="REQUEUE")], {"requeues": 20}, (JobState.FAILED, "RequeueLimit", 0)),
    "asked, and was cancelled": (
        {"stop": "CANCEL by bob"},
        [ended(0, F.EXIT, 143, stop="REQUEUE")],
        {},
        (JobState.CANCELLED, "Cancelled", 143),
    ),
    "somebody wants it again": (
        {"stop": "RESTART by bob"},
        [ended(0, F.EXIT, 143, stop="RESTART"), ended(1, F.NODE_LOST)],
        {"requeues": 20},
        (JobState.PENDING, "Requeued", None),
    ),
    "somebody wants it again, and it had come to its end": (
        {"stop": "RESTART by bob"},
        [ended(0)],
        {},
        (JobState.PENDING, "Requeued", 0),
    ),
    "somebody wanted it again, and then no more": (
        {"stop": "CANCEL by bob"},
        [ended(0, F.EXIT, 143, stop="RESTART")],
        {},
        (JobState.CANCELLED, "Cancelled", 143),
    ),
    "asked, and the time was over on another node": (
        {},
        [ended(0, stop="REQUEUE"), ended(1, stop="TIMEOUT")],
        {},
        (JobState.TIMEOUT, "TimeLimit", 0),
    ),
    "asked, but must not": (
        {"spec": {"requeue": False}},
        [ended(0, F.EXIT, 143, stop="REQUEUE")],
        {},
        (JobState.FAILED, "NonZeroExitCode", 143),
    ),
    "asked, but is waited for": (SRUN, [ended(0, stop="REQUEUE")], {}, (JobState.COMPLETED, "", 0)),
    "exit that means again": (
        {"spec": {"requeue_exits": (85, 86), "retries": 3}},
        [ended(0, F.EXIT, 86)],
        {},
        (JobState.PENDING, "Requeued", 86),
    ),
    "another exit": (
        {"spec": {"requeue_exits": (85,)}},
        [ended(0, F.EXIT, 1)],
        {},
        (JobState.FAILED, "NonZeroExitCode", 1),
    ),
    "that exit once too often": (
        {"spec": {"requeue_exits": (85,)}},
        [ended(0, F.EXIT, 85)],
        {"requeues": 20},
        (JobState.FAILED, "RequeueLimit", 85),
    ),
    "login": ({}, [ended(0, F.LOGIN)], {}, (JobState.PENDING, "LoginRefused", None)),
    "newcomer": ({}, [ended(0, F.NEWCOMER)], {}, (JobState.PENDING, "Newcomer", None)),
    "node trouble": ({}, [ended(0, F.NODE)], {}, (JobState.PENDING, "LaunchFailed", None)),
    "node trouble once too often": ({"failures": 5}, [ended(0, F.NODE)], {}, (JobState.FAILED, "LaunchFailed", None)),
    "fenced": ({}, [ended(0, F.STOPPED, stop="START_HANGS")], {}, (JobState.PENDING, "LaunchFailed", None)),
    "directory": ({}, [ended(0, F.DIRECTORY)], {}, (JobState.PENDING, "LaunchFailed", None)),
    "directory nowhere": ({}, [ended(0, F.DIRECTORY)], {"elsewhere": False}, (JobState.FAILED, "LaunchFailed", None)),
    "node trouble, only node": ({}, [ended(0, F.NODE)], {"elsewhere": False}, (JobState.PENDING, "LaunchFailed", None)),
    "rebooted batch": ({}, [ended(0, F.NODE_LOST)], {}, (JobState.PENDING, "Requeued", None)),
    "rebooted srun": (SRUN, [ended(0, F.NODE_LOST)], {}, (JobState.NODE_FAIL, "NodeFail", None)),
    "no requeue": ({"spec": {"requeue": False}}, [ended(0, F.NODE_LOST)], {}, (JobState.NODE_FAIL, "NodeFail", None)),
    "requeued too often": ({"failures": 5}, [ended(0, F.NODE_LOST)], {}, (JobState.NODE_FAIL, "NodeFail", None)),
    "supervisor": ({"spec": {"retries": 3}}, [ended(0, F.SUPERVISOR)], {}, (JobState.FAILED, "SupervisorKilled", None)),
    "gang: lost before its start was heard of, others ran": (
        {},
        [ended(0, F.EXIT, 143, stop="GANG"), ended(1, F.NODE)],
        {},
        (JobState.PENDING, "Requeued", None),
    ),
    "gang: the same of an srun": (
        SRUN,
        [ended(0, F.EXIT, 143, stop="GANG"), ended(1, F.NODE)],
        {},
        (JobState.NODE_FAIL, "NodeFail", None),
    ),
    "gang: the first by itself": (
        {},
        [ended(0, F.EXIT, 143, at=3.0, stop="GANG"), ended(1, F.EXIT, 4, at=5.0), ended(2, F.EXIT, 5, at=6.0)],
        {},
        (JobState.FAILED, "NonZeroExitCode", 4),
    ),
    "gang: cut off, it ran on until its limit, long after another one had failed": (
        {"spec": {"time_limit_s": 60}},
        [ended(0, F.EXIT, 3, at=20.0), ended(1, F.EXIT, 143, at=62.5, stop="TIMEOUT")],
        {},
        (JobState.FAILED, "NonZeroExitCode", 3),
    ),
    "gang: the same, but its supervisor was killed": (
        {"spec": {"time_limit_s": 60}},
        [ended(0, F.SUPERVISOR, at=20.0, stop="ORPHANED"), ended(1, F.EXIT, 143, at=62.5, stop="TIMEOUT")],
        {},
        (JobState.FAILED, "SupervisorKilled", None),
    ),
    "gang: one fails because the other was told that the time is over": (
        {"spec": {"time_limit_s": 60}},
        [ended(0, F.EXIT, 1, at=62.4), ended(1, F.EXIT, 143, at=65.0, stop="TIMEOUT")],
        {},
        (JobState.TIMEOUT, "TimeLimit", 1),
    ),
    "gang: time over while one of them was ended for its supervisor": (
        {"spec": {"time_limit_s": 60}},
        [ended(0, F.SUPERVISOR, at=68.0, stop="ORPHANED"), ended(1, F.EXIT, 143, at=62.5, stop="TIMEOUT")],
        {},
        (JobState.TIMEOUT, "TimeLimit", 143),
    ),
    "gang: what ended the others is no consequence of that": (
        {},
        [ended(0, F.SUPERVISOR, at=9.0, stop="ORPHANED"), ended(1, F.EXIT, 143, at=8.0, stop="GANG")],
        {},
        (JobState.FAILED, "SupervisorKilled", None),
    ),
    "gang: a node before an exit": (
        {},
        [ended(0, F.NODE, at=3.0), ended(1, F.STOPPED, at=2.0, stop="GANG")],
        {},
        (JobState.PENDING, "LaunchFailed", None),
    ),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_verdicts(name: str) -> None:
    about, parts, given, wanted = VERDICTS[name]
    verdict = judge(job(**about), parts, NOW, Rules(), Given(**given))
    assert (verdict.state, verdict.reason, verdict.exit_code) == wanted
    if verdict.state is JobState.PENDING:
        assert verdict.not_before >= NOW
    else:
        assert verdict.not_before == 0.0


def test_what_a_failed_start_costs() -> None:
    before = job(failures=1, avoid=(NodeName("node009"),))
    launch = judge(before, [ended(0, F.NODE)], NOW, Rules(), Given())
    assert (launch.failures, launch.avoid) == (2, ("node009", "node001"))
    newcomer = judge(before, [ended(0, F.NEWCOMER)], NOW, Rules(), Given(jitter=0.5))
    assert (newcomer.failures, newcomer.avoid) == (1, before.avoid)
    assert newcomer.not_before == NOW + NEWCOMER_PAUSE_S * 1.5
    ports = [judge(before, [ended(0, F.PORT)], NOW, Rules(), Given(ports=earlier, jitter=0.5)) for earlier in (0, 1)]
    assert {(verdict.failures, verdict.avoid) for verdict in ports} == {(1, before.avoid)}
    assert [verdict.not_before - NOW for verdict in ports] == [0.0, NEWCOMER_PAUSE_S * 1.5]


def test_the_pause_doubles_up_to_its_most() -> None:
    rules = Rules(maximum=99, backoff_s=10.0, backoff_max_s=60.0)
    pauses = [
        judge(job(failures=count), [ended(0, F.NODE)], NOW, rules, Given(jitter=0.5)).not_before - NOW
        for count in range(6)
    ]
    assert pauses == [0.0, 20.0, 40.0, 60.0, 60.0, 60.0]
    alone = judge(job(), [ended(0, F.NODE)], NOW, rules, Given(elsewhere=False, jitter=0.5))
    assert alone.not_before - NOW == 10.0


def test_a_missing_directory_is_looked_for_on_the_other_nodes_at_once() -> None:
    job_so_far = job()
    for tries in range(1, 4):
        verdict = judge(job_so_far, [ended(0, F.DIRECTORY)], NOW, Rules(), Given(jitter=0.5))
        assert (verdict.state, verdict.not_before, verdict.failures) == (JobState.PENDING, NOW, tries)
        job_so_far = replace(job_so_far, failures=verdict.failures, avoid=(NodeName(f"node00{tries + 1}"),))
    last = judge(job_so_far, [ended(0, F.DIRECTORY)], NOW, Rules(), Given(elsewhere=False))
    assert last.state is JobState.FAILED
    assert last.detail.endswith("tried before on node004")


def test_out_of_memory_is_a_guess_until_the_kernel_says_so() -> None:
    assert where_exit(ended(0, F.EXIT, 137, stop="OOM")) == (
        "killed by signal 9: out of memory (the kernel says so) on node001"
    )


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (1, "exit code 1 on node001"),
        (127, "exit code 127 on node001"),
        (128, "exit code 128 on node001"),
        (137, "killed by signal 9 (SIGKILL, possibly out of memory) on node001"),
        (139, "killed by signal 11 (SIGSEGV) on node001"),
        (255, "exit code 255 on node001"),
    ],
)
def test_ends_in_words(code: int, words: str) -> None:
    assert where_exit(ended(0, F.EXIT, code)) == words


def test_a_cancelled_job_that_was_given_up_says_what_nobody_knows() -> None:
    given_up = ended(0, F.NODE_LOST, stop="GIVEN_UP", reason="given up by ann without proof that it has ended")
    verdict = judge(job(stop="CANCEL by bob"), [given_up], NOW, Rules(), Given())
    assert (verdict.state, verdict.detail) == (
        JobState.CANCELLED,
        "cancelled by bob; on node001: given up by ann without proof that it has ended",
    )
