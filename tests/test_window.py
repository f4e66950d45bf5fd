"""The part of a stream that may still be wanted, against what is simply the whole stream."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mgpu.window import Window

STEPS = st.lists(st.one_of(st.binary(max_size=9), st.integers(0, 60)), max_size=40)


@given(st.integers(0, 5), STEPS, st.integers(0, 70), st.integers(0, 20))
def test_it_is_the_stream_but_for_what_was_forgotten(base: int, steps: list[bytes | int], at: int, most: int) -> None:
    window, whole, forgotten = Window(base), b"?" * base, base
    for step in steps:
        if isinstance(step, bytes):
            window.add(step)
            whole += step
        else:
            window.forget(step)
            forgotten = max(forgotten, min(step, len(whole)))
    assert (window.base, window.end, len(window)) == (forgotten, len(whole), len(whole) - forgotten)
    assert window.read(at, most) == whole[max(at, forgotten) : max(at + most, forgotten)]
