"""Dependencies: what can be said, when a job may start, and when it never will."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgpu.core import codec
from mgpu.core.dependency import Fact, circle, judge, parse_dependency, render_dependency
from mgpu.core.errors import RequestError
from mgpu.core.model import Condition, ConditionKind, Dependency, JobId, JobState

NAMED = [kind for kind in ConditionKind if kind is not ConditionKind.SINGLETON]
CONDITIONS = st.one_of(
    st.just(Condition(ConditionKind.SINGLETON)),
    st.builds(Condition, st.sampled_from(NAMED), st.integers(1, 5).map(JobId)),
    st.builds(Condition, st.just(ConditionKind.AFTER), st.integers(1, 5).map(JobId), st.just(600)),
)
DEPENDENCIES = st.builds(
    Dependency, st.lists(CONDITIONS, min_size=1, max_size=4, unique=True).map(tuple), st.booleans()
)
FACTS = st.dictionaries(
    st.integers(1, 5).map(JobId),
    st.builds(Fact, st.sampled_from(JobState), st.sampled_from([None, 50.0]), st.just(100.0)),
)


def fact(state: JobState, start: float | None = None, end: float | None = None) -> Fact:
    return Fact(state, start, end)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("afterok:17", "afterok:17"),
        ("afterok:17:18,AfterAny:19", "afterok:17,afterok:18,afterany:19"),
        ("after:17+5:18", "after:17+5,after:18"),
        ("afterok:17?afternotok:17", "afterok:17?afternotok:17"),
        ("singleton, afterok:7", "singleton,afterok:7"),
        ("afterok:7:7", "afterok:7"),
    ],
)
def test_forms(text: str, shown: str) -> None:
    assert render_dependency(parse_dependency(text)) == shown


@given(DEPENDENCIES)
def test_rendered_ones_are_read_back(dependency: Dependency) -> None:
    read = parse_dependency(render_dependency(dependency))
    assert read.conditions == dependency.conditions
    assert codec.loads(Dependency, codec.dumps(dependency)) == dependency


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "write it like afterok:17"),
        ("17", "'17' is none of after, afterok"),
        ("afterk:17", "did you mean 'after"),
        ("aftercorr:17", "is none of after, afterok, afternotok, afterany, singleton"),
        ("afterok", "afterok of which job?"),
        ("afterok:", "'' is no job number"),
        ("afterok:x", "'x' is no job number"),
        ("afterok:-1", "'-1' is no job number"),
        ("afterok:17+5", "goes with after alone"),
        ("singleton:17", "singleton names no job"),
        ("afterok:17,afterany:18?afterany:19", "not both"),
        ("afterok:17,", "write it like"),
    ],
)
def test_anything_else_is_refused_in_a_line(text: str, why: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_dependency(text)
    assert why in caught.value.message
    assert "\n" not in caught.value.message


FAILED = [JobState.FAILED, JobState.CANCELLED, JobState.TIMEOUT, JobState.NODE_FAIL]
MET, LATER, NEVER = "met", "later", "never"


def outcome(kind: ConditionKind, state: JobState) -> str:
    if not state.final:
        return MET if kind is ConditionKind.AFTER and state is JobState.RUNNING else LATER
    if kind in (ConditionKind.AFTER, ConditionKind.AFTERANY):
        return MET
    return MET if (state is JobState.COMPLETED) is (kind is ConditionKind.AFTEROK) else NEVER


@pytest.mark.parametrize(("kind", "state"), list(product(NAMED, JobState)))
def test_every_pair_of_condition_and_state(kind: ConditionKind, state: JobState) -> None:
    start = None if state is JobState.PENDING else 50.0
    facts = {JobId(7): fact(state, start, 90.0 if state.final else None)}
    verdict = judge(Dependency((Condition(kind, JobId(7)),)), facts, None)
    said = MET if verdict.at is not None else NEVER if verdict.never else LATER
    assert said == outcome(kind, state)
    assert ("job 7" in verdict.detail) is (said is not MET)


def test_after_counts_from_the_start_or_from_an_end_without_one() -> None:
    dependency = parse_dependency("after:7+10")
    for found, at in (
        (fact(JobState.RUNNING), None),  # it is about to start
        (fact(JobState.RUNNING, 50.0), 650.0),
        (fact(JobState.PENDING, 50.0), 650.0),  # it is tried again
        (fact(JobState.COMPLETED, 50.0, 90.0), 650.0),
        (fact(JobState.CANCELLED, None, 90.0), 690.0),
    ):
        assert judge(dependency, {JobId(7): found}, None).at == at


def test_a_singleton_waits_for_whom_it_has_to_let_go_first() -> None:
    alone = parse_dependency("singleton")
    assert judge(alone, {}, None).at == 0.0
    verdict = judge(alone, {}, JobId(3))
    assert (verdict.at, verdict.never, verdict.detail) == (None, False, "job 3, of the same name, has to end first")


@given(DEPENDENCIES, FACTS, st.sampled_from([None, JobId(9)]))
def test_all_or_any(dependency: Dependency, facts: dict[JobId, Fact], namesake: JobId | None) -> None:
    each = [judge(Dependency((one,)), facts, namesake) for one in dependency.conditions]
    verdict = judge(dependency, facts, namesake)
    met, never = [one.at is not None for one in each], [one.never for one in each]
    assert (verdict.at is not None) == (any(met) if dependency.either else all(met))
    assert verdict.never == (all(never) if dependency.either else any(never))
    assert verdict.detail or verdict.at is not None
    known = [one.at for one in each if one.at is not None]
    assert verdict.at in (None, min(known, default=None) if dependency.either else max(known, default=None))


def test_what_is_told_is_bounded() -> None:
    many = parse_dependency("afterok:" + ":".join(map(str, range(1, 101))))
    facts = {job_id: fact(JobState.PENDING) for job_id in many.job_ids}
    assert judge(many, facts, None).detail == (
        "job 1 has to end well first (PENDING) and job 2 has to end well first (PENDING) and "
        "job 3 has to end well first (PENDING) and 97 more like that"
    )


EDGES = st.dictionaries(st.integers(1, 6), st.lists(st.integers(1, 6), max_size=3))


@given(EDGES)
def test_a_circle_is_found_if_there_is_one(edges: dict[int, list[int]]) -> None:
    reached, open_ends = set(), list(edges.get(1, []))
    while open_ends:
        reached.add(one := open_ends.pop())
        open_ends += [other for other in edges.get(one, []) if other not in reached]
    found = circle(JobId(1), lambda job_id: map(JobId, edges.get(job_id, [])))
    assert bool(found) is (1 in reached)
    if found:
        assert found[0] == found[-1] == 1
        assert all(after in edges[before] for before, after in pairwise(found))
