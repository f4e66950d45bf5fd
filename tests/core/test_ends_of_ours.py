"""A command that we ended because of trouble around it did not end by itself, whatever it exits with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mgpu.core.lifecycle import START_HANGS, News, PartEvent, step_part
from mgpu.core.model import AttemptState, DeviceUuid, FailureClass, JobId, NodeName, Part
from mgpu.core.reconcile import NodeAnswer, PartAnswer, news_of
from mgpu.core.retry import LEFTOVER

TOKEN = "f" * 32
PART = Part(
    job_id=JobId(3),
    attempt=1,
    rank=0,
    node=NodeName("n1"),
    account="alice",
    devices=(0,),
    uuids=(DeviceUuid("GPU-1"),),
    state=AttemptState.RUNNING,
    boot_id="boot",
    started=10.0,
)
RECORDS = {"pid": f"12:34:boot:{TOKEN}", "started": "13:10.0:-"}


def look(part: Part, alive: bool = False, **records: str) -> Part:
    answer = NodeAnswer({"3.1": PartAnswer({**RECORDS, **records}, alive)}, 100.0, "boot", 100.0)
    for news in news_of(part, TOKEN, answer):
        part = step_part(part, news)
    return part


@pytest.mark.parametrize("code", [0, 143])
def test_exit_after_the_supervisor_was_killed(code: int) -> None:
    orphaned = look(PART)
    assert (orphaned.state, orphaned.stop) == (AttemptState.STOPPING, "ORPHANED")
    ended = look(orphaned, stop="ORPHANED", exit=f"{code}:50.0", clean="51.0")
    assert (ended.state, ended.failure) == (AttemptState.ENDED, FailureClass.SUPERVISOR)


@pytest.mark.parametrize(("code", "failure"), [(0, FailureClass.NONE), (7, FailureClass.EXIT)])
def test_exit_before_the_supervisor_was_killed_counts(code: int, failure: FailureClass) -> None:
    orphaned = look(PART, exit=f"{code}:40.0")
    assert (orphaned.state, orphaned.stop) == (AttemptState.STOPPING, LEFTOVER)
    ended = look(orphaned, exit=f"{code}:40.0", stop=LEFTOVER, clean="51.0")
    assert (ended.failure, ended.exit_code) == (failure, code)


@pytest.mark.parametrize(("code", "failure"), [(0, FailureClass.NONE), (7, FailureClass.EXIT)])
@pytest.mark.parametrize("wish", ["ORPHANED", "CANCEL", "GANG", "TIMEOUT"])
def test_a_stop_that_came_too_late_ended_nothing(wish: str, code: int, failure: FailureClass) -> None:
    stopping = replace(PART, state=AttemptState.STOPPING, stop=wish)
    ended = look(stopping, stop=wish, exit=f"{code}:40.0", clean="51.0:own")
    assert (ended.stop, ended.failure, ended.exit_code) == ("", failure, code)


@pytest.mark.parametrize("wish", ["GANG", "CANCEL", START_HANGS])
def test_what_the_node_ended_it_for_counts_and_not_what_we_wanted_meanwhile(wish: str) -> None:
    """It reached its limit while contact was lost."""
    lost = replace(PART, state=AttemptState.LOST, stop=wish, lost_since=20.0)
    ended = look(lost, stop="TIMEOUT", exit="143:40.0", clean="41.0")
    assert (ended.state, ended.stop, ended.failure) == (AttemptState.ENDED, "TIMEOUT", FailureClass.EXIT)


@pytest.mark.parametrize("state", [AttemptState.STOPPING, AttemptState.LOST])
def test_a_start_that_was_given_up_and_began_all_the_same_runs_on(state: AttemptState) -> None:
    given_up = replace(PART, state=state, started=None, stop=START_HANGS, reason="the start hangs")
    runs = look(given_up, alive=True)
    assert (runs.state, runs.stop, runs.reason, runs.started) == (AttemptState.RUNNING, "", "", 10.0)
    ended = look(given_up, exit="3:50.0", clean="51.0:own")
    assert (ended.failure, ended.exit_code, ended.stop) == (FailureClass.EXIT, 3, "")


def test_what_was_ended_before_it_began_says_so() -> None:
    given_up = replace(PART, state=AttemptState.STOPPING, started=None, stop=START_HANGS)
    fenced = step_part(given_up, News(PART.key, PartEvent.FENCED, 60.0))
    assert (fenced.failure, fenced.reason) == (FailureClass.STOPPED, "its start took too long")
    ended = look(given_up, stop=START_HANGS, exit="143:50.0", clean="51.0")
    assert (ended.failure, ended.reason) == (FailureClass.NODE_LOST, "its start took too long")


@pytest.mark.parametrize("started", [None, 10.0])
def test_what_an_operator_gave_up_may_have_run(started: float | None) -> None:
    lost = replace(PART, state=AttemptState.LOST, started=started, lost_since=20.0)
    assert step_part(lost, News(PART.key, PartEvent.GIVEN_UP, 60.0)).failure is FailureClass.NODE_LOST


def test_a_part_that_only_prepares_is_found_again() -> None:
    lost = step_part(
        replace(PART, state=AttemptState.STARTING, started=None), News(PART.key, PartEvent.UNREACHABLE, 9.0)
    )
    assert lost.state is AttemptState.LOST
    answer = NodeAnswer({"3.1": PartAnswer({"pid": RECORDS["pid"]}, alive=True)}, 100.0, "boot", 100.0)
    (news,) = news_of(lost, TOKEN, answer)
    found = step_part(lost, news)
    assert (found.state, found.pid, found.lost_since) == (AttemptState.STARTING, 12, None)


def test_a_look_from_before_the_start_ends_nothing() -> None:
    """The answer shows no gate yet; meanwhile the part was heard to have begun."""
    asked = replace(PART, state=AttemptState.STARTING, started=None, boot_id="")
    (news,) = news_of(asked, TOKEN, NodeAnswer({}, 100.0, "boot", 100.0))
    for state in (AttemptState.RUNNING, AttemptState.LOST):
        after = step_part(replace(PART, state=state), news)
        assert (after.state, after.stop) == (AttemptState.RUNNING, "")


def test_a_run_directory_removed_under_a_running_part_ends_it() -> None:
    (news,) = news_of(PART, TOKEN, NodeAnswer({}, 100.0, "boot", 100.0))
    after = step_part(PART, news)
    assert (after.state, after.stop) == (AttemptState.STOPPING, "RUN_DIRECTORY_GONE")
