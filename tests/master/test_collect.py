"""By which way the rest of an ended job's output comes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mgpu.core.model import AttemptState, JobId, JobKind, PartKey
from mgpu.master.collect import STALLS_S, Collector, Follower
from mgpu.master.inbox import Inbox
from mgpu.master.links import Links
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
