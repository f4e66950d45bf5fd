"""Time limits: Slurm's six forms and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgpu.core.errors import RequestError
from mgpu.core.timelimit import MAX_S, parse_time_limit, render_time_limit


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5400),
        ("1:30", 90),
        ("1:30:00", 5400),
        ("3-0", 259200),
        ("3-0:30", 259200 + 1800),
        ("3-0:00:30", 259200 + 30),
        ("1-36", 86400 + 36 * 3600),
        (" 5 ", 300),
        ("0", None),
        ("0:00", None),
        ("0-0", None),
        ("UNLIMITED", None),
        ("infinite", None),
        ("none", None),
    ],
)
def test_forms(text: str, seconds: int | None) -> None:
    assert parse_time_limit(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "1.5", "1:2:3:4", "1:60", "1:00:60", "3-", "-3", "3-1:60", "1h", "٣", "99999999", "1 2"]
)
def test_anything_else_is_refused_in_a_line(text: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_time_limit(text)
    assert "\n" not in caught.value.message


@given(st.integers(1, MAX_S))
def test_rendered_limits_are_read_back(seconds: int) -> None:
    assert parse_time_limit(render_time_limit(seconds)) == seconds
