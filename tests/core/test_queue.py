"""The queue says the same whatever happened to it before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mgpu.core.model import JobId, NodeName
from mgpu.core.plan import PendingJob
from mgpu.core.queue import Queue
from tests.core.cluster import job

NOW = 1000.0
JOBS = st.builds(
    lambda number, gpus, priority, not_before, avoid: job(
        number, gpus=gpus, priority=priority, not_before=not_before, avoid=avoid
    ),
    st.integers(1, 6),
    st.integers(1, 2),
    st.integers(0, 1),
    st.sampled_from([0.0, 500.0, 2000.0]),
    st.sampled_from([(), (NodeName("a"),)]),
)


def said(queue: Queue, now: float = NOW) -> tuple[set[tuple[object, ...]], set[PendingJob]]:
    batches, later = queue.at(now)
    assert len({(batch.request, batch.avoid) for batch in batches}) == len(batches)
    assert all(batch.jobs for batch in batches)
    return {(batch.request, batch.avoid, tuple(batch.jobs)) for batch in batches}, set(later)


@given(st.lists(JOBS | st.integers(1, 7)))
def test_what_came_and_went_leaves_no_trace(steps: list[PendingJob | int]) -> None:
    queue, there = Queue(), dict[JobId, PendingJob]()
    for step in steps:
        if isinstance(step, PendingJob):
            queue.put(step)
            there[step.job_id] = step
        else:
            queue.drop(JobId(step))
            there.pop(JobId(step), None)
        said(queue)
    assert len(queue) == len(there)
    for now in (0.0, NOW, 3000.0):
        assert said(queue, now) == said(Queue(there.values()), now)


def test_equal_requests_stand_together_in_their_order() -> None:
    jobs = [job(1), job(2, priority=3), job(3, gpus=2), job(4, not_before=NOW), job(5, not_before=NOW + 1)]
    batches, later = Queue(jobs).at(NOW)
    assert [[one.job_id for one in batch.jobs] for batch in batches] == [[2, 1, 4], [3]]
    assert [one.job_id for one in later] == [5]
