"""Which rows are events, and what --mail-type asks for, as Slurm does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mgpu.config.values import _events
from mgpu.core import notices
from mgpu.core.errors import RequestError
from mgpu.core.mail import parse_mail_type, parse_mail_user
from mgpu.core.model import Audit, JobId, JobState
from tests.store.stored_values import job, spec


def event(what: str, result: str = "") -> str:
    return notices.event_of(Audit(1.0, "x", what, result=result))


def test_rows_are_events() -> None:
    assert event("ended: COMPLETED") == event("ended: CANCELLED") == "ended"
    assert {event(f"ended: {word}") for word in ("FAILED", "TIMEOUT", "NODE_FAIL")} == {"failed"}
    assert (event("submit"), event("started"), event("requeued")) == ("queued", "started", "requeued")
    assert (event("node DOWN"), event("time limit 90 %")) == ("node_down", "time_limit_90")
    assert (event("placed"), event("notice"), event("submit", "refused: not allowed")) == ("", "", "")
    assert _events("all") == notices.EVENTS


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("END", "END"),
        ("fail, begin", "BEGIN,FAIL"),
        ("NONE", ""),
        ("ALL", "BEGIN,END,FAIL,INVALID_DEPEND,REQUEUE,STAGE_OUT"),
        ("ALL,TIME_LIMIT_90,ARRAY_TASKS", "BEGIN,END,FAIL,INVALID_DEPEND,REQUEUE,STAGE_OUT,TIME_LIMIT_90,ARRAY_TASKS"),
    ],
)
def test_mail_types(typed: str, kept: str) -> None:
    assert parse_mail_type(typed) == kept


@pytest.mark.parametrize("typed", ["ENDS", "NONE,END", "END FAIL", "TIME_LIMIT_70"])
def test_mail_types_that_are_none(typed: str) -> None:
    with pytest.raises(RequestError, match="--mail-type: "):
        parse_mail_type(typed)


@pytest.mark.parametrize("typed", ["ann", "ann@example.org", "a.b+mgpu@x-y.example", "o_1=2%3@h"])
def test_mail_users(typed: str) -> None:
    assert parse_mail_user(typed) == typed


@pytest.mark.parametrize(
    "typed",
    [
        "-t",
        "ann bob",
        "a@b,c@d",
        "a@b\nBcc: all",
        "a;id",
        "$(id)",
        "|sh",
        "a@-x",
        "a@b@c",
        '"a"@b',
        "x" * 400,
        "\udcff",
    ],
)
def test_mail_users_that_would_be_something_else(typed: str) -> None:
    with pytest.raises(RequestError, match="--mail-user"):
        parse_mail_user(typed)


def asks(types: str, event: str, **changes: object) -> str:
    return notices.asked_by(job("r", spec=spec(mail_type=types), **changes), event)


def test_what_a_job_asks_for() -> None:
    assert asks("END", "ended") == asks("END", "failed") == "END"
    assert asks("FAIL", "failed") == asks("END,FAIL", "failed") == "FAIL"
    assert (asks("FAIL", "ended"), asks("", "failed"), asks("BEGIN", "queued")) == ("", "", "")
    assert asks("TIME_LIMIT", "failed", state=JobState.TIMEOUT) == "TIME_LIMIT"
    assert asks("TIME_LIMIT", "failed", state=JobState.FAILED) == ""
    assert asks("TIME_LIMIT_80", "time_limit_80") == "TIME_LIMIT_80"
    assert asks("TIME_LIMIT_80", "time_limit_90") == ""


def test_an_array_is_told_of_as_a_whole_unless_its_tasks_are_meant() -> None:
    array, task = {"rest": ""}, {"array_id": JobId(3), "array_index": 1}
    assert (asks("END", "ended", **array), asks("END", "ended", **task)) == ("END", "")
    assert (asks("END,ARRAY_TASKS", "ended", **array), asks("END,ARRAY_TASKS", "ended", **task)) == ("", "END")
    wants = job("r", spec=spec(mail_type="TIME_LIMIT_50,TIME_LIMIT_90"))
    assert notices.shares_asked(wants) == [50, 90]
    assert notices.shares_asked(replace(wants, array_id=JobId(3))) == []
