"""Job logs on a virtual clock: small ones whose right answer can be seen."""

from __future__ import annotations

from typing import Any

import pytest
from cluster import node
from hypothesis import given, settings
from hypothesis import strategies as st

from mgpu.core.model import JobId, Request
from mgpu.core.outcome import grouped, outcome, width
from mgpu.core.plan import Backfill
from mgpu.core.replay import LoggedJob, Ran, Rules, replay


def logged(number: int, submit: float, duration: float, gpus: int, limit: float | None = None) -> LoggedJob:
    return LoggedJob(JobId(number), submit, duration, Request(gpus=gpus), "ann", limit)


# 4 GPUs: 1 has 2 of them until 10, 2 wants all, 3 and 4 one each
JOBS = [logged(1, 0, 10, 2, 12), logged(2, 1, 5, 4), logged(3, 2, 8, 1), logged(4, 2, 20, 1)]


@pytest.mark.parametrize(
    ("rules", "starts"),
    [
        (Rules(backfill=Backfill.NONE), {1: 0, 2: 10, 3: 15, 4: 15}),
        (Rules(backfill=Backfill.SKIP), {1: 0, 3: 2, 4: 2, 2: 22}),
        (Rules(backfill=Backfill.EASY), {1: 0, 3: 2, 2: 10, 4: 15}),  # 3 is over before 12, the limit of 1
        (Rules(lambda job: -job.duration_s, Backfill.NONE), {1: 0, 2: 10, 3: 15, 4: 15}),
    ],
)
def test_who_starts_when(rules: Rules, starts: dict[int, float]) -> None:
    assert {one.job.job_id: one.start for one in replay(JOBS, [node("a", "....")], rules)} == starts


def test_ends_come_before_submissions_and_both_before_the_plan() -> None:
    jobs = [logged(1, 0, 10, 4), logged(2, 10, 3, 2), logged(3, 10, 1, 4)]
    ran = replay(jobs, [node("a", "....")], Rules(lambda job: -job.duration_s, Backfill.SKIP))
    assert [(one.job.job_id, one.start) for one in ran] == [(1, 0), (3, 10), (2, 11)]


def test_what_can_never_start_is_left_out_and_holds_up_nobody() -> None:
    for backfill in Backfill:
        ran = replay([logged(1, 0, 10, 9), logged(2, 1, 5, 4)], [node("a", "....")], Rules(backfill=backfill))
        assert [one.job.job_id for one in ran] == [2]


NUMBERS = st.tuples(st.integers(0, 50), st.integers(1, 30), st.integers(1, 8), st.integers(0, 9))


@settings(max_examples=40, deadline=None)
@given(st.lists(NUMBERS, max_size=15), st.sampled_from(list(Backfill)))
def test_no_gpu_is_used_twice_and_no_job_forgotten(drawn: list[Any], backfill: Backfill) -> None:
    jobs = [logged(at, submit, run, gpus, run + more) for at, (submit, run, gpus, more) in enumerate(sorted(drawn), 1)]
    ran = list(replay(jobs, [node("a", "...."), node("b", "....")], Rules(backfill=backfill)))
    assert sorted(one.job.job_id for one in ran) == [job.job_id for job in jobs]
    assert all(one.start >= one.job.submit for one in ran)
    for moment in {one.start for one in ran}:
        assert sum(one.gpus for one in ran if one.start <= moment < one.end) <= 8


def test_figures() -> None:
    ran = [Ran(logged(1, 0, 10, 2), 0, 2), Ran(logged(2, 5, 5, 4), 10, 4), Ran(logged(3, 6, 100, 1), 15, 1)]
    made = outcome(ran, 4)
    assert (made.jobs, made.median_wait_s, made.p95_wait_s, made.max_wait_s) == (3, 5, 9, 9)
    assert made.mean_wait_s == pytest.approx(14 / 3)
    assert made.mean_jct_s == pytest.approx((10 + 10 + 109) / 3)
    assert made.bsld == pytest.approx((1 + 1 + 1.09) / 3)  # 5 s count as 10
    assert made.makespan_s == 115
    assert made.utilization == pytest.approx(100 * (20 + 20 + 100) / (4 * 115))
    assert {name: group.jobs for name, group in grouped(ran, width, 4).items()} == {"2": 1, "3-4": 1, "1": 1}
