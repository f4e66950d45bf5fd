"""Rows that are read again and again are made into values once, and those that are gone are not kept."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mgpu.store.kept import Kept

READINGS = st.lists(st.lists(st.tuples(st.integers(0, 9), st.text(max_size=1)), unique=True), max_size=8)


@given(readings=READINGS)
def test_what_was_there_the_last_time_is_not_decoded_again(readings: list[list[tuple[int, str]]]) -> None:
    decoded: list[tuple[int, str]] = []

    def decode(row: tuple[int, str]) -> str:
        decoded.append(row)
        return f"{row[0]} {row[1]}"

    kept: Kept[tuple[int, str], str] = Kept(decode)
    before: list[tuple[int, str]] = []
    for rows in readings:
        decoded.clear()
        assert kept.read(iter(rows)) == [f"{number} {text}" for number, text in rows]
        assert decoded == [row for row in rows if row not in before]
        before = rows
