"""Signals before a time limit, as they are typed."""

from __future__ import annotations

import signal

import pytest

from mgpu.core.errors import RequestError
from mgpu.core.signals import SIGNALS, parse_warning


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("USR1@120", "10@120"),
        ("B:SIGUSR1@0", "B:10@0"),
        ("b:term", "B:15@60"),
        (" 12@5 ", "12@5"),
        ("64", "64@60"),
    ],
)
def test_warnings(typed: str, wanted: str) -> None:
    assert parse_warning(typed) == wanted


@pytest.mark.parametrize("typed", ["", "B:", "@5", "USR3@5", "0@5", "65", "USR1@", "USR1@1:00", "R:USR1@5", "USR1@-1"])
def test_what_is_no_warning(typed: str) -> None:
    with pytest.raises(RequestError, match="cannot be read: write"):
        parse_warning(typed)


def test_numbers_are_those_of_this_kernel() -> None:
    assert {number: signal.Signals(number).name for number in SIGNALS} == SIGNALS
