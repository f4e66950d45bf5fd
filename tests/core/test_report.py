"""Figures that were worked out by hand, and what must hold of any."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgpu.core import report
from mgpu.core.model import JobId, JobState
from mgpu.core.report import Begun, Change, Held, Stretch

HOUR = 3600.0
WEEK = Stretch(1000 * HOUR, 1168 * HOUR)
NOW = WEEK.until


def held(job: int, gpus: int, start_h: float, end_h: float | None, user: str = "ann", **more) -> Held:
    """Hours since the beginning of the week."""
    ended = None if end_h is None else WEEK.since + end_h * HOUR
    values = {"account": "lab", "node": "gpu01", **more}
    return Held(JobId(job), user, 1, gpus=gpus, started=WEEK.since + start_h * HOUR, ended=ended, **values)


def ran(job: int, state: JobState, submit_h: float, start_h: float | None, end_h: float | None) -> Begun:
    at = [None if hours is None else WEEK.since + hours * HOUR for hours in (submit_h, start_h, end_h)]
    return Begun(JobId(job), state, at[0] or 0.0, at[1], at[2])


def told(parts, jobs, by="user"):
    rows, total = report.lines(parts, jobs, WEEK, NOW, lambda part: getattr(part, by))
    return {row.name: row for row in rows}, total


def test_a_week_by_hand():
    parts = [
        held(1, 4, 10, 20, measured_s=100 * HOUR / 10, busy_s=5 * HOUR, idle_s=2 * HOUR, memory_mib=9000),
        held(2, 2, 30, 35, measured_s=6 * HOUR, busy_s=3 * HOUR, idle_s=1 * HOUR, memory_mib=12_000),
        held(3, 1, 0, 50, user="bob"),
        held(4, 0, 5, 6, user="bob"),
    ]
    jobs = [
        ran(1, JobState.COMPLETED, 9, 10, 20),
        ran(2, JobState.FAILED, 26, 30, 35),
        ran(3, JobState.CANCELLED, 0, 0, 50),
        ran(4, JobState.COMPLETED, 4.5, 5, 6),
    ]
    rows, total = told(parts, jobs)
    ann, bob = rows["ann"], rows["bob"]
    assert list(rows) == ["ann", "bob"]  # 50 hours each: by name
    assert (ann.gpu_hours, ann.share, ann.jobs) == (50.0, 0.5, 2)
    assert (ann.measured_gpu_hours, ann.utilization, ann.idle_gpu_hours) == (16.0, 50.0, 3.0)
    assert (ann.memory_peak_mib, ann.completed, ann.failed, ann.success) == (12_000, 1, 1, 0.5)
    assert (ann.wait_median_s, ann.wait_p90_s) == (2.5 * HOUR, 4 * HOUR)
    assert (bob.gpu_hours, bob.utilization, bob.memory_peak_mib, bob.measured_gpu_hours) == (50.0, None, None, 0.0)
    assert (bob.completed, bob.failed, bob.cancelled, bob.success) == (1, 0, 1, 1.0)
    assert (total.gpu_hours, total.share, total.jobs, total.success) == (100.0, 1.0, 4, 2 / 3)
    assert total.wait_median_s == 0.75 * HOUR


def test_what_lies_over_the_edges_counts_within_alone():
    parts = [
        held(1, 2, -10, 10, measured_s=20 * HOUR, busy_s=10 * HOUR, idle_s=4 * HOUR),  # half of it
        held(2, 1, 160, None, measured_s=8 * HOUR, busy_s=8 * HOUR),  # runs
        held(3, 8, -20, -1),
        held(4, 8, 168, None),
    ]
    jobs = [ran(1, JobState.COMPLETED, -12, -10, 10), ran(2, JobState.RUNNING, 158, 160, None)]
    rows, total = told(parts, jobs)
    assert total.gpu_hours == 2 * 10 + 8
    assert (total.measured_gpu_hours, total.idle_gpu_hours) == (18.0, 2.0)
    assert total.utilization == pytest.approx(100 * 13 / 18)
    assert (total.jobs, total.completed) == (2, 1)
    assert (total.wait_median_s, total.wait_p90_s) == (2 * HOUR, 2 * HOUR)  # the other one began before
    assert list(rows) == ["ann"]


def test_no_more_is_measured_than_there_was():
    """The master heard of its end two hours late."""
    _, total = told([held(1, 1, 10, 12, measured_s=4 * HOUR, busy_s=2 * HOUR, idle_s=HOUR)], [])
    assert (total.gpu_hours, total.measured_gpu_hours, total.idle_gpu_hours) == (2.0, 2.0, 0.5)
    assert total.utilization == 50.0


def test_each_attempt_counts_but_a_job_is_one():
    parts = [held(1, 2, 1, 2), held(1, 2, 3, 5, node="gpu02")]
    jobs = [ran(1, JobState.COMPLETED, 0, 1, 5)]
    rows, total = told(parts, jobs, "node")
    assert (rows["gpu01"].gpu_hours, rows["gpu02"].gpu_hours, total.gpu_hours) == (2.0, 4.0, 6.0)
    assert (rows["gpu01"].jobs, rows["gpu02"].jobs, total.jobs, total.completed) == (1, 1, 1, 1)


def test_tasks_of_an_array_are_jobs_each():
    parts = [held(number, 1, number, number + 1) for number in range(10)]
    jobs = [ran(number, JobState.COMPLETED, 0, number, number + 1) for number in range(10)]
    _, total = told(parts, jobs)
    assert (total.gpu_hours, total.jobs) == (10.0, 10)
    assert (total.wait_median_s, total.wait_p90_s) == (4.5 * HOUR, 8 * HOUR)


def test_nothing_ran():
    rows, total = told([], [])
    assert (rows, total.share, total.success, total.wait_median_s) == ({}, None, None, None)


def test_a_clock_that_was_set_back_makes_no_hours_negative():
    rows, total = told([held(1, 4, 10, 9, measured_s=60.0, busy_s=30.0)], [ran(1, JobState.COMPLETED, 11, 10, 9)])
    assert (total.gpu_hours, total.wait_median_s, total.utilization) == (0.0, 0.0, 50.0)
    assert rows["ann"].share is None


parts = st.lists(
    st.builds(
        held,
        st.integers(1, 5),
        st.integers(0, 8),
        st.floats(-50, 200),
        st.none() | st.floats(-50, 200),
        user=st.sampled_from(["ann", "bob", "carol"]),
        measured_s=st.floats(0, 1e6),
    ),
    max_size=12,
)


@given(parts)
def test_rows_sum_up_to_the_total(found):
    jobs = [ran(job, JobState.RUNNING, 0, 1, None) for job in range(1, 6)]
    rows, total = told(found, jobs)
    assert sum(row.gpu_hours for row in rows.values()) == pytest.approx(total.gpu_hours)
    assert sum(row.measured_gpu_hours for row in rows.values()) == pytest.approx(total.measured_gpu_hours)
    assert total.gpu_hours <= 168 * sum(part.gpus for part in found) * (1 + 1e-9)
    if total.gpu_hours:
        assert sum(row.share or 0 for row in rows.values()) == pytest.approx(1.0)


def changes(*told: tuple[float, bool]) -> list[Change]:
    return [Change(WEEK.since + hours * HOUR, down) for hours, down in told]


@pytest.mark.parametrize(
    ("told", "up", "downs"),
    [
        ([], None, 0),
        ([(-100, False)], 1.0, 0),
        ([(-100, True)], 0.0, 0),
        ([(-100, False), (42, True), (84, False)], 0.75, 1),
        ([(84, False)], 1.0, 0),  # before that nobody knew it
        ([(-9, False), (10, True), (20, True), (31, False), (150, True), (171, False)], 1 - 39 / 168, 2),
        ([(-9, True), (-5, False)], 1.0, 0),
    ],
)
def test_of_how_much_of_the_time_a_node_was_up(told, up, downs):
    found = report.reliability("gpu01", changes(*told), 2, 1, WEEK, NOW)
    assert found.up == (None if up is None else pytest.approx(up))
    assert (found.downs, found.job_failures, found.suspect) == (downs, 2, 1)
