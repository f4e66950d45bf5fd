"""What a plan has to know of maintenance: how long a job may run, and what is closed now."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mgpu.config.model import Config, NodeConfig, PartitionConfig, SshSettings
from mgpu.core.fairshare import FIFO
from mgpu.core.model import Attempt, AttemptState, DeviceUuid, JobId, NodeName, NodeState, Part, Request
from mgpu.core.observation import Node, Observation
from mgpu.core.plan import NodeFacts, PendingJob, Window
from mgpu.core.queue import Queue
from mgpu.master.board import Board, Running
from mgpu.master.planning import snapshot, spans
from mgpu.master.views import Views
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
    assert spans(config())(asked) == span_s
    assert spans(replace(config(), backfill="skip"))(asked) == span_s
    assert spans(replace(config(), backfill="skip", fair_share=FIFO))(asked) == 0


def test_nothing_starts_while_a_window_is_open() -> None:
    made, up = Views(config(NOON)), {NAME: Node(NAME, NodeState.UP, observation=Observation(NAME, 1.0, "b", "a"))}
    before, open_, after = (made.of(up, Board([]), {}, now)[0] for now in (4999.0, 5000.0, 9000.0))
    assert (before.usable, open_.usable, after.usable) == (True, False, True)
    assert (before.reason, open_.reason) == ("", "maintenance 12:00 to 13:00")
    assert made.of(up, Board([]), {}, 9001.0)[0] is after


def test_only_where_the_time_is_too_short_is_a_node_closed() -> None:
    made, up = Views(config(NOON)), {NAME: Node(NAME, NodeState.UP, observation=Observation(NAME, 1.0, "b", "a"))}
    jobs = [PendingJob(JobId(span), "bob", Request(), 0, 0.0, span_s=span) for span in (100, 5000)]
    seen = snapshot(config(NOON), made.of(up, Board([]), {}, 1000.0), Queue(jobs).at(1000.0), Board([]), 1000.0)
    assert {batch.span_s: [name for name, _ in batch.closed] for batch in seen.batches} == {100: [], 5000: [NAME]}


def running(number: int, began: float, limit_s: int | None, *states: AttemptState) -> Running:
    """An attempt with a part in each of these states."""
    of = replace(job(str(number), spec=spec(time_limit_s=limit_s)), job_id=JobId(number))
    attempt = Attempt(of.job_id, 1, "t", AttemptState.RUNNING, began)
    parts = tuple(
        Part(of.job_id, 1, rank, NAME, "train", (rank,), (DeviceUuid(f"G{number}-{rank}"),), state, started=began)
        for rank, state in enumerate(states)
    )
    return Running(of, attempt, parts)


def test_when_what_runs_is_thought_to_end() -> None:
    runs = AttemptState.RUNNING
    board = Board(
        [
            running(1, 100.0, 3600, runs),
            running(2, 100.0, None, runs, AttemptState.ENDED),
            running(3, -7200.0, None, runs),  # its 7,200 s are over: as long again
            running(4, 100.0, 200, runs),  # over its limit: it is being ended
            running(5, 100.0, 3600, runs, AttemptState.LOST),
        ]
    )
    seen = snapshot(config(), (), ((), ()), board, 1000.0)
    assert [(one.job_id, one.until, [u for _, uuids in one.parts for u in uuids]) for one in seen.running] == [
        (1, 3700.0, ["G1-0"]),
        (2, 7300.0, ["G2-0"]),
        (3, 7200.0, ["G3-0"]),
        (4, 1000.0, ["G4-0"]),
    ]
    assert snapshot(replace(config(), backfill="skip"), (), ((), ()), board, 1000.0).running == ()
