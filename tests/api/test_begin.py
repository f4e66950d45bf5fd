"""--begin: Slurm's forms of a moment and nothing else."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgpu.core.errors import RequestError
from mgpu.ops.begin import parse_begin
from tests.api.conftest import submission

ZONE = timezone(timedelta(hours=2))
NOW = datetime(2026, 11, 28, 9, 0, tzinfo=ZONE)


def begin(text: str) -> str:
    found = datetime.fromtimestamp(parse_begin(text, NOW.timestamp(), ZONE), ZONE)
    return found.isoformat(" ")[:19]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("now", "2026-11-28 09:00:00"),
        ("now+60", "2026-11-28 09:01:00"),
        ("now+1hour", "2026-11-28 10:00:00"),
        ("Now + 2 days", "2026-11-30 09:00:00"),
        ("now+10m", "2026-11-28 09:10:00"),
        ("now+1week", "2026-12-05 09:00:00"),
        ("16:00", "2026-11-28 16:00:00"),
        ("8:00:30", "2026-11-29 08:00:30"),
        ("4:30pm", "2026-11-28 16:30:00"),
        ("12:15 am", "2026-11-29 00:15:00"),
        ("noon", "2026-11-28 12:00:00"),
        ("midnight", "2026-11-29 00:00:00"),
        ("fika", "2026-11-28 15:00:00"),
        ("teatime", "2026-11-28 16:00:00"),
        ("today", "2026-11-28 00:00:00"),
        ("tomorrow", "2026-11-29 00:00:00"),
        ("tomorrow 08:30", "2026-11-29 08:30:00"),
        ("2026-12-01", "2026-12-01 00:00:00"),
        ("2026-12-01T08:00", "2026-12-01 08:00:00"),
        ("2026-12-01 8:00:05", "2026-12-01 08:00:05"),
        ("12/01", "2026-12-01 00:00:00"),
        ("11/27", "2027-11-27 00:00:00"),
        ("12/01/26", "2026-12-01 00:00:00"),
        ("120126", "2026-12-01 00:00:00"),
        ("2020-01-01", "2020-01-01 00:00:00"),
    ],
)
def test_forms(text: str, moment: str) -> None:
    assert begin(text) == moment


@pytest.mark.parametrize(
    "text",
    ["", "x", "25:00", "13:00pm", "0:30am", "16", "now-1", "now+", "now+1x", "2026-13-01", "2/30", "08:00T2026-12-01"],
)
def test_anything_else_is_refused_in_a_line(text: str) -> None:
    with pytest.raises(RequestError, match=r"cannot be read: write now\+1hour, 16:00") as caught:
        begin(text)
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("text", ["9999-12-31", "now+999999999weeks"])
def test_nothing_waits_for_ever(text: str) -> None:
    with pytest.raises(RequestError, match="over ten years away"):
        begin(text)


@given(st.text(max_size=20))
def test_no_text_is_more_than_refused(text: str) -> None:
    with suppress(RequestError):
        parse_begin(text, NOW.timestamp(), ZONE)


@pytest.mark.parametrize(
    ("zone", "at"),
    [
        ("Asia/Tokyo,+0900", "2030-07-01T07:00:00Z"),
        ("Europe/Zurich,+0100", "2030-07-01T14:00:00Z"),  # summer time then, whatever the difference is now
        ("Nowhere/At_All,-0330", "2030-07-01T19:30:00Z"),
        (",+0100", "2030-07-01T15:00:00Z"),
        ("../../etc/passwd,+0100", "2030-07-01T15:00:00Z"),
    ],
)
def test_a_time_of_day_is_by_the_clock_of_whoever_asks(served, zone: str, at: str) -> None:
    job_id = served.ask("POST", "/v1/jobs", {**submission("a" * 8, begin="2030-07-01T16:00"), "zone": zone})[1][
        "job_id"
    ]
    assert served.ask("GET", f"/v1/jobs/{job_id}")[1]["begin"] == at
    change = {"request_id": "b" * 8, "begin": "2030-07-02T16:00", "zone": zone}
    assert served.ask("POST", f"/v1/jobs/{job_id}/update", change)[0] == 200
    assert served.ask("GET", f"/v1/jobs/{job_id}")[1]["begin"] == at.replace("07-01", "07-02")


def test_a_zone_that_is_none(served) -> None:
    wish = {**submission("a" * 8, begin="16:00"), "zone": "here"}
    status, answer = served.ask("POST", "/v1/jobs", wish)
    assert (status, answer["error"]["message"]) == (400, "'here' is no time zone")
