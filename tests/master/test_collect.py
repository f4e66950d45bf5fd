"""By which way the rest of an ended job's output comes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mgpu.core.model import AttemptState, JobId, PartKey
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
