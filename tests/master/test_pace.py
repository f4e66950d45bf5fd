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
from mgpu.master.pace import MOST_EXPECTED, Hearing, Pace
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


def test_of_what_was_started_here_each_word_is_taken_in_once_however_many_there_are() -> None:
    hearing, jobs = Hearing(Pace(3, 1.0)), range(MOST_EXPECTED)
    for number in jobs:
        hearing.expect(f"{number}.1")
    for word in ("started 5.0 - 1:2:3", "ended = 0,0, 0:6.0"):
        assert all(hearing.takes(f"{number}.1 {word}", 100.0) for number in jobs)
    flood = ["7.1 ended = 0,0, 0:6.0", "8.1 started 5.0 - 1:2:3", "2000.1 started 5.0 - 1:2:3", "9.1 leftover 1", ""]
    assert sum(hearing.takes(line, 100.0) for line in flood * 9) == 3


def test_what_was_never_heard_to_end_is_forgotten_in_time() -> None:
    hearing = Hearing(Pace(1, 0.001))
    for number in range(MOST_EXPECTED + 1):
        hearing.expect(f"{number}.1")
    assert hearing.takes("0.1 ended", 100.0)  # by the pace
    assert not hearing.takes("0.1 ended", 100.0)
    assert hearing.takes("1.1 ready", 100.0) and not hearing.takes("1.1 ready", 100.0)
    assert hearing.takes("1.1 ended", 100.0) and not hearing.takes("1.1 started", 100.0)
