"""Whatever a master answers: it is refused as it comes, or it can be drawn."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mgpu.tui import forms, node_rows, queue_rows, totals
from mgpu.tui.columns import shares
from mgpu.tui.facts import laid_out
from mgpu.tui.forms import Malformed
from mgpu.tui.job_facts import job_facts
from mgpu.tui.node_facts import node_facts
from mgpu.tui.wishes import drained, named, resumed
from mgpu.wording.jobs import contact_lost, ending
from tests.client.peer import job as streamed
from tests.tui.stand_in import NOW, ended, job, moment, zoo

Json = dict[str, Any]
GONE = object()  # the key is not there
ODD = (
    GONE, None, 0, -1, 1e308, float("nan"), float("inf"), 10**400, "x", "\x1b]52;c;QQ==\x07[bold]\ud800", "2026-09-21",
    "9999-12-31T23:59:59Z", [], {}, [None], ["x"], [[]], True, {"a": None},
)  # fmt: skip


def places(document: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Of all values in it; of a list the first stands for all."""
    inner = document.items() if isinstance(document, dict) else enumerate(document[:1]) if document else ()
    for key, value in inner:
        yield (*before, key)
        if isinstance(value, dict | list):
            yield from places(value, (*before, key))


def with_oddities(document: Any) -> Iterator[Any]:
    for *path, last in places(document):
        for odd in ODD:
            changed = copy.deepcopy(document)
            inner = changed
            for key in path:
                inner = inner[key]
            if odd is GONE:
                del inner[last]
            else:
                inner[last] = odd
            yield changed
    yield from ({}, [], None, "x", 5)


def draw_job(row: Json) -> None:
    for columns in (queue_rows.QUEUE, queue_rows.ENDED):
        found = shares(columns, 120)
        queue_rows.with_time(queue_rows.line(row, found, NOW), row, found, NOW)
    named(row)
    laid_out(job_facts(row, None, None, NOW), 60)


def draw_streamed(row: Json) -> None:
    ending(row)
    if row.get("allocation"):
        contact_lost(row, ["gpu01"])


def draw_node(node: Json) -> None:
    for plain in (False, True):
        node_rows.head(node, 100, node_rows.age_words(node, NOW, 10.0), 8, plain)
        node_rows.head(node, 100, "", 0, plain)
        for line in range(node_rows.lines_of(node, 100) - 1):
            node_rows.gpu_line(node, line, 100, plain)
    totals.node_totals([node])
    totals.gpu_totals([node])
    laid_out(node_facts(node, None, NOW), 60)


def draw_window(answer: Json) -> None:
    totals.job_totals(answer)
    sum((answer.get("states") or {}).values())
    for row in answer["jobs"]:
        draw_job(row)


def draw_why(why: Json) -> None:
    laid_out(job_facts(job(9, 5), why, None, NOW), 60)


def draw_job_use(use: Json) -> None:
    laid_out(job_facts(job(1, 5), None, use, NOW), 60)


def draw_node_use(use: Json) -> None:
    laid_out(node_facts(zoo()[0], use, NOW), 60)


def draw_drained(answer: Json) -> None:
    drained(answer)
    resumed(answer)


TRIED = job(
    1, 5, idle_since=moment(NOW), begin=moment(NOW), ship={"commit": "ab", "dirty": True, "directory": "", "files": 1,
    "size": 5}, array_rest="1-9", array="1-9", array_job_id=1, array_index=1, launcher="torchrun", ntasks_per_node=2,
    priority=5, exit_code=3, failed_rank=0, held="user", dependency="afterok:1", account="lab",
    attempts=[{"attempt": number, "state": "ENDED", "exit_code": 1, "reason": "x", "allocation": [{"node": "gpu01",
    "devices": [0]}], "start_time": moment(NOW), "end_time": moment(NOW)} for number in (1, 2)],
)  # fmt: skip
WHY = {
    "nodes": [{"node": "gpu01", "reason": "busy"}], "ahead": 2, "expected_start": moment(NOW), "sooner": ["-G 1"],
    "expected_on": [{"node": "gpu01", "devices": [0]}],
    "holders": [{"job_id": 1, "user": "ann", "gpus_until": moment(NOW), "time_limit_s": 60}],
}  # fmt: skip
POINTS = [{"at": moment(NOW), "gpus": 2, "utilization": 50.0, "memory_mib": 500}]
JOB_USE = {
    "points": POINTS, "step_s": 60, "utilization": 50.0, "memory_peak_mib": 500, "idle_since": None, "gpu_hours": 1.0,
    "idle_gpu_hours": 0.5,
}  # fmt: skip
NODE_USE = {"step_s": 60, "gpus": [{"uuid": zoo()[0]["gpus"][0]["uuid"], "index": 0, "points": POINTS}]}
MARK = {"since": moment(NOW), "by": "root", "reason": "fan"}
MACHINE = {
    "driver": "550", "cuda": "12", "cpus": 8, "load": 3.5, "cpus_claimed": 4, "memory_total_mib": 9, "xid": ["x"],
    "memory_available_mib": 5, "memory_claimed_mib": 3, "disk_free_mib": 7, "clock_offset_s": 4.0, "nvlink": ["0-1 x4"],
}  # fmt: skip


def worn(node: Json) -> Json:
    """With all that may be told of one."""
    gpu = node["gpus"][0] | {"drain": MARK, "suspect": MARK, "ecc_errors": 1, "temperature_c": 50, "power_w": 90}
    gpu["processes"] = [{"pid": 1, "user": "erin", "memory_mib": 1, "command": "x", "age_s": 5, "kind": "C"}]
    window = {"from": moment(NOW + 60), "to": moment(NOW + 120), "reason": "fan"}
    return node | {"gpus": [gpu], "machine": MACHINE, "drain": MARK, "maintenance": [window], "notes": ["slow"]}


WINDOW = {
    "jobs": [job(1, 5)], "offset": 0, "matching": 12, "states": {"PENDING": 7, "RUNNING": 5}, "waiting_gpus": 14,
}  # fmt: skip


@pytest.mark.parametrize(
    ("form", "draw", "document"),
    [
        (forms.WINDOW, draw_window, WINDOW),
        (forms.JOB, draw_job, TRIED),
        (forms.JOB, draw_job, TRIED | {"exit_code": None}),
        (forms.JOB, draw_job, job(9, 5)),
        (forms.JOB, draw_job, ended(1)),
        (forms.JOB, draw_streamed, streamed("FAILED", exit_code=137, failed_rank=0)),
        (forms.NODE, draw_node, worn(zoo()[0])),
        (forms.NODE, draw_node, zoo()[1] | {"gpus": zoo()[1]["gpus"][4:5]}),
        (forms.NODE, draw_node, zoo()[2]),
        (forms.NODE, draw_node, zoo()[3]),
        (forms.WHY, draw_why, WHY),
        (forms.JOB_USE, draw_job_use, JOB_USE),
        (forms.NODE_USE, draw_node_use, NODE_USE),
        (forms.DRAINED, draw_drained, {"node_id": "gpu01", "running": [1], "changed": True, "still_drained": ["x"]}),
    ],
)
def test_what_is_not_refused_can_be_drawn(form: Any, draw: Callable[[Json], None], document: Json) -> None:
    draw(form.checked(document))
    refused = 0
    for odd in with_oddities(document):
        try:
            form.checked(odd)
        except Malformed:
            refused += 1
            continue
        draw(odd)
    assert refused > 5


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([], "[] is not an object"),
        ({"jobs": [], "offset": 0}, "matching: missing"),
        ({**WINDOW, "jobs": [job(1, 5), job(2, 5, start_time="soon")]}, "jobs[1].start_time: 'soon' is not a time"),
        ({**WINDOW, "states": {"RUNNING": "x"}}, "states: {'RUNNING': 'x'} is not a number by each name"),
    ],
)
def test_it_is_told_what_is_wrong_and_where(answer: Any, words: str) -> None:
    with pytest.raises(Malformed) as raised:
        forms.WINDOW.checked(json.loads(json.dumps(answer)))
    assert str(raised.value) == words
