"""Job logs as they are found."""

from __future__ import annotations

import pytest

from mgpu.core.joblog import JobLogError, read_log
from mgpu.core.model import Request

SWF = """\
; Version: 2.2
; MaxProcs: 8

  1    100  -1   60   4 -1 -1   4   90 -1  1  7 -1 -1  2 -1 -1 -1
  2     50  -1  200  -1 -1 -1   2  120 -1  1 -1 -1 -1 -1 -1 -1 -1
  3     60  -1    0   1 -1 -1   1   90 -1  5  7 -1 -1  2 -1 -1 -1
"""
CSV = """\
job_id,user,gpus,submit_time,duration,nodes,gpus_per_node,vc,requested_time,status
7,ann,16,5,3600,2,8,a,7200,completed
8,,1,4,10,,,b,,
"""


def test_the_standard_workload_format() -> None:
    second, never, first = read_log(SWF.splitlines(keepends=True))
    assert [job.ran for job in (second, never, first)] == [True, False, True]
    assert (second.submit, second.duration_s, second.request) == (50, 120, Request(gpus=2))  # cut at its limit
    assert (second.user, second.queue, second.requested_s) == ("", "", 120)
    assert (first.submit, first.duration_s, first.request) == (100, 60, Request(gpus=4))
    assert (first.user, first.queue, first.requested_s, first.span_s) == ("7", "2", 90, 90)


def test_jobs_are_called_as_in_the_log() -> None:
    assert [job.name for job in read_log(SWF.splitlines(keepends=True))] == ["2", "3", "1"]
    assert [job.name for job in read_log(CSV.splitlines(keepends=True))] == ["8", "7"]
    assert [job.name for job in read_log(["submit_time,duration,gpus", "0,1,1", "5,1,1"])] == ["1", "2"]


def test_csv() -> None:
    later, sooner = sorted(read_log(CSV.splitlines(keepends=True)), key=lambda job: -job.submit)
    assert (later.user, later.queue, later.requested_s) == ("ann", "a", 7200)
    assert later.request == Request(gpus=16, nodes=2, gpus_per_node=8)
    assert (sooner.user, sooner.queue, sooner.requested_s, sooner.span_s) == ("", "b", None, 10)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "neither SWF nor CSV"),
        ("job,gpus\n1,2\n", "submit_time, duration is missing"),
        ("submit_time,duration,gpus\n0,x,1\n", "line 2: not a job: 0,x,1"),
        ("submit_time,duration,gpus\n0,1\n", "line 2: not a job: 0,1"),
        ("1 2 3\n", "line 1: 3 fields, SWF has 18"),
        ("; log\n" + "1 " * 17 + "x\n", "line 2: not all of it are numbers"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text: str, fault: str) -> None:
    with pytest.raises(JobLogError, match=fault.replace("(", r"\(")):
        read_log(text.splitlines(keepends=True))
