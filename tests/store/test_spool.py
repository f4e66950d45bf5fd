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

    def callback():
        calls.append(1)

    spool.subscribe(KEY.job_id, callback)
    spool.append(KEY, "stdout", 0, b"x")
    spool.notify(KEY.job_id)
    spool.notify(JobId(8))
    assert len(calls) == 2
    spool.unsubscribe(KEY.job_id, callback)
    spool.unsubscribe(KEY.job_id, callback)
    spool.append(KEY, "stdout", 1, b"y")
    assert len(calls) == 2


def test_a_disk_that_refuses_is_a_store_error(tmp_path):
    (tmp_path / "7").write_text("a file where a folder should be")
    with pytest.raises(StoreError, match="Not a directory"):
        Spool(tmp_path).append(KEY, "stdout", 0, b"x")
