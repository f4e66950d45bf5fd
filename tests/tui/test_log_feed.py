"""Output that comes faster than it can be put into lines, and the end of following it."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from mgpu.client.http import Endpoint
from mgpu.client.job_stream import Event, JobStream, Output
from mgpu.client.locate import Location
from mgpu.client.master import Master
from mgpu.tui import log_feed
from mgpu.tui.log_feed import CLOSED, Intake, LogFeed
from mgpu.tui.log_text import LogText
from tests.client.peer import Peer, end, output, state

PATIENCE_S = 20.0


def test_of_what_waits_too_long_the_oldest_output_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_feed, "MOST_WAITING_B", 10)
    monkeypatch.setattr(log_feed, "KEPT_WAITING_B", 5)
    intake = Intake()
    attempt = Event("attempt", {"attempt": 1})
    intake.put(Output(1, 0, b"first"))
    intake.put(attempt)
    intake.put(Output(2, 1, b"other"))
    intake.put(Output(1, 0, b"later"))
    assert intake.take() == (attempt, {(1, 0): 5, (2, 1): 5})  # of events none is
    assert intake.take() == (((1, 0), b"later"), {})
    intake.put(Output(1, 0, b"last"))
    assert intake.take() == (((1, 0), b"last"), {})


def test_nothing_is_taken_once_it_is_closed() -> None:
    intake = Intake()
    intake.put(Output(1, 0, b"never seen"))
    intake.close()
    assert intake.take() == (CLOSED, {})


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


class Followed:
    """A log that is followed. `told` is set with each news."""

    def __init__(self, peer: Peer) -> None:
        self.text = LogText()
        self.news = threading.Condition()
        master = Master(Location("", "", Endpoint(peer.path, None, (os.getuid(),)), False), start_if_missing=False)
        self.feed = LogFeed(JobStream(master, 17), self.text, self._told)
        self.feed.start()

    def _told(self) -> None:
        with self.news:
            self.news.notify_all()

    def lines(self) -> list[str]:
        return [line.text for line in self.text.taken()[0]]

    def await_line(self, text: str) -> list[str]:
        with self.news:
            assert self.news.wait_for(lambda: text in self.lines(), PATIENCE_S), self.lines()
        return self.lines()


@pytest.fixture
def peer(tmp_path: Path) -> Any:
    with Peer(tmp_path / "socket") as made:
        yield made


def test_what_is_left_out_is_told_where_it_happens(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, first = threading.Event(), threading.Event()
    feeding = LogText.feed

    def slowly(self: LogText, source: tuple[int, int], data: bytes) -> None:
        begun.set()
        first.wait(PATIENCE_S)
        feeding(self, source, data)

    monkeypatch.setattr(LogText, "feed", slowly)
    monkeypatch.setattr(log_feed, "MOST_WAITING_B", 3000)
    monkeypatch.setattr(log_feed, "KEPT_WAITING_B", 1500)
    arrived = threading.Event()
    pieces = [b"%03d %s\n" % (number, b"x" * 995) for number in range(20)]
    outputs = [output(piece, offset=1000 * at) for at, piece in enumerate(pieces)]
    stream = [state("RUNNING"), outputs[0], begun, *outputs[1:], arrived, end("COMPLETED")]
    peer.streams = [stream]
    followed = Followed(peer)
    deadline = time.monotonic() + PATIENCE_S
    while not any(item[1] == pieces[-1] for item in list(followed.feed._intake._items)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    first.set()
    arrived.set()
    lines = followed.await_line("job 17 COMPLETED")
    shown = [line[:3] for line in lines if line.endswith("x")]
    told = [line for line in lines if "left out here" in line]
    assert shown[0] == "000"
    assert shown[-1] == "019"
    assert len(shown) < 20
    assert told
    assert lines.index(told[0]) == 1
    followed.feed.close()


def test_a_feed_that_is_closed_leaves_nothing_open(peer: Peer) -> None:
    held = threading.Event()
    peer.streams = [[state("RUNNING"), output(b"begun\n"), held]]
    before = {thread.ident for thread in threading.enumerate()}
    open_before = open_files()
    followed = Followed(peer)
    followed.await_line("begun")
    ours = [thread for thread in threading.enumerate() if thread.ident not in before and thread.name == "mgpu-top-log"]
    assert len(ours) == 2
    followed.feed.close()
    for thread in ours:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    held.set()
    for thread in peer._threads[1:]:
        thread.join(PATIENCE_S)
    assert open_files() <= open_before
