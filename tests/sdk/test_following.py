"""What jobs print, and jobs in the foreground, against a peer that speaks the wire."""

from __future__ import annotations

import asyncio
import gc
import math
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mgpu import AsyncClient, Client, JobFailed, Line, NoMaster, Output
from tests.api.elsewhere import until
from tests.client.peer import CUT, Peer, end, job, output, state

RUNS = state("RUNNING")
ENDS = end("COMPLETED", exit_code=0)


def test_output_comes_with_kind_and_rank_each_byte_once(peer: Peer) -> None:
    peer.streams = [[RUNS, output(b"abc"), output(b"e", kind=2), CUT], [RUNS, output(b"bcd", offset=1), ENDS]]
    with Client(peer.path) as client:
        got = list(client.stream(17, rank=0, tail=5))
    assert got == [Output("stdout", 0, b"abc"), Output("stderr", 0, b"e"), Output("stdout", 0, b"d")]
    first = next(path for path in peer.paths() if "stream" in path)
    assert first == "/v1/jobs/17/stream?rank=0&tail=5"


def test_lines_are_cut_for_each_rank_and_stream(peer: Peer) -> None:
    peer.streams = [
        [
            RUNS,
            output(b"one\r\ntw"),
            output(b"other rank\nre", rank=1),
            output(b"o\n\n\xff", offset=7),
            output(b"err", kind=2),
            {"event": "attempt", "attempt": 2},
            output(b"again\n"),
            ENDS,
        ]
    ]
    with Client(peer.path) as client:
        got = list(client.lines(17, since=timedelta(minutes=1)))
    assert [line.text for line in got if line.rank == 0] == ["one", "two", "", "�", "err", "again"]
    assert Line("stdout", 1, "re") in got
    assert any("since=60" in path for path in peer.paths())


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_who_stops_reading_leaves_nothing_behind(peer: Peer) -> None:
    forever = threading.Event()
    peer.streams = [[RUNS, output(b"x"), forever]]
    before = descriptors()
    with Client(peer.path) as client:
        stream = client.stream(17)
        assert next(stream).data == b"x"
        stream.close()  # type: ignore[attr-defined]
    forever.set()
    until("all of it is closed, the peer's ends too", lambda: descriptors() <= before)


def test_a_master_that_stays_away_is_told_once_patience_ends(peer: Peer) -> None:
    peer.streams = [[RUNS, output(b"x"), CUT]]
    with Client(peer.path, patience=0) as client:
        stream = client.stream(17)
        assert next(stream).data == b"x"
        peer.__exit__()
        with pytest.raises(NoMaster, match="did not come back within 0 s"):
            next(stream)


def test_a_job_in_the_foreground(peer: Peer, capfd: pytest.CaptureFixture[str]) -> None:
    peer.streams = [[RUNS, output(b"out\n"), output(b"err\n", kind=2), ENDS]]
    with Client(peer.path) as client:
        completed = client.run(["prog"], gpus=2)
    assert (completed.exit_status, completed.job.state, completed.stdout) == (0, "COMPLETED", b"")
    assert capfd.readouterr() == ("out\n", "err\n")
    body = peer.wait_for("POST", "/v1/jobs")
    assert (body["kind"], body["options"], body["command"]["words"]) == ("srun", {"gpus": "2"}, ["prog"])
    assert any("session=1" in path for path in peer.paths())


def test_its_output_is_kept_and_its_failure_raised(peer: Peer) -> None:
    ends = end("FAILED", exit_code=3, reason="NonZeroExitCode")
    peer.streams = [[RUNS, output(b"out"), output(b"err", kind=2), ends]] * 2
    with Client(peer.path) as client:
        completed = client.run(["prog"], capture_output=True)
        assert (completed.exit_status, completed.stdout, completed.stderr) == (3, b"out", b"err")
        with pytest.raises(JobFailed, match="exit 3") as failed:
            client.run("prog x", capture_output=True, check=True)
    assert failed.value.exit_code == 3
    assert failed.value.completed is not None
    assert failed.value.completed.stderr == b"err"
    assert peer.bodies("POST", "/v1/cancel") == []


@pytest.mark.parametrize("wrong", [{"input": "text"}, {"input": 3}, {"timeout": "5 minutes"}, {"timeout": math.nan}])
def test_what_cannot_be_meant_is_told_before_a_job_is_queued(peer: Peer, wrong: dict[str, Any]) -> None:
    async def run() -> None:
        async with AsyncClient(peer.path) as client:
            await client.run(["prog"], **wrong)

    with Client(peer.path) as client, pytest.raises(TypeError):
        client.run(["prog"], **wrong)
    with pytest.raises(TypeError):
        asyncio.run(run())
    assert peer.bodies("POST", "/v1/jobs") == []


def test_one_whose_input_has_no_room_here_is_cancelled(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    with Client(peer.path) as client, pytest.raises(FileNotFoundError):
        client.run(["prog"], input=b"x")
    assert peer.wait_for("POST", "/v1/cancel")["ids"] == [17]


def test_one_that_takes_too_long_is_cancelled(peer: Peer) -> None:
    forever = threading.Event()
    peer.streams = [[RUNS, output(b"x"), forever]]
    with Client(peer.path) as client, pytest.raises(TimeoutError, match="job 17 did not end within 0 s"):
        client.run(["prog"], capture_output=True, timeout=0)
    forever.set()
    assert peer.wait_for("POST", "/v1/cancel")["ids"] == [17]


def test_whatever_keeps_us_from_staying_cancels_it(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    peer.streams = [[RUNS, output(b"x"), ENDS]]
    monkeypatch.setattr("sys.stdout", None)
    with Client(peer.path) as client, pytest.raises(AttributeError):
        client.run(["prog"])
    assert peer.wait_for("POST", "/v1/cancel")["ids"] == [17]


def test_a_job_that_cannot_be_followed_is_cancelled(peer: Peer) -> None:
    gone = threading.Event()
    gone.set()
    peer.answers["GET", "/v1/status"] = gone  # which is asked before it is followed
    with Client(peer.path) as client, pytest.raises(NoMaster):
        client.run(["prog"])
    assert peer.wait_for("POST", "/v1/cancel")["ids"] == [17]


def test_one_whose_answer_nobody_waited_for_is_taken_back(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with Client(peer.path) as client:
        monkeypatch.setattr(client, "_send", interrupted)
        with pytest.raises(KeyboardInterrupt):
            client.run(["prog"])
    assert peer.wait_for("POST", "/v1/jobs")["command"]["words"] == ["prog"]
    assert peer.wait_for("POST", "/v1/cancel")["ids"] == [17]


def test_what_was_written_so_far(peer: Peer) -> None:
    pieces = {"X-Mgpu-Offset": 0, "X-Mgpu-Size": 3, "X-Mgpu-Complete": 1}
    peer.answers["GET", "/v1/jobs/17/output"] = (200, b"abc", pieces)
    with Client(peer.path) as client:
        assert client.logs(17, "stderr", 1, tail=3) == b"abc"
    assert "stream=stderr&rank=1&tail=3" in peer.paths()[-1]


def test_the_same_with_asyncio(peer: Peer) -> None:
    peer.answers["GET", "/v1/jobs/17"] = job("COMPLETED", exit_code=0)
    peer.streams = [[RUNS, output(b"a\nb"), ENDS], [RUNS, output(b"a\nb"), ENDS], [RUNS, output(b"out"), ENDS]]

    async def look() -> None:
        async with AsyncClient(peer.path) as client:
            made = await client.submit(["prog"], gpus=1)
            assert (made.job_id, made.notices) == (17, ("a notice",))
            assert [item async for item in client.stream(made)] == [Output("stdout", 0, b"a\nb")]
            assert [line.text async for line in client.lines(made)] == ["a", "b"]
            assert (await client.wait(made)).succeeded
            assert (await client.run(["prog"], capture_output=True)).stdout == b"out"
            assert await client.cancel(made) == [17]

    asyncio.run(look())


def test_a_task_that_is_cancelled_ends_its_stream_or_job(peer: Peer) -> None:
    forever = threading.Event()
    peer.streams = [[RUNS, output(b"x"), forever], [RUNS, output(b"x"), forever], [RUNS, output(b"x"), forever]]
    said: list[object] = []

    async def look() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
        async with AsyncClient(peer.path) as client:
            stream = client.stream(17)
            assert (await anext(stream)).data == b"x"
            waits = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(0)
            waits.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waits
            assert peer.bodies("POST", "/v1/cancel") == []
            runs = asyncio.create_task(client.run(["prog"], capture_output=True))
            await asyncio.to_thread(peer.wait_for, "POST", "/v1/jobs")
            runs.cancel()
            with pytest.raises(asyncio.CancelledError):
                await runs
            await asyncio.to_thread(peer.wait_for, "POST", "/v1/cancel")
            before = len(peer.streams)
            runs = asyncio.create_task(client.run(["prog"], capture_output=True))
            await asyncio.to_thread(until, "it is followed", lambda: len(peer.streams) < before)
            runs.cancel()
            with pytest.raises(asyncio.CancelledError):
                await runs
        gc.collect()

    asyncio.run(look())
    assert said == []
    forever.set()
