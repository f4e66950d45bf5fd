"""Who is over a limit waits, with a reason of its own, and holds up nobody."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from cluster import job, node, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st

from mgpu.core.limits import charge, least_whole, partition_scopes, scopes, too_wide
from mgpu.core.model import DeviceUuid, JobId, NodeName
from mgpu.core.outlook import expected_starts
from mgpu.core.plan import Bounds, Limits, Owner, PendingJob, Running, Scope, Snapshot, Used
from mgpu.core.schedule import plan
from mgpu.core.waits import Plan

ANN, BOB, CAT = Owner("ann", "x"), Owner("bob", "x"), Owner("cat")
NODES = [node("a", "....", partitions=("p",)), node("b", "....", partitions=("q",)), node("c", "....")]


def waiting(number: int, owner: Owner, **request: Any) -> PendingJob:
    return job(number, **request)._replace(owner=owner, span_s=3600.0)


def planned(bounds: Bounds, *jobs: PendingJob) -> Plan:
    return plan(snapshot(NODES, *jobs, bounds=bounds))


def where(made: Plan) -> dict[int, list[str]]:
    return {one.job_id: [part.node for part in one.parts] for one in made.starts}


def why(made: Plan, number: int) -> tuple[str, str]:
    wait = made.waits[JobId(number)]
    return wait.reason, wait.detail


def test_a_user_over_a_limit_waits_and_equal_requests_of_others_start() -> None:
    bounds = Bounds(Limits(gpus=4), used={Scope("user", "", "ann"): Used(3, 1)})
    jobs = [waiting(1, ANN, gpus=2), waiting(2, BOB, gpus=2), waiting(3, ANN), waiting(4, ANN), waiting(5, CAT, gpus=2)]
    made = planned(bounds, *jobs)
    assert set(where(made)) == {2, 3, 5}
    assert why(made, 1) == ("UserLimit", "ann has 3 of at most 4 GPUs, this job asks for 2")
    assert why(made, 4) == ("UserLimit", "ann has 4 of at most 4 GPUs, this job asks for 1")
    assert made.reservation is None


@pytest.mark.parametrize(
    ("limits", "used", "words"),
    [
        (Limits(jobs=2), Used(9, 2), "ann has 2 of at most 2 running jobs"),
        (Limits(gpu_hours=10), Used(0, 0, 12.5), "ann has used 12.5 of at most 10 GPU-hours lately"),
        (Limits(gpus=0), Used(), "ann has 0 of at most 0 GPUs, this job asks for 1"),
    ],
)
def test_what_is_limited(limits: Limits, used: Used, words: str) -> None:
    made = planned(Bounds(limits, used={Scope("user", "", "ann"): used}), waiting(1, ANN))
    assert why(made, 1) == ("UserLimit", words)


def test_an_accounts_users_share_its_limit() -> None:
    bounds = Bounds(accounts={"x": Limits(gpus=3)})
    made = planned(bounds, waiting(1, ANN, gpus=2), waiting(2, BOB, gpus=2), waiting(3, CAT, gpus=2), waiting(4, BOB))
    assert set(where(made)) == {1, 3, 4}
    assert why(made, 2) == ("AccountLimit", "account x has 2 of at most 3 GPUs, this job asks for 2")


def test_a_partition_over_its_limit_is_closed_and_others_are_not() -> None:
    bounds = Bounds(partitions={"p": (Limits(gpus=2), Limits()), "q": (Limits(), Limits(jobs=1))})
    jobs = [waiting(1, ANN, gpus=2, partition="p"), waiting(2, BOB, partition="p"), waiting(3, BOB, partition="p,q")]
    jobs += [waiting(4, BOB, partition="q"), waiting(5, CAT, partition="q"), waiting(6, BOB, gpus=4)]
    made = planned(bounds, *jobs)
    assert where(made) == {1: ["a"], 3: ["b"], 5: ["b"], 6: ["c"]}
    assert why(made, 2) == ("PartitionLimit", "its jobs have 2 of at most 2 GPUs in partition p, this job asks for 1")
    assert why(made, 4) == ("PartitionLimit", "bob has 1 of at most 1 running jobs in partition q")


def test_a_wait_says_whose_limit_it_is() -> None:
    bounds = Bounds(Limits(jobs=1), {"x": Limits(gpus=0)}, {"p": (Limits(jobs=0), Limits())})
    made = planned(bounds, waiting(1, CAT), waiting(2, CAT), waiting(3, ANN), waiting(4, Owner("dan"), partition="p"))
    scopes = [made.waits[JobId(number)].scope for number in (2, 3, 4)]
    assert scopes == [Scope("user", "", "cat"), Scope("account", "x"), Scope("partition", "p")]


@pytest.mark.parametrize(
    ("gpus", "named", "words"),
    [
        (4, "", ""),
        (9, "", "needs 9 GPUs, a user may have 8 at once: use -G 8"),
        (7, "", "needs 7 GPUs, account x may have 6 at once: use -G 6"),
        (5, "p", "needs 5 GPUs, a user in partition p may have 2 at once (partitions.p.user_limits.gpus): use -G 2"),
        (5, "p,q", ""),
        (5, "q", ""),
    ],
)
def test_what_could_never_start(gpus: int, named: str, words: str) -> None:
    bounds = Bounds(Limits(gpus=8), {"x": Limits(gpus=6)}, {"p": (Limits(gpus=9), Limits(gpus=2))})
    assert too_wide(gpus, ANN, named, NODES, bounds) == words


def test_whole_nodes_count_as_what_they_have() -> None:
    ann = Scope("user", "", "ann")
    bounds = Bounds(Limits(gpus=7), partitions={"p": (Limits(gpus=3), Limits())}, used={ann: Used(4, 1)})
    mine = waiting(1, ANN, exclusive=True)
    assert why(planned(bounds, mine), 1) == ("UserLimit", "ann has 4 of at most 7 GPUs, this job takes 4")
    made = planned(replace(bounds, used={}), mine, waiting(2, ANN, exclusive=True), waiting(3, BOB, exclusive=True))
    assert where(made) == {1: ["b"], 3: ["c"]}  # a's partition allows three
    assert why(made, 2)[0] == "UserLimit"
    two = waiting(1, ANN, gpus=2, nodes=2, exclusive=True)
    assert why(planned(replace(bounds, used={}), two), 1) == (
        "UserLimit",
        "ann has 0 of at most 7 GPUs, this job takes 8",
    )
    assert where(planned(Bounds(Limits(gpus=8)), two)) == {1: ["a", "b"]}
    small = [node("d", ".."), node("e", "....")]
    assert where(plan(snapshot(small, mine, bounds=Bounds(Limits(gpus=3))))) == {1: ["d"]}
    assert (least_whole(1, "", small), least_whole(2, "", small), least_whole(1, "p", NODES)) == (2, 6, 4)


SOME = st.builds(Limits, st.none() | st.integers(0, 5), st.none() | st.integers(0, 3))
BOUNDS = st.builds(
    lambda user, account, whole, each: Bounds(user, {"x": account}, {"p": (whole, each)}), SOME, SOME, SOME, SOME
)
JOBS = st.lists(
    st.tuples(
        st.sampled_from([ANN, BOB, CAT]), st.integers(0, 5), st.sampled_from(["", "p", "q", "p,q"]), st.booleans()
    ),
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(BOUNDS, JOBS)
def test_no_plan_goes_over_a_limit_and_none_waits_for_somebody_elses(bounds: Bounds, drawn: list[Any]) -> None:
    jobs = [
        waiting(at, owner, gpus=gpus, partition=named, exclusive=alone)
        for at, (owner, gpus, named, alone) in enumerate(drawn, 1)
    ]
    seen: Snapshot = snapshot(NODES, *jobs, bounds=bounds)
    made = plan(seen)
    assert made == plan(seen)
    used: dict[Scope, Used] = {}
    views = {view.name: view for view in NODES}
    by_number = {one.job_id: one for one in jobs}
    for start in made.starts:
        one = by_number[start.job_id]
        assert one.owner is not None
        held = [(views[part.node].partitions, len(part.uuids)) for part in start.parts]
        charge(used, one.owner, one.request.partition, held, bounds)
    for owner in (ANN, BOB, CAT):
        for scope, limits in [*scopes(owner, bounds), *partition_scopes("p", owner, bounds)]:
            assert limits.gpus is None or used.get(scope, Used()).gpus <= max(limits.gpus, 0)
            assert limits.jobs is None or used.get(scope, Used()).jobs <= limits.jobs
    assert sorted([*(start.job_id for start in made.starts), *made.waits]) == [one.job_id for one in jobs]


def test_limits_count_in_what_is_expected() -> None:
    """Ann may have two GPUs: her third job is expected when one of hers has ended, those of others are not held up."""
    ran = Running(JobId(90), 1600.0, ((NodeName("c"), (DeviceUuid("GPU-c-0"),)),), owner=ANN)
    nodes = [*NODES[:2], node("c", "h...")]
    bounds = Bounds(Limits(gpus=2), used={Scope("user", "", "ann"): Used(1, 1)})
    seen = snapshot(
        nodes, *(waiting(number, ANN) for number in (1, 2, 3)), waiting(4, BOB), running=(ran,), bounds=bounds
    )
    found = {int(number): one.at - seen.now for number, one in expected_starts(seen).items()}
    assert found == {1: 0.0, 2: 600.0, 3: 3600.0, 4: 0.0}
