"""How many stand before a job that waits."""

from __future__ import annotations

from mgpu.core.model import JobId
from mgpu.core.outlook import ahead_of
from tests.core.cluster import job, node, snapshot


def test_those_that_may_want_the_same_nodes_count() -> None:
    jobs = [
        job(1, partition="train"),
        job(2, partition="cpu"),
        job(3, partition="train"),
        job(4, partition="cpu,train"),
        job(5, partition="train", priority=9),
    ]
    seen = snapshot([node("n1", "..")], *jobs)
    assert [ahead_of(seen, JobId(number)) for number in (5, 1, 2, 3, 4)] == [0, 1, 0, 2, 4]


def test_one_that_does_not_wait_for_its_turn_has_no_place() -> None:
    seen = snapshot([node("n1", "..")], job(1), job(2, not_before=1e12, priority=9))
    assert [ahead_of(seen, JobId(number)) for number in (1, 2, 3)] == [0, None, None]
