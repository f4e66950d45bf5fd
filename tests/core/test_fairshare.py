"""Who is next: use that is forgotten by and by, wait in units of planned time, and nobody overtaken for ever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from cluster import job, node, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st

from mgpu.core.accounts import account_of
from mgpu.core.errors import MgpuError
from mgpu.core.fairshare import FIFO, FairShare, Ledger, Standing
from mgpu.core.model import JobId, Request
from mgpu.core.plan import AccountFacts, Backfill, Owner, PendingJob, Precedence
from mgpu.core.replay import LoggedJob, Ran, Rules, replay
from mgpu.core.schedule import plan

HOUR, DAY = 3600.0, 86400.0
ANN, BOB, CAT = Owner("ann"), Owner("bob"), Owner("cat")


def waiting(number: int, owner: Owner, wait_s: float, span_s: float = HOUR, **request: Any) -> PendingJob:
    """The snapshots here are of 1000.0."""
    return job(number, **request)._replace(owner=owner, submit_time=1000.0 - wait_s, span_s=span_s)


def in_order(jobs: Sequence[PendingJob], factors: dict[Owner | None, float], longest_s: float = 28 * DAY) -> list[int]:
    """As they start one after the other on nodes where all of them fit."""
    order = Precedence(1000.0, longest_s, factors)
    return [one.job_id for one in plan(snapshot([node("a", "." * 64)], *jobs, order=order)).starts]


@pytest.mark.parametrize(
    ("jobs", "factors", "order"),
    [
        # a wait counts in units of the time that is planned
        ([waiting(1, ANN, 100, 10 * HOUR), waiting(2, BOB, 50, HOUR)], {}, [2, 1]),
        ([waiting(1, ANN, 100, 1), waiting(2, BOB, 101, 600)], {}, [2, 1]),  # below ten minutes they are alike
        # a wide job by the square root of its width
        ([waiting(1, ANN, 100), waiting(2, BOB, 60, gpus=4)], {}, [2, 1]),
        ([waiting(1, ANN, 100), waiting(2, BOB, 40, gpus=4)], {}, [1, 2]),
        # who has used more comes later, and not for ever
        ([waiting(1, ANN, 100), waiting(2, BOB, 60)], {ANN: 0.5}, [2, 1]),
        ([waiting(1, ANN, 130), waiting(2, BOB, 60)], {ANN: 0.5}, [1, 2]),
        # priority comes first
        ([waiting(1, ANN, 900), waiting(2, BOB, 1)._replace(priority=1)], {}, [2, 1]),
        # who has waited long enough comes first, in order of submission
        ([waiting(1, ANN, 600, 90 * DAY), waiting(2, BOB, 500), waiting(3, CAT, 499, 1)], {ANN: 0.01}, [1, 2, 3]),
    ],
)
def test_the_order(jobs: list[PendingJob], factors: dict[Owner | None, float], order: list[int]) -> None:
    assert in_order(jobs, factors, 500.0 if len(jobs) == 3 else 28 * DAY) == order


def test_without_it_the_order_is_that_of_submission() -> None:
    jobs = [waiting(1, ANN, 100, 10 * HOUR), waiting(2, BOB, 50, 1, gpus=9), waiting(3, ANN, -5)]
    assert in_order(jobs, {ANN: 0.1}, FIFO.longest_s) == [1, 2, 3]
    assert in_order(jobs, {}, 0.0) == [one.job_id for one in plan(snapshot([node("a", "." * 64)], *jobs)).starts]


# --- use ------------------------------------------------------------------------------------------------------------

JOBS = st.lists(
    st.tuples(st.sampled_from([ANN, BOB, CAT]), st.integers(1, 64), st.floats(0, 40), st.floats(0.01, 20)), max_size=8
)


def by_hand(jobs: list[Any], owner: Owner, now: float, half: float) -> float:
    """GPU-hours, second by second, as an integral."""
    total = 0.0
    for whose, gpus, start, length in jobs:
        if whose == owner and start < now:
            end = min(start + length, now)
            total += gpus * half * (0.5 ** ((now - end) / half) - 0.5 ** ((now - start) / half)) / 0.6931471805599453
    return total / HOUR


@settings(max_examples=60, deadline=None)
@given(JOBS, st.floats(41, 70), st.sampled_from([0.1, 3.0, 1e3]))
def test_use_is_what_was_used_less_what_is_forgotten(jobs: list[Any], now: float, half: float) -> None:
    rules = FairShare(half_life_s=half)
    told, held = Ledger(rules, 0.0), Ledger(rules, 0.0)
    from_history = Ledger(rules, now)
    events = [(at, owner, n) for owner, gpus, at, run in jobs for at, n in ((at, gpus), (at + run, -gpus)) if at < now]
    in_use = dict.fromkeys((ANN, BOB, CAT), 0)
    for at, owner, gpus in sorted(events):
        told.change(owner, gpus, at)
        in_use[owner] += gpus
        held.hold({each: count for each, count in in_use.items() if count}, at)
    for owner, gpus, start, run in jobs:
        if start < now:
            from_history.used(owner, gpus, start, min(start + run, now))
    uses = {owner: by_hand(jobs, owner, now, half) for owner in (ANN, BOB, CAT)}
    for owner, use in uses.items():
        if use > 0.01 * max(uses.values()):
            for ledger in (told, held, from_history):
                assert ledger.standing(owner, now).gpu_hours == pytest.approx(use, rel=1e-6, abs=1e-12)


def test_use_is_in_units_of_the_average() -> None:
    ledger = Ledger(FairShare(half_life_s=DAY), 0.0)
    ledger.change(ANN, 3, 0.0)
    ledger.change(BOB, 1, 0.0)
    assert ledger.standing(ANN, HOUR) == Standing(pytest.approx(1.5), 0.0, pytest.approx(3, rel=0.02))
    assert ledger.order([ANN, BOB, CAT], HOUR).factors == pytest.approx({ANN: 0.4, BOB: 1 / 1.5, CAT: 1.0})
    ledger.change(ANN, -3, HOUR)
    assert ledger.standing(ANN, 8 * DAY).gpu_hours == pytest.approx(3 * 2**-8, rel=0.03)
    assert Ledger(FairShare(half_life_s=None), 0.0).order([ANN], 5.0).factors == {}


def test_an_accounts_use_is_in_units_of_its_shares() -> None:
    ledger = Ledger(FairShare(half_life_s=DAY, shares={"x": 3, "y": 1}), 0.0)
    for name, account, gpus in (("ann", "x", 2), ("bob", "x", 1), ("cat", "y", 1)):
        ledger.change(Owner(name, account), gpus, 0.0)
    ann, cat = ledger.standing(Owner("ann", "x"), HOUR), ledger.standing(Owner("cat", "y"), HOUR)
    assert (ann.user_use, ann.account_use) == pytest.approx((4 / 3, 1.0))
    assert (cat.user_use, cat.account_use) == pytest.approx((1.0, 1.0))
    assert ledger.standing(Owner("dan", "x"), HOUR) == Standing(0.0, pytest.approx(1.0), 0.0)


def test_a_unit_that_would_become_too_small_is_chosen_anew() -> None:
    ledger = Ledger(FairShare(half_life_s=1.0), 0.0)
    for at in range(0, 100_000, 500):
        ledger.change(ANN, 1, float(at))
        ledger.change(BOB, 1, float(at))
        ledger.change(BOB, -1, at + 250.0)
        ledger.change(ANN, -1, at + 499.0)
    assert ledger.standing(ANN, 1e5 - 1).gpu_hours == pytest.approx(1 / 0.6931471805599453 / HOUR)
    assert ledger.standing(BOB, 1e5).user_use == pytest.approx(0, abs=1e-9)
    assert ledger.standing(CAT, 1e9) == Standing()


# --- nobody is overtaken for ever -----------------------------------------------------------------------------------


def logged(number: int, submit: float, run: float, gpus: int, user: str) -> LoggedJob:
    return LoggedJob(JobId(number), submit, run, Request(gpus=gpus), user)


@settings(max_examples=10, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 90), st.integers(1, 60), st.integers(1, 4), st.sampled_from("abc")), max_size=6),
    st.sampled_from([Backfill.EASY, Backfill.NONE]),
)
def test_every_job_starts_though_a_stream_of_others_never_ends(drawn: list[Any], backfill: Backfill) -> None:
    """Ten seconds bring ten seconds' work for all GPUs, of users who have used nothing and plan next to no time."""
    stream = [logged(1000 + at, 10.0 * at, 10.0, 4, f"u{at}") for at in range(80)]
    others = [logged(at, float(submit), run, gpus, user) for at, (submit, run, gpus, user) in enumerate(drawn, 1)]
    jobs = sorted([*stream, *others], key=lambda one: one.submit)
    fair = FairShare(half_life_s=1000.0, longest_s=100.0)
    rules = Rules(backfill=backfill, fair=fair)
    ran: dict[int, Ran] = {one.job.job_id: one for one in replay(jobs, [node("a", "....")], rules)}
    assert len(ran) == len(jobs)
    for one in others:
        before = sum(each.duration_s for each in jobs if each.submit <= one.submit)
        assert ran[one.job_id].wait_s <= fair.longest_s + before + 60


# --- accounts -------------------------------------------------------------------------------------------------------

ACCOUNTS = {"x": AccountFacts("x", 2, ("ann", "bob")), "y": AccountFacts("y", 1, ("bob",))}


@pytest.mark.parametrize(
    ("asked", "user", "account"),
    [
        ("", "ann", "x"),
        ("", "bob", "x"),
        ("y", "bob", "y"),
        ("", "eve", ""),
        ("y", "ann", "account y does not list ann: leave -A out for x"),
        ("x", "eve", "account x does not list eve"),
        ("z", "ann", "unknown account 'z': there are x, y"),
        ("yy", "bob", "unknown account 'yy': did you mean 'y'?"),
    ],
)
def test_accounts(asked: str, user: str, account: str) -> None:
    try:
        said = account_of(asked, ACCOUNTS, user)[0]
    except MgpuError as error:
        said = error.message
    assert said == account
    assert account_of("x", {}, user) == ("", ["there are no accounts here: -A x is passed over"])
