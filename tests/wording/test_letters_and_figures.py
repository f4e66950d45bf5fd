"""What is shown of any text, and how times and numbers read."""

from __future__ import annotations

import pytest

from mgpu.wording.figures import duration, ranges, roughly
from mgpu.wording.letters import clean, cut, width_of


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain é", "plain é"),
        ("a\tb\n", "a\\tb\\n"),
        ("\x9b\x00\udcff", "\\x9b\\x00\\xff"),
        ("\u202e", "\\u202e"),
        (None, ""),
    ],
)
def test_nothing_steers_the_terminal(value: str | None, shown: str) -> None:
    assert clean(value) == shown


def test_small_forms() -> None:
    seconds = (0, 59.9, 61, 3600, 90061)
    assert list(map(duration, seconds)) == ["0:00", "0:59", "1:01", "1:00:00", "1-01:01:01"]
    minute, hour = 60, 3600
    amounts = (-5, 59, 43 * minute, 119 * minute, 2 * hour, 47 * hour, 50 * hour)
    assert [*map(roughly, amounts)] == ["0 min", "0 min", "43 min", "119 min", "2 h", "47 h", "2 days"]
    assert ranges([5, 0, 1, 2]) == "0-2,5"
    assert [cut("模型模型", n) for n in (8, 7, 4, 1)] == ["模型模型", "模型模…", "模…", "…"]


@pytest.mark.parametrize(
    ("text", "columns"),
    [("abc", 3), ("模型", 4), ("e\u0301", 1), ("ที่", 1), ("❤\ufe0f", 1), ("नि", 2), ("🚀", 2), ("ｱ", 1)],
)
def test_marks_stand_on_the_letter_before_them(text: str, columns: int) -> None:
    assert width_of(text) == columns
