"""Output arrives in pieces, twice, late or cut: the file is the stream."""

import os
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mgpu.core.errors import StoreError
from mgpu.core.model import JobId, PartKey
from mgpu.store.spool import Spool, SpoolGap

KEY = PartKey(JobId(7), 1, 0)


def test_files_and_folders_are_private(tmp_path):
    os.umask(os.umask(0))  # whatever it is, the modes are ours
    spool = Spool(tmp_path / "spool")
    assert spool.append(KEY, "stdout", 0, b"hello") == 5
    assert spool.append(KEY, "stderr", 0, b"") == 0
    file = tmp_path / "spool" / "7" / "1" / "0.out"
    assert file.read_bytes() == b"hello"
    assert file.stat().st_mode & 0o777 == 0o600
    for folder in file.parents[:3]:
        assert folder.stat().st_mode & 0o777 == 0o700


def test_what_is_there_is_passed_over_and_a_gap_refused(tmp_path):
    spool = Spool(tmp_path)
    assert spool.append(KEY, "stdout", 0, b"abc") == 3
    assert spool.append(KEY, "stdout", 1, b"bcde") == 5
    assert spool.append(KEY, "stdout", 0, b"abc") == 5
    with pytest.raises(SpoolGap) as gap:
        spool.append(KEY, "stdout", 6, b"g")
    assert gap.value.size == 5
    assert spool.read(KEY, "stdout", 0, 100) == b"abcde"
    assert spool.read(KEY, "stdout", 3, 1) == b"d"
    assert spool.read(KEY, "stdout", 5, 9) == b""
    assert spool.size(KEY, "stderr") == 0
    assert spool.read(KEY, "stderr", 0, 9) == b""
    spool.sync(KEY)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=100), st.lists(st.tuples(st.integers(0, 100), st.integers(0, 60)), max_size=12))
def test_any_order_of_overlapping_pieces_gives_the_stream(tmp_path_factory, stream, pieces):
    spool = Spool(tmp_path_factory.mktemp("spool"))
    size = 0
    for offset, length in [*pieces, (0, len(stream))]:
        piece = stream[min(offset, size) :][:length]
        size = spool.append(KEY, "stdout", min(offset, size), piece)
    assert spool.read(KEY, "stdout", 0, 1000) == stream


def test_threads_that_bring_the_same_stream_do_not_double_it(tmp_path):
    spool = Spool(tmp_path)
    stream = os.urandom(20_000)

    def bring(step):
        for offset in range(0, len(stream), step):
            spool.append(KEY, "stdout", offset, stream[offset : offset + step])

    threads = [threading.Thread(target=bring, args=(step,)) for step in (501, 1003)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert spool.read(KEY, "stdout", 0, 1 << 20) == stream


def test_subscribers_are_called_until_they_leave(tmp_path):
    spool = Spool(tmp_path)
    calls = []

    callback = calls.append
    spool.subscribe(KEY.job_id, callback)
    spool.append(KEY, "stdout", 0, b"x")
    spool.notify(KEY.job_id)
    spool.notify(JobId(8))
    assert calls == [False, True]  # whether more than output has come
    spool.unsubscribe(KEY.job_id, callback)
    spool.unsubscribe(KEY.job_id, callback)
    spool.append(KEY, "stdout", 1, b"y")
    assert len(calls) == 2


def test_a_disk_that_refuses_is_a_store_error(tmp_path):
    (tmp_path / "7").write_text("a file where a folder should be")
    with pytest.raises(StoreError, match="Not a directory"):
        Spool(tmp_path).append(KEY, "stdout", 0, b"x")


# --- the limit ------------------------------------------------------------------------------------------------------


def brought(spool: Spool, stream: bytes, step: int) -> bytes:
    """What is kept of a stream that comes in pieces, from where the spool stands, then once more as a whole."""
    for _ in range(0, len(stream), step):
        offset = spool.size(KEY, "stdout")
        spool.append(KEY, "stdout", offset, stream[offset : offset + step])
    spool.append(KEY, "stdout", 0, stream)
    return spool.read(KEY, "stdout", 0, 1000)


@pytest.mark.parametrize("step", [1, 4, 7, 100])
@pytest.mark.parametrize(
    ("stream", "kept"),
    [
        (b"12345\n789", b"12345\n789"),
        (b"12345\n7890", b"12345\n7890"),
        (b"12345\n78901", b"12345\n7890\n[mgpu: output beyond 10 bytes was not kept]\n"),
        (b"123456789\n" * 3, b"123456789\n[mgpu: output beyond 10 bytes was not kept]\n"),
        (b"1234567890" * 10, b"1234567890\n[mgpu: output beyond 10 bytes was not kept]\n"),
    ],
)
def test_a_stream_beyond_the_limit_is_cut_with_a_last_line(tmp_path, stream, kept, step):
    spool = Spool(tmp_path, limit=10)
    assert brought(spool, stream, step) == kept
    assert spool.cut(KEY, "stdout") is (len(stream) > 10)
    assert spool.has(KEY, "stdout", len(stream))
    assert not spool.cut(KEY, "stderr")


@pytest.mark.parametrize("limit", [0, 5, 1000])
def test_what_was_cut_stays_cut_under_another_limit(tmp_path, limit):
    kept = brought(Spool(tmp_path, limit=10), b"x" * 30, 7)
    assert brought(Spool(tmp_path, limit), b"x" * 90, 8) == kept


def test_a_lower_limit_keeps_what_is_there(tmp_path):
    whole = b"x" * 30
    assert brought(Spool(tmp_path), whole, 30) == whole
    spool = Spool(tmp_path, limit=10)
    assert brought(spool, whole, 8) == whole
    assert spool.has(KEY, "stdout", 30)
    assert not spool.has(KEY, "stdout", 31)
    spool.append(KEY, "stdout", 30, b"y")
    assert spool.read(KEY, "stdout", 0, 100) == whole + b"\n[mgpu: output beyond 30 bytes was not kept]\n"
    assert spool.has(KEY, "stdout", 31)


def test_a_last_line_of_which_a_part_is_missing_is_completed(tmp_path):
    spool = Spool(tmp_path, limit=10)
    kept = brought(spool, b"x" * 30, 30)
    file = tmp_path / "7/1/0.out"
    for length in range(10, len(kept)):
        os.truncate(file, length)
        assert not spool.cut(KEY, "stdout")
        assert not spool.has(KEY, "stdout", 30)
        spool.append(KEY, "stdout", length, b"")
        assert spool.read(KEY, "stdout", 0, 100) == kept
        assert spool.has(KEY, "stdout", 30)


def test_what_cannot_be_looked_at_is_a_store_error(tmp_path):
    """Not an error of another kind, that nobody who fetches output expects."""
    spool = Spool(tmp_path / "7")
    (tmp_path / "7").write_text("a file where a folder should be")
    for look in (spool.size, spool.cut, lambda *key: spool.has(*key, 1), lambda *key: spool.read(*key, 0, 1)):
        with pytest.raises(StoreError, match="Not a directory"):
            look(KEY, "stdout")
    with pytest.raises(StoreError, match="Not a directory"):
        spool.sync(KEY)
