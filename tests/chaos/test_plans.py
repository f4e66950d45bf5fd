"""Plans: the same seed plans the same, and no two faults get into each other's way."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from tests.chaos.plans import MASTER_FAULTS, NODE_FAULTS, Settings, plan_faults, plan_jobs

HOUR = Settings(3600, seed=5)


def test_a_seed_decides_all() -> None:
    assert plan_jobs(HOUR) == plan_jobs(HOUR)
    assert plan_faults(HOUR) == plan_faults(HOUR)
    other = replace(HOUR, seed=6)
    assert plan_jobs(other) != plan_jobs(HOUR)
    assert plan_faults(other) != plan_faults(HOUR)


def test_more_faults_leave_the_jobs_as_they_were() -> None:
    assert plan_jobs(replace(HOUR, faults_per_s=3)) == plan_jobs(HOUR)


def test_an_hour_has_every_kind_of_fault_and_of_job() -> None:
    assert {fault.kind for fault in plan_faults(HOUR)} == {*NODE_FAULTS, *MASTER_FAULTS}
    jobs = plan_jobs(HOUR)
    assert {job.kind for job in jobs} == {"srun", "argv", "script"}
    assert {job.gpus for job in jobs} >= {0, 1, 2, 3, 4}
    assert {trait for job in jobs for trait in job.traits} == {
        "child",
        "hidden",
        "stubborn",
        "neat",
        "fail-once",
        "own-kill",
    }
    for chosen in ("limit_s", "cancel_after", "kill_client_after"):
        assert any(getattr(job, chosen) is not None for job in jobs), chosen


def test_a_place_has_one_fault_at_a_time() -> None:
    faults = [fault for fault in plan_faults(replace(HOUR, faults_per_s=5)) if fault.node]
    for place in {(fault.node, fault.place) for fault in faults}:
        there = [fault for fault in faults if (fault.node, fault.place) == place]
        assert all(earlier.at + earlier.lasts < later.at for earlier, later in pairwise(there))


def test_a_job_never_asks_for_more_than_there_is() -> None:
    small = Settings(3600, seed=1, nodes=2, gpus=2)
    assert max(job.gpus for job in plan_jobs(small) if job.nodes == 1) <= 2
    assert max(job.gpus for job in plan_jobs(small)) <= 4
    alone = Settings(3600, seed=1, nodes=1, gpus=4)
    assert {job.nodes for job in plan_jobs(alone)} == {1}
