"""Every pair of state and event, and what is concluded from several parts."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgpu.core import lifecycle, retry
from mgpu.core.errors import InvalidTransition
from mgpu.core.lifecycle import JOB_TABLE, PART_TABLE, News, PartEvent, Settlement, settle, step_part
from mgpu.core.model import AttemptState, FailureClass, Job, JobKind, JobState, LauncherName, Part
from tests.core.trial import attempt, ended, job, part

ALIVE = [state for state in AttemptState if state is not AttemptState.ENDED]
RULES = retry.Rules()


def news(event: PartEvent, at: float = 10.0, rank: int = 0, **more: object) -> News:
    if event is PartEvent.STOP_WANTED:
        more.setdefault("stop", "CANCEL")
    return News(part(rank).key, event, at, **more)  # type: ignore[arg-type]


def settled(job: Job, *parts: Part, now: float = 10.0, **given: object) -> Settlement:
    made = retry.Given(**given)  # type: ignore[arg-type]
    once = settle(job, attempt(), parts, now, RULES, made)
    if not once.job.state.final and once.job.state is not JobState.PENDING:
        again = settle(once.job, once.attempt, once.parts, now, RULES, made)
        assert again == once
    return once


@pytest.mark.parametrize(("state", "event"), list(product(ALIVE, PartEvent)))
def test_every_pair_of_state_and_event(state: AttemptState, event: PartEvent) -> None:
    before = part(state=state, stop="CANCEL" if state is AttemptState.STOPPING else "")
    wanted = PART_TABLE.get((state, event))
    if wanted is None:
        with pytest.raises(InvalidTransition, match=f"{state}.*{event.value}"):
            step_part(before, news(event))
        return
    after = step_part(before, news(event))
    assert after.state is wanted
    assert after.state.holds_devices == (after.ended is None)
    assert (after.lost_since is not None) == (after.state is AttemptState.LOST)
    assert (after.devices, after.uuids, after.key) == (before.devices, before.uuids, before.key)


def test_the_table_is_complete() -> None:
    """Only giving up is not possible at any time: it needs lost contact."""
    missing = set(product(ALIVE, PartEvent)) - PART_TABLE.keys()
    assert missing == {(state, PartEvent.GIVEN_UP) for state in ALIVE if state is not AttemptState.LOST}


@pytest.mark.parametrize("event", list(PartEvent))
def test_late_news_of_an_ended_part_changes_nothing(event: PartEvent) -> None:
    before = ended(failure=FailureClass.EXIT, code=3)
    assert step_part(before, news(event, exit_code=0)) == before


@given(st.lists(st.sampled_from([event for event in PartEvent if event is not PartEvent.GIVEN_UP]), max_size=12))
def test_any_story_keeps_devices_until_it_is_over(story: list[PartEvent]) -> None:
    """LOST frees nothing, a wish to stop is never forgotten, and the first end is the last word."""
    now = part(state=AttemptState.STARTING)
    for at, event in enumerate(story):
        before, now = now, step_part(now, news(event, float(at)))
        assert not before.stop or now.stop == before.stop
        assert before.state.holds_devices or now == before
        if event is PartEvent.UNREACHABLE and before.state.holds_devices:
            assert now.state is AttemptState.LOST
        if now.stop:
            assert now.state in (AttemptState.STOPPING, AttemptState.LOST, AttemptState.ENDED)


@pytest.mark.parametrize(
    ("event", "ran", "told", "failure"),
    [
        (PartEvent.EXITED, True, {"exit_code": 0}, FailureClass.NONE),
        (PartEvent.EXITED, True, {"exit_code": 3}, FailureClass.EXIT),
        (PartEvent.EXITED, True, {"failure": FailureClass.SUPERVISOR}, FailureClass.SUPERVISOR),
        (PartEvent.LAUNCH_FAILED, False, {"failure": FailureClass.NEWCOMER}, FailureClass.NEWCOMER),
        (PartEvent.FENCED, False, {}, FailureClass.STOPPED),
        (PartEvent.FENCED, True, {}, FailureClass.SUPERVISOR),
        (PartEvent.REBOOTED, False, {}, FailureClass.NODE),
        (PartEvent.REBOOTED, True, {}, FailureClass.NODE_LOST),
    ],
)
def test_why_a_part_ended(event: PartEvent, ran: bool, told: dict[str, object], failure: FailureClass) -> None:
    before = part(started=2.0 if ran else None)
    after = step_part(before, news(event, **told))
    assert (after.failure, after.ended, after.exit_code) == (failure, 10.0, told.get("exit_code"))
    # output of what ran is still to be fetched
    assert after.collected == (event in (PartEvent.FENCED, PartEvent.LAUNCH_FAILED))


@pytest.mark.parametrize("code", [0, 143])
@pytest.mark.parametrize("trouble", [PartEvent.ORPHANED, PartEvent.GONE])
def test_an_end_that_we_brought_about_is_not_the_commands_own(trouble: PartEvent, code: int) -> None:
    stopping = step_part(part(state=AttemptState.RUNNING, started=2.0), news(trouble, reason="removed"))
    after = step_part(stopping, news(PartEvent.EXITED, exit_code=code))
    assert (after.failure, after.reason) == (FailureClass.SUPERVISOR, "removed")


def test_lost_contact_is_remembered_from_its_beginning() -> None:
    lost = step_part(part(), news(PartEvent.UNREACHABLE, 10.0, reason="timed out"))
    later = step_part(lost, news(PartEvent.UNREACHABLE, 20.0, reason="refused"))
    assert (later.lost_since, later.reason) == (10.0, "refused")
    found = step_part(later, news(PartEvent.STARTED, 30.0))
    assert (found.state, found.lost_since, found.reason) == (AttemptState.RUNNING, None, "")


def test_a_wish_that_came_while_lost_is_carried_out_when_found() -> None:
    lost = step_part(part(state=AttemptState.LOST, lost_since=1.0), news(PartEvent.STOP_WANTED))
    assert lost.state is AttemptState.LOST
    for event in (PartEvent.STARTED, PartEvent.READY, PartEvent.FOUND_ABSENT):
        assert step_part(lost, news(event)).state is AttemptState.STOPPING


# --- several parts ----------------------------------------------------------------------------------------------------


def test_the_first_rank_to_fail_ends_the_others() -> None:
    failed = ended(1, FailureClass.EXIT, 3)
    first = settled(job(), part(0), failed, part(2, AttemptState.STARTING), part(3, AttemptState.LOST))
    assert [one.stop for one in first.parts] == ["GANG", "", "GANG", "GANG"]
    assert [one.state.value for one in first.parts] == ["STOPPING", "ENDED", "STOPPING", "LOST"]
    assert (first.job.state, first.attempt.state) == (JobState.RUNNING, AttemptState.LOST)
    rest = [
        replace(one, state=AttemptState.ENDED, failure=FailureClass.EXIT, exit_code=143, ended=4.0)
        for one in first.parts
    ]
    rest[1] = failed
    last = settled(first.job, *rest)
    assert (last.job.state, last.job.exit_code, last.attempt.exit_code) == (JobState.FAILED, 3, 3)
    assert last.job.detail == "exit code 3 on node002"


def test_a_rank_that_ends_well_does_not_end_the_others() -> None:
    found = settled(job(), part(0), ended(1))
    assert [one.stop for one in found.parts] == ["", ""]
    assert found.attempt.state is AttemptState.RUNNING


MPI = {"launcher": LauncherName.MPI}


@pytest.mark.parametrize("code", [0, 3])
def test_with_mpirun_the_end_of_rank_0_ends_the_others(code: int) -> None:
    over = ended(0, FailureClass.EXIT if code else FailureClass.NONE, code)
    first = settled(job(spec=MPI), over, part(1), part(2))
    assert [one.stop for one in first.parts] == ["", "GANG", "GANG"]
    assert not first.job.state.final
    assert settled(job(), ended(0), part(1)).parts[1].stop == ""


E, N = FailureClass.EXIT, FailureClass.NONE
AFTERWARDS = [(N, 0, "GANG"), (E, 137, "GANG"), (E, 143, ""), (N, 0, "CANCEL"), (N, 0, "TIMEOUT"), (E, 137, "OOM")]
LOST = (FailureClass.NODE_LOST, None, "")


@pytest.mark.parametrize("others", list(product([*AFTERWARDS, LOST], repeat=2)))
def test_with_mpirun_nothing_counts_once_rank_0_has_ended_well(
    others: tuple[tuple[FailureClass, int | None, str], ...],
) -> None:
    parts = [ended(rank + 1, failure, code, 6.0, stop=stop) for rank, (failure, code, stop) in enumerate(others)]
    verdict = settled(job(spec=MPI, stop="CANCEL by bob"), ended(0, at=5.0), *parts).job
    assert (verdict.state, verdict.exit_code) == (JobState.COMPLETED, 0)


@pytest.mark.parametrize("stop", ["", "GANG"])
def test_with_mpirun_a_node_that_died_before_rank_0_ended_counts_though_mpirun_says_nothing_of_it(stop: str) -> None:
    lost = ended(1, FailureClass.NODE_LOST, None, 4.0, stop=stop)
    srun = settled(job(spec=MPI, kind=JobKind.SRUN), ended(0, at=5.0), lost, ended(2, at=6.0, stop="GANG")).job
    assert (srun.state, settled(job(spec=MPI), ended(0, at=5.0), lost).job.state) == (
        JobState.NODE_FAIL,
        JobState.PENDING,
    )


def test_with_mpirun_a_daemon_that_was_killed_counts_though_mpirun_says_nothing_of_it() -> None:
    broken = ended(1, FailureClass.EXIT, 255, 6.0, stop="GANG")
    verdict = settled(job(spec=MPI), ended(0, at=5.0), broken, ended(2, at=6.0, stop="GANG")).job
    assert (verdict.state, verdict.exit_code, verdict.detail) == (JobState.FAILED, 255, "exit code 255 on node002")


@pytest.mark.parametrize("order", list(permutations([(0, 5.0), (1, 6.0), (2, 7.0)])))
def test_with_mpirun_the_exit_of_rank_0_is_the_jobs(order: tuple[tuple[int, float], ...]) -> None:
    """In whatever order it is heard."""
    now: list[Part] = [part(rank, started=2.0) for rank in range(3)]
    for rank, at in order:
        told = News(now[rank].key, PartEvent.EXITED, at, exit_code=3 if rank == 0 else 143)
        ended_by = now[rank].stop if rank else ""
        now[rank] = step_part(now[rank], replace(told, ended_by=ended_by))
        after = settled(job(spec=MPI), *now)
        now = list(after.parts)
    assert after.job.state is JobState.FAILED
    assert after.job.exit_code == 3


def test_with_mpirun_a_part_that_fails_first_ends_the_job() -> None:
    failed = ended(1, FailureClass.EXIT, 137, 4.0)
    first = settled(job(spec=MPI), part(0), failed)
    assert [one.stop for one in first.parts] == ["GANG", ""]
    verdict = settled(job(spec=MPI), ended(0, FailureClass.EXIT, 143, 5.0, stop="GANG"), failed).job
    assert (verdict.state, verdict.exit_code) == (JobState.FAILED, 137)


def test_a_single_part_needs_no_gang() -> None:
    found = settled(job(), ended(0, FailureClass.EXIT, 2))
    assert (found.parts[0].stop, found.job.state, found.job.exit_code) == ("", JobState.FAILED, 2)


@pytest.mark.parametrize("stop", ["CANCEL by alice", "TIMEOUT", "REQUEUE"])
def test_a_wish_reaches_every_part_that_lives(stop: str) -> None:
    parts = [part(0), part(1, AttemptState.LOST), ended(2), part(3, AttemptState.STARTING)]
    if stop in ("TIMEOUT", "REQUEUE"):
        parts[0] = replace(parts[0], stop=stop, state=AttemptState.STOPPING)
        found = settled(job(), *parts)
    else:
        found = settled(job(stop=stop), *parts)
    word = stop.split(maxsplit=1)[0]
    assert [one.stop for one in found.parts] == [word, word, "", word]
    assert found.job.state is JobState.RUNNING


def test_the_attempt_is_as_its_worst_part() -> None:
    order = [AttemptState.LOST, AttemptState.STOPPING, AttemptState.STARTING, AttemptState.RUNNING, AttemptState.ENDED]
    for first, second in product(AttemptState, repeat=2):
        worst = min(first, second, key=order.index)
        assert lifecycle.attempt_state([part(0, first), part(1, second)]) is worst


def test_lost_contact_is_a_reason_and_not_an_end() -> None:
    found = settled(job(), part(0), part(1, AttemptState.LOST, lost_since=3.0, reason="timed out"))
    assert (found.job.state, found.job.reason) == (JobState.RUNNING, "ContactLost")
    assert found.job.detail == "contact lost with node002: timed out"
    assert all(one.state.holds_devices for one in found.parts)
    assert found.job.end_time is None


def test_nothing_ends_before_it_began() -> None:
    """The time of an end comes from a record that the job itself could have written."""
    assert step_part(part(state=AttemptState.RUNNING, started=50.0), news(PartEvent.EXITED, 10.0)).ended == 50.0
    assert step_part(part(state=AttemptState.STARTING), news(PartEvent.EXITED, 10.0)).ended == 10.0


def test_an_attempt_that_is_not_the_current_one_decides_nothing() -> None:
    current = job(attempt=2)
    assert settled(current, ended(0, FailureClass.EXIT, 9)).job == current
    over = job(state=JobState.CANCELLED)
    assert settled(over, ended(0)).job == over


def test_times_are_those_of_the_parts() -> None:
    found = settled(job(), ended(0, at=8.0), ended(1, at=6.0), now=99.0)
    assert (found.job.start_time, found.job.end_time, found.attempt.ended) == (2.0, 8.0, 8.0)


FAILURES = [*FailureClass]


@given(
    st.lists(
        st.tuples(st.sampled_from(FAILURES), st.sampled_from(["", "GANG", "TIMEOUT", "CANCEL", "REQUEUE", "OOM"])),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from(["", "CANCEL by bob"]),
    st.sampled_from(list(JobKind)),
    st.booleans(),
    st.integers(0, 9),
)
def test_every_end_has_a_verdict(
    ends: list[tuple[FailureClass, str]], stop: str, kind: JobKind, elsewhere: bool, failures: int
) -> None:
    parts = [ended(rank, failure, 1, stop=wish) for rank, (failure, wish) in enumerate(ends)]
    found = settled(job(kind=kind, stop=stop, failures=failures), *parts, elsewhere=elsewhere)
    assert found.attempt.state is AttemptState.ENDED
    assert found.job.state in JOB_TABLE[JobState.RUNNING]
    assert found.job.state.final == (found.job.end_time is not None)
    assert found.job.state.final or not stop
    if stop and any(wish not in ("", "REQUEUE", "OOM") for _, wish in ends):
        assert found.job.state in (JobState.CANCELLED, JobState.TIMEOUT)


# --- jobs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", list(JobState))
def test_only_a_pending_job_is_placed_or_withdrawn(state: JobState) -> None:
    before = job(state=state)
    if state is JobState.PENDING:
        assert lifecycle.place(before, 3, 1.0).state is JobState.RUNNING
        gone = lifecycle.withdraw(before, "alice", 4.0)
        assert (gone.state, gone.end_time, gone.stop) == (JobState.CANCELLED, 4.0, "CANCEL by alice")
        return
    for change in (lambda: lifecycle.place(before, 3, 1.0), lambda: lifecycle.withdraw(before, "alice", 4.0)):
        with pytest.raises(InvalidTransition, match=state.value):
            change()


@pytest.mark.parametrize("state", list(JobState))
def test_only_a_pending_job_is_held(state: JobState) -> None:
    before = job(state=state)
    if state is not JobState.PENDING:
        with pytest.raises(InvalidTransition, match=state.value):
            lifecycle.hold(before, "alice", admin=False)
        return
    held = lifecycle.hold(before, "alice", admin=False)
    assert held.held == "JobHeldUser by alice"
    assert lifecycle.hold(held, "alice", admin=False) == held
    by_root = lifecycle.hold(held, "root", admin=True)
    assert by_root.held == "JobHeldAdmin by root"
    assert lifecycle.hold(by_root, "alice", admin=False) == by_root
    assert lifecycle.held_by_admin(by_root)
    assert not lifecycle.held_by_admin(held)
    assert lifecycle.release(by_root) == before


@pytest.mark.parametrize("state", list(JobState))
def test_only_a_pending_job_is_abandoned(state: JobState) -> None:
    before = job(state=state)
    if state is not JobState.PENDING:
        with pytest.raises(InvalidTransition, match=state.value):
            lifecycle.abandon(before, "job 5 is FAILED", 4.0)
        return
    after = lifecycle.abandon(before, "job 5 is FAILED", 4.0)
    assert (after.state, after.reason) == (JobState.CANCELLED, "DependencyNeverSatisfied")
    assert (after.detail, after.end_time) == ("job 5 is FAILED", 4.0)


@pytest.mark.parametrize("state", list(JobState))
def test_what_ended_is_queued_again_and_what_runs_is_restarted(state: JobState) -> None:
    before = job(state=state, exit_code=3, end_time=9.0, start_time=2.0, failures=2, avoid=("node001",), stop="")
    if state.final:
        again = lifecycle.requeue(replace(before, stop="CANCEL by bob", detail="exit code 3"), "alice", 50.0)
        assert (again.state, again.attempt, again.reason) == (JobState.PENDING, 1, "")
        assert again.detail == "exit code 3; queued again by alice"
        assert (again.exit_code, again.end_time, again.start_time, again.failures, again.stop) == (
            None,
            None,
            None,
            0,
            "",
        )
    else:
        with pytest.raises(InvalidTransition, match=state.value):
            lifecycle.requeue(before, "alice", 50.0)
    if state is JobState.RUNNING:
        wanted = lifecycle.want_restart(before, "alice")
        assert wanted.stop == "RESTART by alice"
        assert lifecycle.want_restart(wanted, "bob") == wanted
        assert lifecycle.want_stop(wanted, "CANCEL by bob").stop == "CANCEL by bob"
    else:
        with pytest.raises(InvalidTransition, match=state.value):
            lifecycle.want_restart(before, "alice")


@given(st.lists(st.tuples(st.sampled_from(FAILURES), st.sampled_from(["", "GANG", "RESTART", "OOM"])), min_size=1))
def test_who_is_to_be_queued_again_is_so_however_it_ended(ends: list[tuple[FailureClass, str]]) -> None:
    parts = [ended(rank, failure, 1, stop=wish) for rank, (failure, wish) in enumerate(ends)]
    held = lifecycle.hold_next(job(stop="RESTART by bob"), "bob", admin=False)
    found = settled(held, *parts).job
    assert (found.state, found.stop, found.held) == (JobState.PENDING, "", "JobHeldUser by bob")
    assert lifecycle.place(found, 2, 1.0).attempt == 2


def test_the_first_wish_counts() -> None:
    once = lifecycle.want_stop(job(), "CANCEL by alice")
    assert lifecycle.want_stop(once, "CANCEL by bob").stop == "CANCEL by alice"
