"""mgpu report as it is seen: text that fits, CSV, JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mgpu.cli import report
from tests.client.peer import job

NOTHING = {
    "gpu_hours": 0.0, "share": None, "measured_gpu_hours": 0.0, "utilization": None, "idle_gpu_hours": 0.0,
    "memory_peak_mib": None, "jobs": 1, "completed": 0, "failed": 0, "cancelled": 0, "success": None,
    "wait_median_s": None, "wait_p90_s": None,
}  # fmt: skip
ANN = {
    **NOTHING, "name": "ann", "gpu_hours": 123.44, "share": 0.615, "measured_gpu_hours": 120.0, "utilization": 78.4,
    "idle_gpu_hours": 4.2, "memory_peak_mib": 72_909, "jobs": 45, "completed": 42, "failed": 3, "success": 0.933,
    "wait_median_s": 43.0, "wait_p90_s": 13_300.0,
}  # fmt: skip
NODE = {"node_id": "gpu01", "up": 0.99998, "downs": 1, "job_failures": 2, "suspect": 0}


def answer(**changes: Any) -> dict[str, Any]:
    rows = [ANN, {**NOTHING, "name": ""}]
    told = {"since": "2026-11-21T22:30:00Z", "until": "2026-11-28T22:30:00Z", "by": "user", "rows": rows}
    return {**told, "total": {**ANN, "name": "total"}, "nodes": [NODE], "idle": [], **changes}


@pytest.fixture(autouse=True)
def utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")


def test_a_report_on_one_screen(peer, mgpu):
    peer.answers["GET", "/v1/report"] = answer()
    ran = mgpu("report")
    assert ran.out.splitlines() == [
        "2026-11-21 22:30 to 2026-11-28 22:30, by user",
        "",
        "USER    GPU-H  SHARE  UTIL  IDLE-H   GIB  JOBS    OK  WAIT    P90",
        "ann     123.4   62 %  78 %     4.2  71.2    45  93 %  43 s  3.7 h",
        "(none)    0.0      -     -       -     -     1     -     -      -",
        "total   123.4   62 %  78 %     4.2  71.2    45  93 %  43 s  3.7 h",
        "",
        "NODE        UP  WENT DOWN  JOBS FAILED BY IT  SUSPECT GPUS",
        "gpu01  99.99 %          1                  2             0",
        "",
        "no job is idle now",
    ]


def test_it_fits_80_columns_whatever_it_says(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    wide = {**ANN, "name": "somebody-with-a-long-name", "gpu_hours": 1_234_567.8, "share": 1.0, "utilization": 100.0}
    wide |= {"idle_gpu_hours": 123_456.7, "jobs": 123_456, "success": 1.0, "wait_median_s": 7100, "wait_p90_s": 7100}
    lines = report.report_lines(answer(rows=[wide] * 2, total=wide), 0.0)
    assert max(map(len, lines)) <= 80
    assert lines[3].split()[1:] == ["1234568", "100", "%", "100", "%", "123457", "71.2", "123456", "100", "%",
                                    "118", "min", "118", "min"]  # fmt: skip


def test_where_nothing_was_measured_or_nothing_ran_it_says_so():
    unmeasured = answer(rows=[{**NOTHING, "name": "ann"}], total={**NOTHING, "name": "total"})
    assert "nothing was measured: no node told how busy its GPUs were" in report.report_lines(unmeasured, 0.0)
    assert "no job ran" in report.report_lines(answer(rows=[]), 0.0)


def test_who_is_idle_now():
    one = {**job("RUNNING", idle_since="2026-12-01T08:00:00Z"), "gpus": 1, "name": "a\x1b[2Jb"}
    lines = report.report_lines(answer(idle=[one] * 12), 1796112000.0 + 43 * 60)
    at = lines.index("idle now: 12 jobs on 12 GPUs")
    assert lines[at + 1].split() == ["JOBID", "NAME", "USER", "GPUS", "IDLE", "NODE:GPU"]
    assert "43 min" in lines[at + 2] and "\x1b" not in lines[at + 2]
    assert lines[-1] == "and 2 more"


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ((), {"since=7d"}),
        (("--day", "--by", "node"), {"since=1d", "by=node"}),
        (("--month",), {"since=30d"}),
        (("--since", "2026-11-01", "--until", "2026-12-01"), {"since=2026-11-01", "until=2026-12-01"}),
    ],
)
def test_what_is_asked_of_the_master(peer, mgpu, words, asked):
    peer.answers["GET", "/v1/report"] = answer()
    assert mgpu("report", *words).status == 0
    query = next(path for path in peer.paths() if path.startswith("/v1/report")).partition("?")[2]
    assert asked <= set(query.split("&"))
    assert "zone=" in query


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--day", "--week"), "--day and --week each say since when"),
        (("--week", "--since", "2h"), "--week and --since each say since when"),
        (("--day", "--until", "2h"), "--day is until now"),
        (("--json", "--csv"), "--json always tells all"),
    ],
)
def test_what_cannot_be_meant(peer, mgpu, words, said):
    ran = mgpu("report", *words)
    assert ran.status == 2 and said in ran.err and not ran.out


def test_for_programs(peer, mgpu):
    peer.answers["GET", "/v1/report"] = answer(rows=[{**ANN, "name": "=cmd"}])
    lines = mgpu("report", "--csv").out.split("\r\n")
    assert lines[0].startswith("user,gpu_hours,share,measured_gpu_hours,")
    assert lines[1].startswith("'=cmd,123.44,0.615,120.0,78.4,4.2,72909,45,42,3,0,0.933,43.0,13300.0")
    assert json.loads(mgpu("--json", "report").out)["rows"][0]["name"] == "=cmd"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, "-"), (0, "0 s"), (119, "119 s"), (600, "10 min"), (7200, "2.0 h"), (10 * 86_400, "10.0 d")],
)
def test_waits_in_few_letters(seconds, words):
    assert report.wait(seconds) == words
