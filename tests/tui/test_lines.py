"""Nodes, jobs and totals as lines of text."""

from __future__ import annotations

from typing import Any

import pytest

from mgpu.tui import bars, node_rows, queue_rows, totals
from mgpu.tui.cells import Cell, fit, line_of, shown, width_of
from mgpu.tui.columns import Column, shares
from mgpu.tui.key_line import Entry, fitting
from mgpu.wording.figures import short_time
from tests.tui.stand_in import NOW, gpu, held, job, moment, node, zoo


def text(cells: list[Cell]) -> str:
    return "".join(cell.text for cell in cells)


@pytest.mark.parametrize(
    ("part", "drawn", "plain"),
    [
        (0, "░░░░", "...."),
        (0.001, "░░░░", "...."),
        (0.02, "▏░░░", "#..."),
        (0.5, "██░░", "##.."),
        (1.5, "████", "####"),
    ],
)
def test_bars(part: float, drawn: str, plain: str) -> None:
    assert (bars.bar(part, 4), bars.bar(part, 4, plain=True)) == (drawn, plain)


def test_bars_in_eighths_are_as_wide_as_they_should_be() -> None:
    assert {len(bars.bar(part / 1000, 7)) for part in range(1001)} == {7}


def test_a_letter_per_gpu() -> None:
    states = ("allocated", "external", "unhealthy", "unknown", "unused", "free", "something new")
    assert "".join(bars.letter(state, 50) for state in states) == "▄X!?-·?"
    assert "".join(bars.letter(state, 50, plain=True) for state in states) == "5X!?-.?"
    assert [bars.letter("allocated", busy) for busy in (None, 0, 100)] == ["=", "▁", "█"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"state": "free"}, "free"),
        ({"state": "allocated", "user": "ann", "job_id": 4, "reason": "held by job 4"}, "ann 4"),
        (
            {"state": "allocated", "user": "ann", "job_id": "4_2", "reason": "held by job 4_2; external (bob, pid 1)"},
            "ann 4_2 (external (bob, pid 1))",
        ),
        ({"state": "allocated", "job_id": 4, "reason": "held by job 4"}, "job 4"),
        ({"state": "external", "reason": "external (erin, pid 4242, python)"}, "external erin, pid 4242, python"),
        ({"state": "unhealthy", "reason": "unhealthy: 3 ECC errors"}, "unhealthy: 3 ECC errors"),
        ({"state": "unknown", "reason": ""}, "unknown"),
    ],
)
def test_whose_a_gpu_is(more: dict[str, Any], said: str) -> None:
    found = gpu(1, 0, **more)
    assert node_rows.words_of(found, found["state"]) == said


def test_a_node_that_takes_no_jobs_has_nothing_free() -> None:
    nodes = zoo()
    assert [node_rows.state_of(each, nodes[2]) for each in nodes[2]["gpus"]] == ["unused"] * 4
    assert text(totals.gpu_totals(nodes)) == "20 GPUs: 3 free, 10 with jobs, 1 external, 6 unusable"
    assert text(totals.node_totals(nodes)) == "4 nodes: 2 up, 1 drained, 1 down"
    assert text(totals.node_totals([])) == "no nodes"


def test_each_line_of_a_node_is_as_wide_as_it_should_be() -> None:
    for each in zoo():
        for width in range(1, 200, 3):
            lines = [
                node_rows.gpu_line(each, line, width, False) for line in range(node_rows.lines_of(each, width) - 1)
            ]
            lines += [node_rows.head(each, width, "seen 1:00 ago", letters, False) for letters in (0, 8)]
            assert {width_of(text(line)) for line in lines} == {width}


def test_how_old_a_nodes_figures_are_is_told_when_they_are_old() -> None:
    each = node(1, [held(1, 0, 1)], last_seen=moment(NOW - 90))
    assert node_rows.age_words(each, NOW, 90) == ""
    assert node_rows.age_words(each, NOW, 89) == "seen 1:30 ago"
    assert node_rows.age_words({**each, "last_seen": None}, NOW, 89) == "never seen"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "gpu01:0-1"),
        ({"idle_since": moment(NOW - 43 * 60)}, "idle 43 min gpu01:0-1"),
        ({"stop": "CANCEL"}, "gpu01:0-1 being ended"),
        ({"reason": "ContactLost", "detail": "no answer"}, "gpu01:0-1 (ContactLost: no answer)"),
        ({"state": "PENDING", "reason": "Resources", "detail": "none is free"}, "Resources: none is free"),
        (
            {"state": "PENDING", "reason": "Resources", "expected_start": moment(NOW + 60)},
            "at 14:14 (Resources)",
        ),
    ],
)
def test_where_a_job_runs_or_why_not(more: dict[str, Any], said: str) -> None:
    one = job(1, 1, **more)
    assert queue_rows._where(one, NOW, start_apart=False).text == said


def test_where_it_will_run_is_told_where_the_time_has_a_column_of_its_own() -> None:
    one = job(2, 1)
    assert queue_rows._where(one, NOW, start_apart=True).text == "→ gpu01:0-1 (Resources: no node has 2 free GPUs)"


def test_only_the_time_of_a_line_changes_with_the_clock() -> None:
    found = shares(queue_rows.QUEUE, 100)
    one = job(1, 1)
    later = queue_rows.with_time(queue_rows.line(one, found, NOW), one, found, NOW + 61)
    assert later == queue_rows.line(one, found, NOW + 61)
    assert "2:01" in text(later)


def test_how_long_a_job_waits_is_told_by_the_minute() -> None:
    assert [*map(queue_rows.waited, (7, 59, 60, 119, 3600, 86400))] == [
        "0:07",
        "0:59",
        "1 min",
        "1 min",
        "60 min",
        "24 h",
    ]


def test_how_long_a_job_is_idle_changes_with_the_clock_too() -> None:
    found = shares(queue_rows.QUEUE, 100)
    one = {**job(1, 1), "idle_since": moment(NOW - 60)}
    later = queue_rows.with_time(queue_rows.line(one, found, NOW), one, found, NOW + 120)
    assert later == queue_rows.line(one, found, NOW + 120)
    assert "idle 3 min" in text(later)


def test_the_memory_of_a_large_gpu_is_told_in_full() -> None:
    large = gpu(1, 0, memory_used_mib=120_000, memory_total_mib=183_359)
    assert " 117/179G" in text(node_rows.gpu_cells(large, node(1, [large]), 60, plain=False))


def test_a_time_of_another_day_has_its_date() -> None:
    assert short_time(moment(NOW + 60), NOW) == "14:14"
    assert short_time(moment(NOW + 86400), NOW) == "09-22 14:13"
    assert short_time(None, NOW) == ""


def test_columns_yield_in_order_and_fill_the_room() -> None:
    for columns in (queue_rows.QUEUE, queue_rows.ENDED):
        before: set[str] = set()
        for room in range(1, 200):
            found = shares(columns, room)
            assert sum(width for _, width in found) + len(found) - 1 <= room
            keys = {column.key for column, _ in found}
            assert len(keys) >= len(before)
            before = keys
        assert before == {column.key for column in columns}
    assert shares([Column("a", "A", 5, 5), Column("b", "B", 5, 0)], 3) == [(Column("a", "A", 5, 5), 3)]


def test_the_arrow_of_the_order_has_room_in_each_column() -> None:
    for columns in (queue_rows.QUEUE, queue_rows.ENDED):
        for room in (76, 100, 160):
            for column, _ in shares(columns, room):
                if column.sort:
                    assert f"{column.title}↓" in text(queue_rows.head(shares(columns, room), column.sort))


def test_when_a_job_starts_has_a_column_where_names_keep_theirs() -> None:
    for room in range(70, 160):
        found = {column.key: width for column, width in shares(queue_rows.QUEUE, room)}
        assert found["name"] >= (16 if "start" in found else 8) and found["where"] >= 24


@pytest.mark.parametrize(
    ("state", "barred", "reason", "said"),
    [
        ("DRAINED", "NodeDrained", "drained by root: new fan", "2 GPUs, none for jobs  drained by root: new fan"),
        ("UP", "NodeDrained", "GPUs are drained", "2 GPUs, none for jobs: withheld  GPUs are drained"),
        ("UP", "Maintenance", "maintenance to 12:00", "2 GPUs, none for jobs  maintenance to 12:00"),
        ("UP", "Maintenance", "", "2 GPUs, none for jobs: maintenance  A100"),
    ],
)
def test_what_keeps_jobs_from_a_node_is_said_once(state: str, barred: str, reason: str, said: str) -> None:
    one = node(1, [gpu(1, 0), gpu(1, 1)], state=state, barred=barred, reason=reason)
    assert said in text(node_rows.head(one, 120, "", 0, plain=False))


@pytest.mark.parametrize(
    "value", ["", "abc", "训练模型", "e\u0301" * 40, "🚀" * 9, "\x1b[31mred", "a\tb\nc", "\ud800", None, 7]
)
def test_a_cell_is_as_wide_as_it_should_be(value: Any) -> None:
    for width in range(12):
        for right in (False, True):
            assert width_of(fit(value, width, right)) == width
            assert fit(value, width, right).isprintable()
    assert width_of(text(line_of([Cell(str(value)), Cell("x" * 5)], 9))) == 9
    assert shown("❤️") == "❤"


def test_of_the_keys_help_and_quit_are_always_shown() -> None:
    entries = [Entry("a", "a", "First", False), Entry("b", "b", "Second", False), Entry("q", "q", "Quit", True)]
    assert [entry.key for entry in fitting(entries, 100)] == ["a", "b", "q"]
    assert [entry.key for entry in fitting(entries, 20)] == ["a", "q"]
    assert [entry.key for entry in fitting(entries, 1)] == ["q"]


@pytest.mark.parametrize("lines", [1, 2])
def test_totals_tell_what_matters_most_where_there_is_little_room(lines: int) -> None:
    parts = {
        "nodes": totals.node_totals(zoo()), "gpus": totals.gpu_totals(zoo()),
        "jobs": totals.job_totals({"states": {"RUNNING": 5, "PENDING": 7}, "waiting_gpus": 14}),
        "end": [Cell("14:13:20")],
    }  # fmt: skip
    for width in range(1, 200):
        found = totals.arranged(parts, "stale, 0:12 old: the disk is full", width, lines)
        assert len(found) == lines
        assert {width_of(text(line)) for line in found} == {width}
    (one,) = totals.arranged(parts, "", 50, 1)
    assert "5 running, 7 waiting for 14 GPUs" in text(one)
    (one,) = totals.arranged(parts, "stale", 50, 1)
    assert text(one).startswith("  stale ")
