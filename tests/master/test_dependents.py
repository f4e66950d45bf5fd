"""Whom a singleton has to let go first."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from mgpu.core.model import JobId, JobState
from mgpu.master.dependents import _Namesakes
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
