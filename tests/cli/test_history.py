"""mgpu history: which jobs are asked for, and how they are told, to the letter."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from mgpu import clock
from tests.client.peer import Peer, job

NOON = 1767268800.0  # 2026-01-01T12:00:00Z
ENDED = {
    "start_time": "2026-01-01T11:00:00Z",
    "end_time": "2026-01-01T11:30:00Z",
    "submit_time": "2026-01-01T10:59:00Z",
}
NEVER = {"allocation": [], "start_time": None, "end_time": "2026-01-01T11:30:00Z"}


@pytest.fixture(autouse=True)
def noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOON)
    monkeypatch.setenv("TZ", "UTC")


def told(peer: Peer, *jobs: dict[str, Any]) -> None:
    peer.answers["GET", "/v1/jobs"] = {"jobs": list(jobs)}


def asked(peer: Peer) -> str:
    return peer.paths()[-1].removeprefix("/v1/jobs?").replace("%2C", ",")


WIDE = """\
JOBID  NAME   USER   STATE      EXIT   TIME  GPUS   WAITED  STARTED              ENDED                NODE:GPU (REASON)
   17  train  alice  COMPLETED     0  30:00     2     1:00  2026-01-01 11:00:00  2026-01-01 11:30:00  gpu01:0-1
   18  train  alice  CANCELLED     -   0:00     2  11:30:00  -                    2026-01-01 11:30:00  (by bob)
"""


def test_what_there_is_room_for(peer: Peer, mgpu: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    never = {"reason": "DependencyNeverSatisfied", "detail": "job 17 had to fail"}  # a word that people look for
    told(
        peer,
        job("COMPLETED", exit_code=0, **ENDED),
        job("CANCELLED", job_id=18, detail="by bob", **NEVER),
        job("CANCELLED", job_id=19, **never, **NEVER),
    )
    lines = mgpu("history", "-n", "5").out.splitlines()
    assert [line.split() for line in lines[:3]] == [line.split() for line in WIDE.splitlines()]
    assert lines[3].endswith("(DependencyNeverSatisfied: job 17 had to fail)")
    assert asked(peer) == "scope=ended&limit=5"
    assert mgpu("history", "--no-header").out.splitlines() == lines[1:]
    monkeypatch.setenv("COLUMNS", "120")
    assert mgpu("history").out.splitlines()[0].split() == [
        "JOBID", "NAME", "USER", "STATE", "EXIT", "TIME", "GPUS", "ENDED", "NODE:GPU", "(REASON)",
    ]  # fmt: skip


def test_on_a_narrow_terminal(peer: Peer, mgpu: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    failed = {"reason": "NonZeroExitCode", "detail": "exit code 3 on gpu01", "exit_code": 3, **ENDED}
    part = job("FAILED")["allocation"][0]
    several = [part, {**part, "rank": 1, "node": "gpu02"}]
    told(peer, job("FAILED", **failed), job("FAILED", allocation=several, **failed))
    assert mgpu("history").out == (
        "JOBID  NAME   USER   STATE   EXIT   TIME  GPUS  ENDED        NODE:GPU (REASON)\n"
        "   17  train  alice  FAILED     3  30:00     2  01-01 11:30  gpu01:0-1\n"
        "   17  train  alice  FAILED     3  30:00     2  01-01 11:30  gpu01:0-1 gpu02:0-…\n"
    )


@pytest.mark.parametrize(
    ("line", "query"),
    [
        ("", "scope=ended&limit=100"),
        ("-u bob -p train -w gpu01 --name x", "scope=ended&limit=100&user=bob&partition=train&name=x&node=gpu01"),
        ("--failed --me", "scope=ended&limit=100&me=1&states=FAILED,TIMEOUT,NODE_FAIL"),
        ("--state f,ca,TO", "scope=ended&limit=100&states=FAILED,CANCELLED,TIMEOUT"),
        ("--states R", "scope=all&limit=100&states=RUNNING"),
        ("17 20_[1-3]", "scope=all&limit=100000&ids=17,20_%5B1-3%5D"),
        ("-j 17,20_[1,3] -X", "scope=all&limit=100000&ids=17,20_%5B1,3%5D"),
        ("-S 2h -E now", "scope=ended&limit=100000&since=2h&until=now&zone=UTC,%2B0000"),
        ("--starttime 2h -n 7 -D", "scope=ended&limit=7&since=2h&zone=UTC,%2B0000&attempts=1"),
    ],
)
def test_what_is_asked_of_the_master(peer: Peer, mgpu: Callable, line: str, query: str) -> None:
    told(peer, job("COMPLETED"), job("COMPLETED", job_id="20_1"))
    assert mgpu("history", *line.split()).status == 0
    assert asked(peer) == query


def test_a_job_that_is_named_and_not_there_is_told(peer: Peer, mgpu: Callable) -> None:
    told(peer, job("COMPLETED", exit_code=0, **ENDED))
    ran = mgpu("history", "17", "99", "98_4", "-o", "jobid", "--no-header")
    assert ran == (1, "17\n", "mgpu: there are no jobs 99, 98_4: mgpu history lists those that ended\n")
    assert mgpu("history", "99", "--me").status == 0  # it may be another's
    told(peer)
    assert mgpu("history", "99") == (1, "", "mgpu: there is no job 99: mgpu history lists those that ended\n")


def test_one_that_still_runs_is_told_of_by_name(peer: Peer, mgpu: Callable) -> None:
    told(peer, job("RUNNING", start_time="2026-01-01T11:59:00Z"))
    assert mgpu("history", "17", "-o", "State,Elapsed,End", "--no-header").out == "RUNNING  00:01:00  Unknown\n"


def test_columns_by_saccts_names(peer: Peer, mgpu: Callable) -> None:
    failed = {"exit_code": 137, "reason": "NonZeroExitCode", "detail": "exit code 137 on gpu01", **ENDED}
    told(peer, job("FAILED", name="a long name", **failed), job("COMPLETED", job_id="20_3", exit_code=0, **ENDED))
    ran = mgpu("history", "-o", "jobid,JobName%6,JOBNAME%-7,exitcode,Elapsed,ElapsedRaw,Planned,NodeList,AllocTRES")
    assert ran.out == (
        "JobID  JobNa…  JobName  ExitCode   Elapsed  ElapsedRaw   Planned  NodeList  AllocTRES\n"
        "   17  a lon…  a long…       0:9  00:30:00        1800  00:01:00  gpu01     gres/gpu=2,node=1\n"
        " 20_3   train  train         0:0  00:30:00        1800  00:01:00  gpu01     gres/gpu=2,node=1\n"
    )
    assert mgpu("history", "-P", "--no-header", "-o", "JobID,State,Start,GPUHours").out == (
        "17|FAILED|2026-01-01T11:00:00|1.00\n20_3|COMPLETED|2026-01-01T11:00:00|1.00\n"
    )


def test_what_it_made_of_its_gpus(peer: Peer, mgpu: Callable) -> None:
    used = {"use": {"utilization": 71.25, "memory_peak_mib": 61440, "idle_gpu_hours": 0.128}}
    told(peer, job("COMPLETED", **used, **ENDED), job("CANCELLED", use=None, **NEVER), job("FAILED", **ENDED))
    ran = mgpu("history", "-P", "--no-header", "-o", "GPUUtil,GPUMemPeak,IdleGPUHours")
    assert ran.out == "71.2|61440M|0.13\n||\n||\n"
    assert asked(peer) == "scope=ended&limit=100&use=1"
    mgpu("history", "-o", "GPUHours")
    assert asked(peer) == "scope=ended&limit=100"  # nobody wants to know
    mgpu("history", "--json")
    assert asked(peer) == "scope=ended&limit=100&use=1"


def test_a_day_and_more(peer: Peer, mgpu: Callable) -> None:
    told(peer, job("TIMEOUT", time_limit_s=90000, **{**ENDED, "end_time": "2026-01-02T12:00:05Z"}))
    assert mgpu("history", "-P", "-o", "Elapsed,Timelimit", "--noheader").out == "1-01:00:05|1-01:00:00\n"


def test_every_column_can_be_told_of_every_job(peer: Peer, mgpu: Callable) -> None:
    listed = [line.split()[0] for line in mgpu("history", "--helpformat").out.splitlines()]
    assert len(listed) > 20 and peer.paths() == []
    told(peer, job("COMPLETED", **ENDED), job("CANCELLED", job_id="20_3", **NEVER), job("PENDING", array_rest="4-9"))
    rows = list(csv.reader(io.StringIO(mgpu("history", "--csv", "-o", ",".join(listed)).out)))
    assert rows[0] == listed and [len(row) for row in rows] == [len(listed)] * 4


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("-o JobbName", "--format knows no column 'JobbName': did you mean JobName?"),
        ("-o zzzz", "--format knows no column 'zzzz': mgpu history --helpformat lists them"),
        ("-o ,", "--format names no column: mgpu history --helpformat lists them"),
        ("-o jobid%x", "--format 'jobid%x': 'x' is no width: write JobID%20"),
        ("-o jobid%0", "--format 'jobid%0': '0' is no width: write JobID%20"),
        ("--csv -P", "--csv and -P are two forms: give one of them"),
        ("--failed --states F", "--failed means --states FAILED,TIMEOUT,NODE_FAIL: give one of them"),
        ("-j x", "'x' is not a job's number: mgpu queue shows them"),
    ],
)
def test_mistakes_are_told_before_anybody_is_asked(peer: Peer, mgpu: Callable, line: str, said: str) -> None:
    assert mgpu("history", *line.split()) == (2, "", f"mgpu: {said}\n")
    assert peer.paths() == []


def test_json_has_a_form_of_its_own(peer: Peer, mgpu: Callable) -> None:
    told(peer, job("COMPLETED"))
    assert json.loads(mgpu("history", "--json", "-D").out) == {"jobs": [job("COMPLETED")]}
    for more in ("--csv", "-P", "--format=JobID"):
        assert json.loads(mgpu("history", "--json", more).err)["error"]["code"] == "bad_request"


def test_csv_as_the_standard_has_it(peer: Peer, mgpu: Callable) -> None:
    told(peer, job("FAILED", name='a "b", c', detail="two\nlines\x1b[2J", exit_code=3, **ENDED))
    out = mgpu("history", "--csv", "-o", "JobName,ExitCode,Reason").out
    assert out == 'JobName,ExitCode,Reason\r\n"a ""b"", c",3:0,two\\nlines\\e[2J\r\n'
    assert mgpu("history", "--csv", "--no-header").out.startswith('17,"a ""b"", c",alice,,,FAILED,3:0,00:30:00,1800,2,')


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", " =1", "＝1", "\t=1"])
def test_no_cell_is_a_formula(peer: Peer, mgpu: Callable, name: str) -> None:
    """Others choose the names that somebody opens in a spreadsheet."""
    told(peer, job("COMPLETED", name=name))
    cell = mgpu("history", "--csv", "-o", "JobName", "--no-header").out.removesuffix("\r\n")
    assert cell[0] == "'" or (cell[0] == "\\" and name[0] == "\t")


TRIED = [
    {"attempt": 1, "start_time": "2026-01-01T11:00:00Z", "end_time": "2026-01-01T11:10:00Z", "exit_code": None,
     "reason": "gpu01 was lost", "allocation": [{"node": "gpu01", "rank": 0, "devices": [0], "uuids": ["u"]}]},
    {"attempt": 2, "start_time": "2026-01-01T11:12:00Z", "end_time": "2026-01-01T11:30:00Z", "exit_code": 0,
     "reason": "", "allocation": []},
]  # fmt: skip


def test_a_row_for_each_attempt(peer: Peer, mgpu: Callable) -> None:
    again = {**ENDED, "start_time": "2026-01-01T11:12:00Z"}
    told(
        peer,
        job("COMPLETED", exit_code=0, attempt=2, attempts=TRIED, **again),
        job("CANCELLED", job_id=18, attempt=0, attempts=[], **NEVER),
    )
    assert mgpu("history", "-D", "-P", "-o", "JobID,Attempt,State,Elapsed,Planned,NodeList,Reason").out == (
        "JobID|Attempt|State|Elapsed|Planned|NodeList|Reason\n"
        "17|1|REQUEUED|00:10:00|00:01:00|gpu01|gpu01 was lost\n"
        "17|2|COMPLETED|00:18:00|00:02:00|gpu01|\n"
        "18|0|CANCELLED|00:00:00|11:30:00|None assigned|\n"
    )
    told(peer, job("PENDING", attempt=1, attempts=TRIED[:1]))
    assert mgpu("history", "17", "-D", "-P", "-o", "Attempt,State,Elapsed,Planned", "--no-header").out == (
        "1|REQUEUED|00:10:00|11:00:00\n|PENDING|00:00:00|00:50:00\n"
    )


def test_attempts_are_told_on_a_terminal_too(peer: Peer, mgpu: Callable) -> None:
    again = {**ENDED, "start_time": "2026-01-01T11:12:00Z"}
    told(
        peer,
        job("COMPLETED", exit_code=0, attempt=2, attempts=TRIED, **again),
        job("CANCELLED", job_id=18, attempt=0, attempts=[], **NEVER),
    )
    lines = mgpu("history", "-D").out.splitlines()
    assert [line.split()[:2] for line in lines] == [["JOBID", "TRY"], ["17", "1"], ["17", "2"], ["18", "-"]]
