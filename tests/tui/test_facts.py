"""What is said of a job and of a node, and how it is laid out."""

from __future__ import annotations

from typing import Any

import pytest

from mgpu.tui.cells import total_width
from mgpu.tui.facts import Fact, folded, laid_out
from mgpu.tui.job_facts import job_facts
from mgpu.tui.node_facts import node_facts
from mgpu.tui.sparkline import fitted, sparkline, use_words, utilization
from mgpu.wording.figures import local_time
from tests.client.peer import job
from tests.tui import stand_in
from tests.tui.host import NOW

PART = job("RUNNING")["allocation"][0]


def told(facts: list[Fact]) -> list[str]:
    """`word: text`, what continues a fact under its word."""
    lines, word = [], ""
    for fact in facts:
        word = fact.word or word
        lines.append(f"{word}: {fact.text}")
    return lines


def of_job(word: str, reasons: Any = None, use: Any = None, **more: Any) -> list[str]:
    return told(job_facts(job(word, **more), reasons, use, NOW))


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("job: 17 train of alice account vision in a100", {"account": "vision", "partition": "a100"}),
        ("state: RUNNING", {}),
        ("runs: for 0:50, no time limit", {}),
        ("runs: for 0:50 of 1:00:00, 59:10 left", {"time_limit_s": 3600}),
        ("runs: for 0:50 of 0:50, its time is over", {"time_limit_s": 50}),
        ("idle: idle 0 min: it holds GPUs without using them", {"idle_since": "2026-01-01T00:00:10Z"}),
        ("rank 0: runs as pid 42: gpu01 (gpu01.lab, 10.0.0.1), GPU 0,1 [GPU-a GPU-b]", {}),
        ("command: python train.py", {}),
        ("command: 'a b' '$(c)'", {"command": ["a b", "$(c)"]}),
        ("depends on: afterok:3", {"dependency": "afterok:3"}),
        ("asked for: 2 GPUs on 1 node", {}),
        ("attempt 1: ENDED exit 3 (NonZeroExitCode) 2026-01-01", {"attempts": [
            {"attempt": 1, "state": "ENDED", "exit_code": 3, "reason": "NonZeroExitCode", "allocation": [],
             "start_time": "2026-01-01T00:00:01Z", "end_time": "2026-01-01T00:00:05Z"},
            {"attempt": 2, "state": "RUNNING"}]}),
    ],
)  # fmt: skip
def test_of_a_job_that_runs(line: str, given: dict[str, Any]) -> None:
    found = of_job("RUNNING", **given)
    assert any(each.startswith(line) for each in found), found


def test_of_a_job_that_contact_was_lost_with() -> None:
    lost = {**PART, "state": "LOST", "lost_since": "2026-01-01T00:00:30Z"}
    facts = job_facts(job("RUNNING", allocation=[lost, {**PART, "rank": 1}]), None, None, NOW)
    ranks = [fact for fact in facts if fact.word.startswith("rank")]
    assert ranks[0].text.startswith(
        f"contact lost since {local_time('2026-01-01T00:00:30Z')}, it may well run on: gpu01"
    )
    assert [fact.tone for fact in ranks] == ["bad", "ours"]


def test_of_a_job_that_waits() -> None:
    reasons = {
        "nodes": [
            *({"node": f"gpu{number:02}", "reason": "2 of 8 GPUs free, 4 wanted"} for number in range(1, 41)),
            {"node": "gpu41", "reason": "maintenance from 2026-01-01 08:00 UTC"},
        ],
        "ahead": 3, "expected_start": "2026-01-01T01:00:00Z",
        "expected_on": [{"node": "gpu07", "devices": [0, 1, 2, 3]}],
        "sooner": ["-G 2 instead of -G 4"],
        "holders": [{"job_id": 12, "user": "bob", "gpus_until": "2026-01-01T01:00:00Z", "time_limit_s": 3600}],
    }  # fmt: skip
    found = of_job("PENDING", reasons, reason="Resources", detail="no node has 4 free GPUs")
    eight = local_time("2026-01-01T08:00:00Z")[:16]
    one = local_time("2026-01-01T01:00:00Z")
    assert found[1:] == [
        "state: PENDING",
        "waits: for 1:00",
        "reason: Resources: no node has 4 free GPUs",
        "nodes: gpu01 gpu02 gpu03 and 37 more: 2 of 8 GPUs free, 4 wanted",
        f"nodes: gpu41: maintenance from {eight}",
        f"held by: job 12 of bob, until {one} at the latest",
        "outlook: 3 jobs before it in the queue",
        f"outlook: expected to start {one} on gpu07:0-3",
        "outlook: it would start now with:",
        "outlook: -G 2 instead of -G 4",
        "command: python train.py",
        "asked for: 2 GPUs on 1 node",
        f"submitted: {local_time('2026-01-01T00:00:00Z')}",
    ]


def test_of_a_job_that_ended() -> None:
    found = of_job(
        "FAILED", exit_code=137, end_time="2026-01-01T00:00:40Z", reason="NonZeroExitCode", detail="exit 137"
    )
    assert "state: FAILED, exit 137: killed by signal 9 (SIGKILL), possibly out of memory" in found
    assert "ran: for 0:30" in found


def test_of_what_a_job_used() -> None:
    points = [{"at": "x", "gpus": 2, "utilization": value, "memory_mib": 1} for value in (0, None, 50, 100)]
    use = {
        "points": points,
        "step_s": 60,
        "utilization": 50.4,
        "memory_peak_mib": 22528,
        "gpu_hours": 12.34,
        "idle_gpu_hours": 3,
    }
    facts = job_facts(job("RUNNING"), None, use, NOW)
    (fact,) = [each for each in facts if each.word == "GPU use"]
    assert fact.text == "mean 50 %; at most 22.0 GiB; 12.3 GPU-hours, 3 of them idle; the last 4:00"
    assert "".join(cell.text for cell in laid_out([fact], 60)[0]).rstrip() == "GPU use      ▁ ▅█"
    assert "".join(cell.text for cell in laid_out([fact], 60, plain=True)[0]).rstrip() == "GPU use      _ +#"
    assert any(line.startswith("GPU use: not measured yet") for line in of_job("RUNNING", use={"points": []}))


def test_of_a_node() -> None:
    nodes, model = stand_in.zoo(), "NVIDIA A100-SXM4-80GB"
    use = {"step_s": 300, "gpus": [{"uuid": "GPU-gpu02-4", "points": [{"utilization": 20}, {"utilization": 40}]}]}
    found = told(node_facts(nodes[1], use, stand_in.NOW))
    assert found[:2] == ["node: gpu02 (gpu02 10.0.0.2)", "state: UP, 3 of 8 GPUs free, seen 0:03 ago"]
    start = next(place for place, line in enumerate(found) if line.startswith("GPU 4: "))
    assert found[start : start + 3] == [
        "GPU 4: external, erin, pid 4242, python, 11 GiB, 2 h, 10.7 of 80.0 GiB, 88 %, 40 C, 80 W, " + model,
        "GPU 4: mean 30 % in the last 10:00",
        "GPU 4: pid 4242 of erin 10.7 GiB for 2:30:00: python",
    ]
    assert "GPU 0: GPU-gpu02-0" in found
    assert "cpus: 64" in found
    down = told(node_facts(nodes[3], None, stand_in.NOW))
    assert down[1:3] == ["state: DOWN, no GPUs seen, seen 1:00:00 ago", "reason: no route to host"]


def test_marks_of_a_node_and_its_gpus_are_told() -> None:
    mark = {"by": "root", "since": "2026-01-01T00:00:00Z", "reason": "new fan"}
    gpu = stand_in.gpu(1, 0, drain=mark, suspect={**mark, "reason": "jobs 4, 5 failed there"}, ecc_errors=2)
    found = told(node_facts(stand_in.node(1, [gpu], state="DRAINED", drain=mark), None, stand_in.NOW))
    when = local_time("2026-01-01T00:00:00Z")
    assert f"drained: by root since {when}: new fan" in found
    assert f"GPU 0: drained by root since {when}: new fan" in found
    assert "GPU 0: suspect, used last: jobs 4, 5 failed there" in found
    assert "GPU 0: 2 uncorrected ECC errors" in found


@pytest.mark.parametrize(
    ("values", "width", "line"),
    [
        ([], 5, ""),
        ([0, 100], 0, ""),
        ([0, 1, 12.5, 50, 87.5, 100], 10, "▁▂▂▅██"),
        ([0, None, 0], 10, "▁ ▁"),
        ([0, 100] * 50, 10, "▅" * 10),
        ([None] * 10 + [100] * 10, 4, "  ██"),
        ([100] * 7, 3, "███"),
        ([-5, 1000], 2, "▁█"),
    ],
)
def test_a_line_of_bars(values: list[float | None], width: int, line: str) -> None:
    assert sparkline(values, width) == line
    assert len(fitted(values, width)) <= width


def test_what_is_no_number_was_not_measured() -> None:
    points = [{"utilization": value} for value in (True, "7", float("nan"), [], None)]
    assert utilization([*points, {}]) == [None] * 6
    assert use_words({"utilization": "x", "gpu_hours": None}) == ""


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("", 5, [""]),
        ("one two three", 7, ["one two", "three"]),
        ("abcdefgh ij", 3, ["abc", "def", "gh", "ij"]),
        ("日本語 x", 4, ["日本", "語 x"]),
        ("a\x1b[31mb", 80, ["a\\e[31mb"]),
    ],
)
def test_folding(text: str, width: int, lines: list[str]) -> None:
    assert folded(text, width) == lines


@pytest.mark.parametrize("width", [1, 2, 5, 20, 36, 80, 300])
def test_every_line_is_as_wide_as_the_screen(width: int) -> None:
    facts = [Fact("a word 日本語", "text 日本 " * 9), Fact("", "more"), Fact("x", "", values=[1, None, 3])]
    assert {total_width(line) for line in laid_out(facts, width)} == {width}
