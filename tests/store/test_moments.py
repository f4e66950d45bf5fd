"""From where on output came since a moment, and where its last lines begin."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgpu import clock
from mgpu.core.model import JobId, PartKey
from mgpu.store import moments
from mgpu.store.spool import Spool

KEY = PartKey(JobId(7), 1, 0)
START = 1_000_000.0


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock: its last value."""
    times = [START]
    monkeypatch.setattr(clock, "now", lambda: times[-1])
    return times


def written(spool: Spool, now: list[float], *pieces: tuple[float, bytes]) -> None:
    size = 0
    for at, data in pieces:
        now.append(START + at)
        size = spool.append(KEY, "stdout", size, data)


def test_what_came_since_a_moment(tmp_path: Path, now: list[float]) -> None:
    spool = Spool(tmp_path)
    written(spool, now, (0, b"0123"), (60, b"456"), (120, b"789"))
    found = [spool.since(KEY, "stdout", START + at) for at in (-100, 0, 30, 60, 90, 120)]
    assert found == [0, 0, 4, 4, 7, 7]
    assert spool.since(KEY, "stdout", START + 500) == 10  # nothing: the end
    assert spool.since(KEY, "stderr", START) == 0


def test_a_busy_stream_has_a_row_for_some_seconds(tmp_path: Path, now: list[float]) -> None:
    spool = Spool(tmp_path)
    written(spool, now, *((tenth / 10, b"x") for tenth in range(1000)))
    index = tmp_path / "7" / "1" / "0.out.times"
    assert index.stat().st_mode & 0o777 == 0o600
    assert index.stat().st_size == 16 * 100 / moments.PERIOD_S
    for at in range(10, 100):  # never less than what came since, at most some seconds more
        offset = spool.since(KEY, "stdout", START + at)
        assert 0 <= 10 * at - offset <= 10 * moments.PERIOD_S


def test_another_master_goes_on_with_the_index(tmp_path: Path, now: list[float]) -> None:
    written(Spool(tmp_path), now, (0, b"abc"))
    index = tmp_path / "7" / "1" / "0.out.times"
    index.write_bytes(index.read_bytes() + b"cut short")  # by a full disk
    now.append(START + 60)
    spool = Spool(tmp_path)
    spool.append(KEY, "stdout", 3, b"def")
    assert spool.since(KEY, "stdout", START + 60) == 3


def test_output_of_a_master_that_kept_no_index_is_all_or_nothing(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.append(KEY, "stdout", 0, b"old")
    (tmp_path / "7" / "1" / "0.out.times").unlink()
    os.utime(tmp_path / "7" / "1" / "0.out", (START, START))
    assert [spool.since(KEY, "stdout", START + by) for by in (-1, 1)] == [0, 3]


def test_an_index_that_cannot_be_written_keeps_no_output_back(tmp_path: Path) -> None:
    folder = tmp_path / "7" / "1"
    folder.mkdir(parents=True)
    (folder / "0.out.times").symlink_to("/dev/full")
    assert Spool(tmp_path).append(KEY, "stdout", 0, b"abc") == 3


@given(st.lists(st.sampled_from([b"", b"a", b"bb", b"c" * 70_000]), max_size=6), st.booleans(), st.integers(0, 8))
def test_the_last_lines(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], ended: bool, count: int) -> None:
    spool = Spool(tmp_path_factory.mktemp("spool"))
    data = b"\n".join(lines) + (b"\n" if ended and lines else b"")
    spool.append(KEY, "stdout", 0, data)
    kept = data.splitlines(keepends=True)[-count:] if count else []
    assert data[spool.tail(KEY, "stdout", count) :] == b"".join(kept)
