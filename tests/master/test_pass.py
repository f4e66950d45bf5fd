"""A pass that fails must cost nothing that is told only once."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from mgpu.config.model import Config
from mgpu.core.errors import StoreError
from mgpu.core.health import ProbeFailure
from mgpu.core.marks import Order
from mgpu.core.model import Audit, JobId, NodeName, NodeState, PartKey
from mgpu.core.observation import Node, Observation
from mgpu.master.board import Board
from mgpu.master.inbox import Done, GivenUp, Ordered, Probed, Word
from mgpu.master.links import Links
from mgpu.master.master import MOST_REST_S, Master
from mgpu.store.reading import Reader
from mgpu.store.spool import Spool
from mgpu.store.store import Store
from tests.clocks import HandClock

NODE = NodeName("a")
ORDER = Order(True, "root", "2026-12-01T08:00:00Z", "fan")
SPOKEN: list[Word] = [GivenUp(NODE, "root", 1.0, Future()), Ordered(NODE, ORDER, Future())]


@pytest.fixture
def master(tmp_path: Path) -> Iterator[Master]:
    store = Store.open(tmp_path / "mgpu.db")
    yield Master(Config(None, ()), store, Spool(tmp_path / "spool"), lambda _inbox: Links({}))
    store.close()


def fail(master: Master) -> None:
    """The next pass does."""
    master.inbox.put(Probed(NodeName("unheard-of"), ProbeFailure("nobody")))


def test_an_order_is_over_although_the_pass_that_heard_it_failed(master: Master) -> None:
    key = PartKey(JobId(1), 1, 0)
    master._realiser._under_way.add(("start", key))
    master.inbox.put(Done("start", key))
    fail(master)
    assert master.tick() == 2.0  # a fault that stays does not keep a core busy
    assert master.errors()[0].startswith("internal error: KeyError")
    assert master._realiser.under_way
    master.tick()
    assert not master._realiser.under_way
    assert len(master.errors()) == 1


@pytest.mark.parametrize("word", SPOKEN)
def test_a_word_that_a_failing_pass_meets_is_refused_at_once(master: Master, word: Word) -> None:
    given = replace(word, done=Future())
    master.inbox.put(given)
    fail(master)
    master.tick()
    with pytest.raises(StoreError, match="internal error"):
        given.done.result(0)
    again = GivenUp(NODE, "root", 1.0, Future())
    master.inbox.put(again)
    master.tick()
    assert again.done.result(0) is None


@pytest.mark.parametrize("word", SPOKEN)
def test_a_word_that_nobody_waits_for_is_passed_over(master: Master, word: Word) -> None:
    given = replace(word, done=Future())
    master.inbox.put(given)
    assert given.done.cancel()
    master.tick()
    assert not master.errors()


def test_a_look_that_failed_is_no_change_of_state(master: Master) -> None:
    """Who is told when a node comes up is not told so when it is about to go down."""
    with master._store.write() as writer:
        writer.save_node(Node(NODE, NodeState.UP))
    master._nodes[NODE] = Node(NODE, NodeState.UP)
    seen = Observation(NODE, 1.0, "boot", "a")
    no_route, timed_out = ProbeFailure("no route"), ProbeFailure("timed out")
    for outcome in (no_route, no_route, timed_out, no_route, seen, timed_out, seen):
        master.inbox.put(Probed(NODE, outcome))
        master.tick()
    assert not master.errors()
    with master._store.read() as reader:
        told = [(row.what, row.detail) for row in reader.audits(node=NODE)]
    assert told == [
        ("node trouble", "no route"),
        ("node DOWN", "timed out"),
        ("node trouble", "no route"),
        ("node UP", ""),
        ("node trouble", "timed out"),
        ("node well", ""),
    ]


def test_what_is_stored_is_read_again_only_where_something_was_written(
    master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    times: list[int] = []
    read = Board.read

    def counted(reader: Reader) -> Board:
        times.append(1)
        return read(reader)

    monkeypatch.setattr(Board, "read", counted)
    for _ in range(3):
        master.tick()
    assert len(times) == 1
    with master._store.write() as writer:
        writer.audit(Audit(1.0, "somebody", "something", None, None, ""))
    master.tick()
    master.tick()
    assert len(times) == 2


def test_a_pass_rests_for_as_long_as_it_took_but_not_for_long(master: Master, monkeypatch: pytest.MonkeyPatch) -> None:
    rests: list[float] = []
    monkeypatch.setattr(master.inbox, "rest", rests.append)
    clock = HandClock(1000.0)
    monkeypatch.setattr(master, "_clock", clock)

    def passes(seconds: float) -> float:
        clock.passed += seconds
        return 1.0

    for took in (0.005, 3.0):
        monkeypatch.setattr(master, "_tick", partial(passes, took))
        master.tick()
    assert rests == pytest.approx([0.005, MOST_REST_S])
