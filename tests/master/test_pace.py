"""How much of a flood is taken in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from mgpu.clock import Clock
from mgpu.config.model import NodeConfig, SshSettings
from mgpu.core.model import NodeName
from mgpu.core.plan import NodeFacts
from mgpu.master.inbox import Heard, Inbox, LeftBehind
from mgpu.master.link import EVENTS_AT_ONCE, NodeLink
from mgpu.master.pace import Pace
from mgpu.master.worker import Threads
from mgpu.remote.runner import Runner


def test_so_many_at_once_and_so_many_a_second_then() -> None:
    pace = Pace(10, 2.0)
    assert [pace.takes(100.0) for _ in range(12)] == [True] * 10 + [False] * 2
    assert [pace.takes(100.1), pace.takes(100.6), pace.takes(100.7)] == [False, True, False]
    flood = [pace.takes(200.0 + second) for second in range(100) for _ in range(9)]
    assert sum(flood) == 10 + 2 * 99


def test_who_comes_seldom_is_never_passed_over() -> None:
    pace = Pace(1, 1.0)
    assert all(pace.takes(float(second)) for second in range(100))


def test_a_job_that_fills_the_events_file_is_heard_a_while_and_of_what_it_left_once() -> None:
    now = SimpleNamespace(now=lambda: 0.0, monotonic=lambda: 0.0)
    threads = cast(Threads, SimpleNamespace(line=lambda name: None))
    inbox, config = Inbox(), NodeConfig(NodeName("a"), "ssh", SshSettings("a"), NodeFacts(NodeName("a")))
    link = NodeLink(config, "train", cast(Runner, None), 45.0, inbox, threads, cast(Clock, now))
    for _ in range(5):
        link.hear("7.1 leftover 12 13")
    link.hear("8.1 leftover 12")
    for _ in range(2 * EVENTS_AT_ONCE):
        link.hear("7.1 requeue")
    told = inbox.take()
    assert [message.count for message in told if isinstance(message, LeftBehind)] == [2, 1]
    assert sum(isinstance(message, Heard) for message in told) == EVENTS_AT_ONCE - 6
