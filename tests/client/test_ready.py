from __future__ import annotations

import fcntl
import os
import resource
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mgpu.client.job_stream import JobStream, Output
from mgpu.client.locate import locate
from mgpu.client.master import Master
from mgpu.client.ready import FD_SETSIZE, ready
from tests.client.peer import Peer, end, output, state

HIGH = FD_SETSIZE + 100


@pytest.fixture(params=[0, HIGH], ids=["low", "high"])
def pipe(request: pytest.FixtureRequest) -> Iterator[tuple[int, int]]:
    """Both ends, with numbers of at least so much."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= hard < 2 * HIGH:
        pytest.skip("no more files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * HIGH), hard))
    first = os.pipe()
    found = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, request.param) for each in first]
    yield found[0], found[1]
    for each in (*first, *found):
        os.close(each)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_nothing_comes(pipe: tuple[int, int]) -> None:
    assert ready([pipe[0]], timeout_s=0) == ([], [])
    assert ready([pipe[0]], timeout_s=0.01) == ([], [])


def test_what_can_be_read_and_written(pipe: tuple[int, int]) -> None:
    assert ready([pipe[0]], [pipe[1]]) == ([], [pipe[1]])
    os.write(pipe[1], b"x")
    assert ready([pipe[0]], [pipe[1]]) == ([pipe[0]], [pipe[1]])
    assert ready([pipe[0]]) == ([pipe[0]], [])


def test_an_end_is_something_to_read(pipe: tuple[int, int]) -> None:
    reader, writer = os.pipe()
    high = fcntl.fcntl(reader, fcntl.F_DUPFD_CLOEXEC, pipe[0])
    os.close(writer)
    assert ready([high]) == ([high], [])
    os.close(reader)
    os.close(high)


def test_a_job_is_followed_by_a_program_with_many_files(tmp_path: Path, pipe: tuple[int, int]) -> None:
    later = threading.Event()
    threading.Timer(0.3, later.set).start()
    with Peer(tmp_path / "m.sock") as peer:
        peer.streams = [[state("RUNNING"), later, output(b"x"), end("COMPLETED")]]
        location = locate(None, None, peer.path, {}, lambda _config: "")
        seen = [item for item in JobStream(Master(location), 17).items(pipe[0]) if isinstance(item, Output)]
    assert [item.data for item in seen] == [b"x"]
