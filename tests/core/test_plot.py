"""The picture of a replay."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mgpu.core.model import JobId, Request
from mgpu.core.plot import STEPS, means, plot, ticks
from mgpu.core.replay import LoggedJob, Ran

SVG = "{http://www.w3.org/2000/svg}"
TIMES = st.integers(0, 10_000).map(float)


def ran(submit: float, start: float, duration: float, gpus: int) -> Ran:
    return Ran(LoggedJob(JobId(1), submit, duration, Request(gpus=gpus)), start, gpus)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(TIMES, TIMES, st.integers(1, 64)), min_size=1, max_size=20))
def test_what_is_shown_is_what_there_was(spans: list[tuple[float, float, int]]) -> None:
    spans = [(min(a, b), max(a, b), height) for a, b, height in spans]
    begin, end = min(a for a, _, _ in spans), max(b for _, b, _ in spans)
    changes = [change for a, b, height in spans for change in ((a, float(height)), (b, -float(height)))]
    shown = sum(means(changes, begin, end)) * (end - begin) / STEPS
    assert shown == pytest.approx(sum((b - a) * height for a, b, height in spans), abs=1e-6)


@given(st.floats(1e-3, 1e9))
def test_ticks_are_round_and_neither_few_nor_many(most: float) -> None:
    found = ticks(most)
    assert found[0] == 0 and found[-1] <= most * (1 + 1e-9) and 6 <= len(found) <= 13
    assert f"{found[1]:.0e}"[0] in "125"


def test_a_line_for_each_way_in_each_panel() -> None:
    results = {"fifo/easy": [ran(0, 0, 3600, 4), ran(0, 3600, 60, 8)], "<sjf>": [ran(0, 60, 3600, 4), ran(0, 0, 60, 8)]}
    drawing = ElementTree.fromstring(plot(results, 8))
    lines = [line.attrib["points"].split() for line in drawing.iter(f"{SVG}polyline")]
    assert [len(points) for points in lines] == [STEPS] * 4
    words = [text.text for text in drawing.iter(f"{SVG}text")]
    assert {"fifo/easy", "<sjf>", "GPUs in use, of 8, over hours", "jobs waiting, over hours"} <= set(words)
    heights = [float(point.split(",")[1]) for point in lines[0]]
    assert heights[0] > heights[-1]  # at first half of the GPUs are in use, at last all
