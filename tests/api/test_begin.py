"""--begin: Slurm's forms of a moment and nothing else."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgpu.core.errors import RequestError
from mgpu.ops.begin import parse_begin

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
