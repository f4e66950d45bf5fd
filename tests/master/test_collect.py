"""By which way the rest of an ended job's output comes, and what is remembered of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mgpu.core.model import AttemptState, JobId, JobKind, NodeName, Part, PartKey
from mgpu.master.board import Board, Running
from mgpu.master.collect import STALLS_S, Collector, Follower
from mgpu.master.inbox import Collected, Inbox
from mgpu.master.links import Links
from mgpu.remote.errors import RemoteError, Trouble
from mgpu.store.spool import Spool

KEY = PartKey(JobId(1), 1, 0)
ENDED: Any = SimpleNamespace(key=KEY, state=AttemptState.ENDED)


def collector(folder: Path) -> tuple[Collector, Spool, Follower, list[int]]:
    spool, full = Spool(folder), [0]

    def told() -> None:
        full[0] += 1

    link: Any = None
    made = Collector(Links({}), spool, Inbox(), link)
    follower = made._followers[KEY] = Follower(link, KEY, spool, told)
    return made, spool, follower, full


def test_who_followed_it_brings_the_rest(tmp_path: Path) -> None:
    made, spool, follower, full = collector(tmp_path)
    sink = follower._sink("stdout", 0)
    sink(b"abc")
    assert not made.drained(KEY, (6, 0))
    assert made._comes(ENDED, 10.0)
    sink(b"de")
    assert made._comes(ENDED, 10.0 + STALLS_S)  # two bytes more
    assert full == [0]
    sink(b"f")
    assert full == [1]
    assert not made._comes(ENDED, 10.0 + STALLS_S)  # all is here: it only has to be brought to the disk
    assert made.drained(KEY, (6, 0))
    assert spool.read(KEY, "stdout", 0, 100) == b"abcdef"


def test_what_stalls_is_fetched(tmp_path: Path) -> None:
    made, _spool, follower, _full = collector(tmp_path)
    follower._sink("stdout", 0)(b"abc")
    assert not made.drained(KEY, (6, 0))
    assert made._comes(ENDED, 10.0)
    assert made._comes(ENDED, 10.0 + STALLS_S / 2)
    assert not made._comes(ENDED, 10.0 + STALLS_S)


def test_without_one_who_follows_or_a_size_it_is_fetched(tmp_path: Path) -> None:
    made, _spool, follower, _full = collector(tmp_path)
    assert not made._comes(ENDED, 10.0)
    assert not made.drained(KEY, (6, 0))
    follower.alive = False
    assert not made._comes(ENDED, 10.0)


class Bulk:
    """A link whose node has this much of one part's output. Counts what is asked of it."""

    def __init__(self, output: bytes) -> None:
        self.output, self.reads = output, 0
        self.bulk = self.runner = self
        self.name = "node001"

    def do(self, task: Callable[[], None]) -> None:
        task()

    def read(self, _name: str, stream: str, offset: int) -> tuple[bytes, int]:
        self.reads += 1
        output = self.output if stream == "stdout" else b""
        return output[offset:], len(output)


def test_of_what_runs_is_fetched_what_a_look_tells_of(tmp_path: Path) -> None:
    spool, node = Spool(tmp_path), Bulk(b"abc")
    links: Any = SimpleNamespace(of=lambda _part: node)
    nobody: Any = None
    made = Collector(links, spool, Inbox(), nobody)
    item = SimpleNamespace(job=SimpleNamespace(spec=SimpleNamespace(kind=JobKind.BATCH), job_id=JobId(1)))
    part = SimpleNamespace(key=KEY, state=AttemptState.RUNNING, started=1.0, collected=False, owes_fence=False)
    board: Any = SimpleNamespace(parts=lambda: [(item, part)])

    def after(*sizes: int) -> bytes:
        made.seen({KEY: (sizes[0], sizes[1])})
        made.collect(board, 10.0)
        return spool.read(KEY, "stdout", 0, 100)

    assert (after(0, 0), node.reads) == (b"", 0)
    assert after(2, 0) == b"abc"  # what was written since as well
    reads = node.reads
    assert (after(3, 0), node.reads) == (b"abc", reads)
    node.output = b"abcdef"
    assert after(6, 0) == b"abcdef"


def test_it_brings_what_can_be_asked_for(tmp_path: Path) -> None:
    spool, node = Spool(tmp_path), Bulk(b"abc")
    links: Any = SimpleNamespace(of=lambda part: node if part.key == KEY else None)
    nobody: Any = None
    made = Collector(links, spool, Inbox(), nobody)
    away = PartKey(JobId(1), 1, 1)
    parts: list[Any] = [
        SimpleNamespace(key=key, state=AttemptState.ENDED, started=1.0, collected=False) for key in (KEY, away)
    ]
    assert made.bring(parts) == {KEY: True}
    assert spool.read(KEY, "stdout", 0, 100) == b"abc"
    node.read = lambda *_: (b"", 3)  # type: ignore[method-assign]
    spool.forget(JobId(1))
    assert made.bring(parts) == {KEY: False}


# --- what is remembered of parts, and trouble with one of them -------------------------------------------------------


class Late:
    """A line whose tasks wait until they are asked for."""

    def __init__(self) -> None:
        self.tasks: list[Callable[[], None]] = []

    def do(self, task: Callable[[], None]) -> None:
        self.tasks.append(task)

    def run(self) -> None:
        while self.tasks:
            self.tasks.pop(0)()


class Node:
    """With so many bytes of each stream, or `trouble` in their place."""

    def __init__(self, stream: bytes = b"", trouble: Exception | None = None) -> None:
        self.stream = stream
        self.trouble = trouble

    def read(self, _name: str, _stream: str, offset: int) -> tuple[bytes, int]:
        if self.trouble:
            raise self.trouble
        return self.stream[offset:], len(self.stream)


def part_of(job_id: int, state: AttemptState = AttemptState.RUNNING, **more: Any) -> Part:
    return Part(JobId(job_id), 1, 0, NodeName("a"), "", (), (), state, started=1.0, **more)


def board_of(*parts: Part) -> Board:
    job: Any = {part.job_id: SimpleNamespace(job_id=part.job_id, spec=SPEC, attempt=1) for part in parts}
    attempt: Any = SimpleNamespace(number=1)
    return Board(Running(job[part.job_id], attempt, (part,)) for part in parts)


SPEC = SimpleNamespace(kind=JobKind.BATCH)


def on_a_node(folder: Path, node: Node) -> tuple[Collector, Late, Inbox]:
    line, inbox = Late(), Inbox()
    link: Any = SimpleNamespace(name="a", account="", whose=(), bulk=line, runner=node)
    threads: Any = None
    return Collector(Links({NodeName("a"): link}), Spool(folder), inbox, threads), line, inbox


def test_of_parts_that_are_done_with_nothing_is_remembered(tmp_path: Path) -> None:
    node = Node(b"abc")
    made, line, _inbox = on_a_node(tmp_path, node)
    for number in range(1, 50):
        node.trouble = RemoteError("gone", Trouble.GONE) if number % 2 else None
        made.seen({part_of(number).key: (3, 3)})
        made.collect(board_of(part_of(number)), 10.0 * number)
        line.run()
        made.drained(part_of(number).key, (6, 6))
        made.collect(board_of(part_of(number, AttemptState.ENDED)), 10.0 * number)
        line.run()
    made.collect(board_of(), 1000.0)
    kept = {name: value for name, value in vars(made).items() if isinstance(value, dict | set) and value}
    assert kept == {}


@pytest.mark.parametrize("fault", [ZeroDivisionError(), RemoteError("gone", Trouble.GONE), RemoteError("no way there")])
def test_whatever_befell_one_turn_the_next_one_comes(tmp_path: Path, fault: Exception) -> None:
    node = Node(b"abc", fault)
    made, line, inbox = on_a_node(tmp_path, node)
    ended = board_of(part_of(1, AttemptState.ENDED))
    made.collect(ended, 0.0)
    with contextlib.suppress(ZeroDivisionError):  # which its worker logs
        line.run()
    inbox.take()
    node.trouble = None
    made.collect(ended, 100.0)
    line.run()
    assert inbox.take() == [Collected(part_of(1).key)]


def test_files_of_one_part_that_cannot_be_used_hold_up_no_other(tmp_path: Path) -> None:
    (tmp_path / "1").write_text("where a folder should be")
    made, line, inbox = on_a_node(tmp_path, Node(b"abc"))
    made.watch(JobId(1), True)
    made.collect(board_of(part_of(1), part_of(2, AttemptState.ENDED)), 0.0)
    line.run()
    assert inbox.take() == [Collected(part_of(2).key)]


def test_one_whose_files_cannot_be_used_ends_to_follow(tmp_path: Path) -> None:
    (tmp_path / "1").write_text("where a folder should be")
    link: Any = SimpleNamespace(name="a")
    follower = Follower(link, KEY, Spool(tmp_path), lambda: None)
    follower.stop()
    follower.run()
    assert not follower.alive


def test_what_is_asked_for_again_and_again_waits_once(tmp_path: Path) -> None:
    made, line, _inbox = on_a_node(tmp_path, Node(b"abc"))
    link: Any = made._links[NodeName("a")]
    first = made._bring(link, KEY)
    assert made._bring(link, KEY) is first
    assert len(line.tasks) == 1
    line.run()
    assert first.result()
    assert made._bring(link, KEY) is not first
