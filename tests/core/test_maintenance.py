"""Maintenance windows: nothing starts that could run into one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from cluster import down, job, node, snapshot

from mgpu.core.maintenance import closed_to, under_way
from mgpu.core.memory import Memory
from mgpu.core.model import JobId
from mgpu.core.plan import NodeView, Shut, Snapshot, Window
from mgpu.core.schedule import plan
from mgpu.core.waits import Plan

NOON = Window(5000.0, 9000.0, "2026-12-01 12:00 to 2026-12-01 13:00", "new fan")
LATER = Window(20_000.0, 30_000.0, "2026-12-02 08:00 to 2026-12-02 12:00")
WHY = (
    "maintenance 2026-12-01 12:00 to 2026-12-01 13:00: new fan; a job of 01:06:41 would run into it; "
    "with -t of at most 01:06:00 it could start now"
)


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (4999.9, ""),
        (5000.0, "maintenance 2026-12-01 12:00 to 2026-12-01 13:00: new fan"),
        (8999.9, "maintenance 2026-12-01 12:00 to 2026-12-01 13:00: new fan"),
        (9000.0, ""),
        (20_000.0, "maintenance 2026-12-02 08:00 to 2026-12-02 12:00"),
    ],
)
def test_a_window_is_open_from_its_begin_until_its_end(now: float, reason: str) -> None:
    assert under_way((LATER, NOON), now) == reason


@pytest.mark.parametrize(
    ("now", "span_s", "closed"),
    [
        (1000.0, 4000.0, False),  # ends as it begins
        (1000.0, 4001.0, True),
        (1000.0, 0.0, False),
        (9000.0, 11_000.0, False),
        (9000.0, 11_001.0, True),
        (30_000.0, 1e9, False),
    ],
)
def test_who_would_run_into_one_does_not_start(now: float, span_s: float, closed: bool) -> None:
    seen = [node("a", "."), node("b", ".", maintenance=(LATER, NOON))]
    assert [name for name, _ in closed_to(span_s, seen, now)] == (["b"] if closed else [])
    if now == 1000.0 and closed:
        assert closed_to(span_s, seen, now) == (("b", Shut(WHY)),)


def test_a_job_without_a_limit_is_told_what_it_counts_as() -> None:
    seen = [node("b", ".", maintenance=(NOON,))]
    [(_, said)] = closed_to(86400.0, seen, 4000.0, unlimited=True)
    assert said.reason.endswith(
        "new fan; this job has no limit, is counted as 1-00:00:00, its partition's planning_time, and would "
        "run into it; with -t of at most 00:16:00 it could start now"
    )
    [(_, said)] = closed_to(86400.0, seen, 4990.0)
    assert said.reason.endswith("a job of 1-00:00:00 would run into it")  # not even a minute is left


def closing(seen: Snapshot) -> Snapshot:
    """As the master makes it."""
    batches = (each._replace(closed=closed_to(each.span_s, seen.nodes, seen.now)) for each in seen.batches)
    return replace(seen, batches=tuple(batches))


def planned(
    nodes: list[NodeView], *spans: float, memory: Memory | None = None, now: float = 1000.0, **asked: Any
) -> Plan:
    jobs = [job(number, **asked)._replace(span_s=span_s) for number, span_s in enumerate(spans, 1)]
    return plan(closing(replace(snapshot(nodes, *jobs), now=now)), memory=memory)


def test_a_job_waits_or_goes_elsewhere_and_a_shorter_one_starts() -> None:
    soon = node("b", "..", maintenance=(NOON,))
    told = planned([soon], 4001.0, 4000.0)
    assert [start.job_id for start in told.starts] == [2]
    assert (told.waits[JobId(1)].reason, told.waits[JobId(1)].detail) == ("Maintenance", f"b: {WHY}")
    assert told.waits[JobId(1)].nodes == (("b", WHY),)
    assert [start.parts[0].node for start in planned([soon, node("c", ".")], 4001.0).starts] == ["c"]
    named = planned([soon, node("c", ".")], 4001.0, nodelist=("b",)).waits[JobId(1)]
    assert (named.reason, named.detail) == ("ReqNodeNotAvail", f"b: {WHY}")
    both = planned([soon, down("c", "off", "..")], 4001.0).waits[JobId(1)]
    assert both.reason == "NodeDown"
    assert both.detail == f"too few nodes that could do it are usable: b: {WHY}; c: off"


def test_what_is_said_of_a_window_goes_with_the_time() -> None:
    memory, seen = Memory(), [node("b", "..", maintenance=(NOON,))]
    said = [planned(seen, 4001.0, memory=memory, now=now).waits[JobId(1)].detail for now in (1000.0, 2000.0)]
    assert ["01:06:00" in said[0], "00:50:00" in said[1]] == [True, True]


def test_what_was_found_before_the_time_ran_out_is_not_remembered_after_it() -> None:
    memory, seen = Memory(), [node("a", "hh"), node("b", "..", maintenance=(NOON,))]
    assert planned(seen, 4000.0, memory=memory).starts
    assert not planned(seen, 4000.0, memory=memory, now=1000.5).starts
    assert planned(seen, 4000.0, memory=memory, now=9000.0).starts
