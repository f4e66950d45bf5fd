"""Indices of arrays: as typed, as stored, and as sets."""

from __future__ import annotations

import pytest
from cluster import job, node, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st

from mgpu.core import array
from mgpu.core.array import Reference, parse_array, parse_reference, render_array, render_indices, stored_indices
from mgpu.core.errors import RequestError
from mgpu.core.model import JobId, JobState
from mgpu.core.schedule import plan
from mgpu.core.turns import AT_A_TIME

SETS = st.sets(st.integers(0, 60), max_size=40)
TYPED = [
    ("0-99%4", "0-99%4", 100),
    (" 1,3,5-7 ", "1,3,5-7", 5),
    ("0-30:5", "0-30:5", 7),
    ("0-31:5%1", "0-30:5%1", 7),
    ("7,3-5,4,5-6", "3-7", 5),
    ("1-2:9", "1", 1),
    ("1,1,1", "1", 1),
    ("5", "5", 1),
    ("0-999999", "0-999999", 1_000_000),
    ("0,5,10,15,20", "0-20:5", 5),
]


@pytest.mark.parametrize(("typed", "stored", "tasks"), TYPED)
def test_what_is_typed(typed: str, stored: str, tasks: int) -> None:
    found = parse_array(typed)
    assert (render_array(found), array.count(found.indices)) == (stored, tasks)
    assert array.array_of(stored) == found


@pytest.mark.parametrize(
    "typed", ["", "%4", "a", "5-1", "1-5:0", "1--5", "1,,2", "-1", "1-5%", "1-5%0", "1-5%2%3", "0-4000001", "0-1000000"]
)
def test_what_cannot_be_read(typed: str) -> None:
    with pytest.raises(RequestError, match="array"):
        parse_array(typed)


@given(SETS)
def test_a_set_is_what_it_was_after_text(indices: set[int]) -> None:
    folded = array.fold(indices)
    assert list(array.each(folded)) == sorted(indices)
    assert stored_indices(render_indices(folded)) == tuple(each for each in stored_indices(render_indices(folded)))
    assert list(array.each(stored_indices(render_indices(folded)))) == sorted(indices)
    assert array.count(folded) == len(indices)


@given(SETS, SETS, st.integers(0, 60))
def test_sets_as_sets(one: set[int], other: set[int], index: int) -> None:
    first, second = array.fold(one), array.fold(other)
    assert set(array.each(array.common(first, second))) == one & other
    assert set(array.each(array.apart(first, second))) == one - other
    assert set(array.each(array.together(first, second))) == one | other
    assert set(array.each(array.without(first, index))) == one - {index}
    assert array.holds(first, index) == (index in one)


@settings(max_examples=30)
@given(st.sampled_from(["0-60:7%2", "0-20", "3,9,27"]), st.data())
def test_taken_one_by_one_nothing_is_left(typed: str, data: st.DataObject) -> None:
    rest = parse_array(typed).indices
    found = []
    while rest:
        index = data.draw(st.sampled_from(list(array.each(rest))))
        found.append(index)
        rest = stored_indices(render_indices(array.without(rest, index)))
    assert sorted(found) == list(array.each(parse_array(typed).indices))


NAMES = [
    (17, Reference(JobId(17))),
    ("17", Reference(JobId(17))),
    ("17_4", Reference(JobId(17), (range(4, 5),))),
    ("17_[1-5]", Reference(JobId(17), (range(1, 6),))),
    ("17_[5-9%4]", Reference(JobId(17), (range(5, 10),))),  # as the queue shows it
    ("17_[1,3]", Reference(JobId(17), (range(1, 2), range(3, 4)))),
]


@pytest.mark.parametrize(("word", "named"), NAMES)
def test_names_of_jobs_and_tasks(word: object, named: Reference) -> None:
    assert parse_reference(word) == named
    assert parse_reference(array.render_reference(named)) == named


@pytest.mark.parametrize("word", ["", "x", "17_", "17_x", "17_[]", "17_[5-1]", "17_1-5", "_4", True, -1, 1.5, "1" * 19])
def test_what_names_nothing(word: object) -> None:
    with pytest.raises(RequestError):
        parse_reference(word)


def test_several_names_in_a_word() -> None:
    assert array.split_references("17,18_[1,3],19_2") == ["17", "18_[1,3]", "19_2"]


def test_lines_that_are_commands() -> None:
    text = "# first\na b\n\n  \n  c; d\t\n #e\nf"
    assert list(array.each(array.lines_to_run(text))) == [2, 5, 7]
    assert [array.line(text, number) for number in (2, 5, 7)] == ["a b", "c; d", "f"]


C, F, X, T = JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED, JobState.TIMEOUT


@pytest.mark.parametrize(
    ("states", "never", "expected"),
    [
        ({C: 3}, 0, (C, "3 COMPLETED")),
        ({C: 3}, 2, (X, "3 COMPLETED, 2 CANCELLED")),
        ({C: 1, X: 1}, 1, (X, "1 COMPLETED, 2 CANCELLED")),
        ({C: 1, T: 1}, 0, (F, "1 COMPLETED, 1 TIMEOUT")),
        ({F: 1, X: 1}, 0, (F, "1 FAILED, 1 CANCELLED")),
        ({}, 4, (X, "4 CANCELLED")),
    ],
)
def test_how_an_array_has_ended(states: dict[JobState, int], never: int, expected: tuple[JobState, str]) -> None:
    assert array.standing(states, never) == expected


# --- in a plan --------------------------------------------------------------------------------------------------------

NODES = [node("a", "....")]


def started(planned: object) -> list[int]:
    return [start.job_id for start in planned.starts]  # type: ignore[attr-defined]


def test_an_array_starts_as_many_tasks_as_fit_before_those_behind_it() -> None:
    planned = plan(snapshot(NODES, job(1, array=JobId(1), tasks=100_000), job(2)))
    assert started(planned) == [1, 1, 1, 1] and not planned.more
    assert {number: wait.reason for number, wait in planned.waits.items()} == {1: "Priority", 2: "Priority"}


def test_no_more_tasks_than_there_are() -> None:
    assert started(plan(snapshot(NODES, job(1, array=JobId(1), tasks=2), job(2)))) == [1, 1, 2]


def test_so_many_at_once() -> None:
    tasks = [job(1, array=JobId(1), tasks=9, at_once=2), job(5, array=JobId(1), at_once=2), job(6)]
    planned = plan(snapshot(NODES, *tasks))
    assert started(planned) == [1, 1, 6]
    assert {number: wait.reason for number, wait in planned.waits.items()} == dict.fromkeys((1, 5), "JobArrayTaskLimit")
    planned = plan(snapshot(NODES, *tasks, tasks={JobId(1): 1}))
    assert started(planned) == [1, 6]
    planned = plan(snapshot(NODES, *tasks[1:], tasks={JobId(1): 2}))
    assert (started(planned), planned.waits[JobId(5)].detail) == ([6], "2 of its tasks run, and no more may at once")


def test_a_plan_does_not_start_all_that_need_nothing() -> None:
    array = [job(1, gpus=0, array=JobId(1), tasks=100_000), job(5, gpus=0, array=JobId(1)), job(6)]
    planned = plan(snapshot(NODES, *array))
    assert started(planned) == [1] * AT_A_TIME + [6]
    assert planned.more
    assert {number: wait.reason for number, wait in planned.waits.items()} == dict.fromkeys((1, 5), "Priority")
