"""How a job stands and how it ended, in words."""

from __future__ import annotations

from typing import Any

import pytest

from mgpu.wording.details import use_words
from mgpu.wording.jobs import ended_on, ending, exit_status, idle_words, tasks_in_short, where, where_in_short
from tests.client.peer import job

NON_ZERO = {"reason": "NonZeroExitCode", "detail": "exit code 137 on gpu01"}
KILLED = "killed by signal 9 (SIGKILL), possibly out of memory"
ENDINGS: list[tuple[dict[str, Any], int | None, int, str]] = [
    (job("COMPLETED", exit_code=0), None, 0, "job 17 COMPLETED, exit 0"),
    (job("FAILED", exit_code=3), None, 3, "job 17 FAILED, exit 3 on gpu01"),
    (job("FAILED", exit_code=137, **NON_ZERO), None, 137, f"job 17 FAILED, exit 137 on gpu01: {KILLED}"),
    (job("FAILED", exit_code=None, detail="no such directory"), None, 1, "job 17 FAILED (no such directory)"),
    (job("TIMEOUT", exit_code=143), None, 124, "job 17 TIMEOUT on gpu01"),
    (job("NODE_FAIL"), None, 70, "job 17 NODE_FAIL"),
    (job("CANCELLED", reason="Cancelled", detail="by bob"), None, 143, "job 17 CANCELLED (by bob)"),
    (job("CANCELLED", detail="by alice"), 130, 130, "job 17 CANCELLED (by ^C)"),
    (job("CANCELLED", detail="by alice"), 143, 143, "job 17 CANCELLED (by SIGTERM)"),
    (job("CANCELLED", detail="by alice"), 75, 75, "job 17 CANCELLED (it did not start in time: --immediate)"),
    (job("COMPLETED", exit_code=0), 130, 0, "job 17 COMPLETED, exit 0"),
]  # fmt: skip


@pytest.mark.parametrize(("ended", "by_us", "status", "words"), ENDINGS)
def test_how_a_job_ended(ended: dict[str, Any], by_us: int | None, status: int, words: str) -> None:
    assert (exit_status(ended, by_us), ending(ended, by_us)) == (status, words)


def test_which_of_several_ranks_it_was_and_where_its_output_is() -> None:
    first = job("FAILED")["allocation"][0]
    parts = [{**first, "exit_code": 143}, {**first, "rank": 1, "node": "gpu02", "exit_code": 143}]
    ended = job("FAILED", exit_code=143, failed_rank=1, allocation=parts)
    assert ended_on(ended) == " on gpu02 (rank 1: mgpu logs 17 --rank 1)"
    assert ended_on({**ended, "failed_rank": None}) == ""  # an older master does not say


def test_where_a_job_of_several_nodes_runs_is_a_line_each() -> None:
    second = {"rank": 1, "node": "gpu02", "address": "10.0.0.2", "devices": [3], "uuids": ["GPU-c"]}
    several = job("RUNNING", allocation=[*job("RUNNING")["allocation"], second])
    assert where(several) == [
        "job 17 runs on 2 nodes: gpu01:0-1 gpu02:3",
        "gpu01 (gpu01.lab, 10.0.0.1), GPU 0,1 [GPU-a GPU-b]",
        "gpu02 (10.0.0.2), GPU 3 [GPU-c]",
    ]
    assert where_in_short(job("RUNNING", attempt=2)) == "job 17 (attempt 2) runs on gpu01:0-1"


def test_the_state_of_the_tasks_is_told_where_it_is_not_just_that_they_run() -> None:
    first = job("RUNNING")["allocation"][0]
    others = [{**first, "rank": 1, "state": "LOST"}, {**first, "rank": 2, "state": "ENDED", "exit_code": 3}]
    assert tasks_in_short(job("RUNNING", allocation=[first])) == "job 17 runs on gpu01:0-1"
    assert tasks_in_short(job("RUNNING", allocation=[first, *others])) == (
        "job 17 runs on 3 nodes: gpu01:0-1 gpu01:0-1 gpu01:0-1; rank 1 on gpu01: contact lost; "
        "rank 2 on gpu01: ended with exit 3"
    )


@pytest.mark.parametrize(
    ("minutes", "words"),
    [(0, "idle 0 min"), (43, "idle 43 min"), (119, "idle 119 min"), (130, "idle 2 h"), (2880, "idle 2 days")],
)
def test_for_how_long_a_job_is_idle(minutes: int, words: str) -> None:
    since = {"idle_since": "2026-12-01T08:00:00Z"}
    assert idle_words(job("RUNNING", **since), 1796112000.0 + 60 * minutes + 59) == words
    assert idle_words(job("RUNNING"), 1796112000.0) == ""
    assert idle_words(job("RUNNING", **since), 0.0) == "idle 0 min"  # by a clock that is behind


def test_what_a_job_made_of_its_gpus() -> None:
    use = {"utilization": 78.4, "memory_peak_mib": 72_909, "idle_gpu_hours": 0.3}
    assert use_words(use) == "mean 78 %, at most 71.2 GiB on one, 0.3 GPU-hours idle"
    assert use_words({**use, "memory_peak_mib": None, "idle_gpu_hours": 0.0}) == "mean 78 %"
    assert use_words({**use, "utilization": None}) == use_words(None) == ""
