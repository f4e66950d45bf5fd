"""What a plan has to know of maintenance: how long a job may run, and what is closed now."""

from __future__ import annotations

from typing import Any

import pytest

from mgpu.config.model import Config, NodeConfig, PartitionConfig, SshSettings
from mgpu.core.model import JobId, NodeName, NodeState, Request
from mgpu.core.observation import Node, Observation
from mgpu.core.plan import NodeFacts, PendingJob, Window
from mgpu.core.queue import Queue
from mgpu.master.board import Board
from mgpu.master.planning import Views, snapshot, spans
from tests.store.stored_values import job, spec

NAME = NodeName("a")
NOON = Window(5000.0, 9000.0, "12:00 to 13:00")


def config(*windows: Window) -> Config:
    parts = {name: PartitionConfig(name, planning_time_s=time) for name, time in (("short", 600), ("long", 7200))}
    facts = NodeFacts(NAME, maintenance=windows)
    return Config(None, (NodeConfig(NAME, "ssh", SshSettings("a"), facts),), partitions=parts)


@pytest.mark.parametrize(
    ("changes", "span_s"),
    [
        ({"time_limit_s": 60}, 60),
        ({"request": Request(partition="short")}, 600),
        ({"request": Request(partition="short,long")}, 7200),
        ({}, 7200),
    ],
)
def test_a_job_without_a_limit_is_planned_with_the_time_of_its_partition(changes: dict[str, Any], span_s: int) -> None:
    asked = job("a", spec=spec(**changes))
    assert spans(config(NOON))(asked) == span_s
    assert spans(config())(asked) == 0


def test_nothing_starts_while_a_window_is_open() -> None:
    made, up = Views(config(NOON)), {NAME: Node(NAME, NodeState.UP, observation=Observation(NAME, 1.0, "b", "a"))}
    before, open_, after = (made.of(up, Board([]), {}, now)[0] for now in (4999.0, 5000.0, 9000.0))
    assert (before.usable, open_.usable, after.usable) == (True, False, True)
    assert (before.reason, open_.reason) == ("", "maintenance 12:00 to 13:00")
    assert made.of(up, Board([]), {}, 9001.0)[0] is after


def test_only_where_the_time_is_too_short_is_a_node_closed() -> None:
    made, up = Views(config(NOON)), {NAME: Node(NAME, NodeState.UP, observation=Observation(NAME, 1.0, "b", "a"))}
    jobs = [PendingJob(JobId(span), "bob", Request(), 0, 0.0, span_s=span) for span in (100, 5000)]
    seen = snapshot(config(NOON), made.of(up, Board([]), {}, 1000.0), Queue(jobs), 1000.0)
    assert {batch.span_s: [name for name, _ in batch.closed] for batch in seen.batches} == {100: [], 5000: [NAME]}
