"""Whom a singleton has to let go first, and what is remembered of that."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mgpu.core.model import Condition, ConditionKind, Dependency, JobId, JobState
from mgpu.master.dependents import Dependents, _Namesakes
from tests.store.stored_values import job

STATES = st.sampled_from([JobState.PENDING, JobState.RUNNING])


@given(
    st.lists(st.tuples(STATES, st.booleans()), max_size=8),
    st.integers(0, 8),
    st.sampled_from([None, 1, 2, 5]),
)
def test_any_that_runs_then_earlier_ones_but_none_of_its_own_array(
    others: list[tuple[JobState, bool]], number: int, array: int | None
) -> None:
    """Every other one belongs to the array 2, or is a job by itself."""
    found = [
        (JobId(place), state, JobId(2) if of_array and place >= 2 else JobId(place))
        for place, (state, of_array) in enumerate(others, 1)
    ]
    asking = replace(job("a"), job_id=JobId(number), array_id=None if array is None else JobId(array))
    own = asking.array_id or asking.job_id
    there = [(job_id, state) for job_id, state, of in found if of != own]
    expected = [job_id for job_id, state in there if state is JobState.RUNNING]
    expected += [job_id for job_id, _ in there if job_id < own]
    assert _Namesakes(found).before(asking) == (expected[0] if expected else None)


def test_one_after_the_other_each_waits_for_the_one_before_alone() -> None:
    """However many went before, nothing of them is remembered."""
    jobs = [replace(job("a"), job_id=JobId(number)) for number in range(1, 21)]
    singleton = Dependency((Condition(ConditionKind.SINGLETON),))
    jobs = [replace(one, spec=replace(one.spec, dependency=singleton)) for one in jobs]
    dependents = Dependents()
    for one in jobs:
        dependents.put(one)
    for running, *waiting in (jobs[at:] for at in range(len(jobs))):
        dependents.drop(running.job_id)
        names = [(running.job_id, JobState.RUNNING), *((one.job_id, JobState.PENDING) for one in waiting)]
        reader: Any = SimpleNamespace(
            facts=lambda job_ids: {}, namesakes=lambda *name, names=names: [(*one, one[0]) for one in names]
        )
        dependents.look(reader, [one.job_id for one in waiting])
        assert dependents.affected([running.job_id]) == {one.job_id for one in waiting}
        earlier = [one.job_id for one in jobs if one.job_id < running.job_id]
        assert dependents.affected(earlier) == set()
