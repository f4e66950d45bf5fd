"""Signals on their way to nodes: what comes of them, whatever a node does."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from mgpu.core.model import (
    Attempt,
    AttemptState,
    Command,
    CommandForm,
    Job,
    JobId,
    JobKind,
    JobSpec,
    JobState,
    NodeName,
    Part,
    Request,
)
from mgpu.master import signalling
from mgpu.master.link import Known
from mgpu.master.links import Links
from mgpu.master.signalling import Signaller
from mgpu.remote.errors import RemoteError
from mgpu.store.store import Store

NODES = [NodeName(f"n{number}") for number in range(3)]


class Line:
    """The narrow part of a link that is used here: answers as it was told to."""

    def __init__(self, answer: str | RemoteError | None) -> None:
        self.answer = answer  # None = none comes
        self.sent: list[tuple[str, str]] = []
        self.waiting: list[Future[str]] = []

    def signal(self, known: Known, word: str, told: Future[str]) -> None:
        self.sent.append((known.token, word))
        if self.answer is None:
            self.waiting.append(told)
        elif isinstance(self.answer, RemoteError):
            told.set_exception(self.answer)
        else:
            told.set_result(self.answer)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store.open(tmp_path / "mgpu.db")
    yield made
    made.close()


def running(store: Store, *states: AttemptState) -> JobId:
    """A job with a part of each state, one a node."""
    spec = JobSpec(Command(CommandForm.ARGV, ("true",)), Request(gpus=0), "x", JobKind.SRUN)
    with store.write() as w:
        job_id, _ = w.add_job(Job(JobId(0), "a" * 8, "alice", 1000, spec, JobState.RUNNING, 0.0, attempt=1))
        parts = [
            Part(job_id, 1, rank, NODES[rank], "train", (), (), state, reason="cut off" * (state is AttemptState.LOST))
            for rank, state in enumerate(states)
        ]
        w.add_attempt(Attempt(job_id, 1, "ab" * 16, AttemptState.RUNNING, 0.0), [replace(part) for part in parts])
    return job_id


def send(store: Store, job_id: JobId, *lines: Line, word: str = "S:10") -> str:
    links = dict(zip(NODES, lines, strict=False))
    return Signaller(store, Links(links)).send([(job_id, word)])[job_id]  # type: ignore[arg-type]


def test_each_node_of_the_job_is_told(store: Store) -> None:
    job_id = running(store, AttemptState.RUNNING, AttemptState.STOPPING, AttemptState.ENDED)
    lines = [Line("sent"), Line("ended"), Line("sent")]
    assert send(store, job_id, *lines) == ""
    assert [line.sent for line in lines] == [[("ab" * 16, "S:10")], [(f"{'ab' * 16}0001", "S:10")], []]


def test_one_for_rank_0_alone(store: Store) -> None:
    job_id = running(store, AttemptState.RUNNING, AttemptState.RUNNING)
    lines = [Line("sent"), Line("sent")]
    assert send(store, job_id, *lines, word="R:B:10") == ""
    assert [line.sent for line in lines] == [[("ab" * 16, "B:10")], []]


def test_one_that_nobody_got_says_why(store: Store) -> None:
    job_id = running(store, AttemptState.RUNNING, AttemptState.RUNNING)
    assert send(store, job_id, Line("early"), Line("ended")) == "its command has not begun yet"
    assert send(store, job_id, Line("ended"), Line("ended")) == "its command has ended"
    assert send(store, job_id, Line("sent"), Line(RemoteError("no room"))) == "not sent to n1: no room"
    assert send(store, job_id, Line("sent")) == "not sent to n1: it is no longer in the inventory"


def test_what_is_lost_from_sight_is_not_asked(store: Store) -> None:
    job_id = running(store, AttemptState.LOST)
    line = Line("sent")
    assert send(store, job_id, line) == "not sent to n0: cut off"
    assert line.sent == []


def test_what_does_not_answer_in_time_is_never_sent_later(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signalling, "SEND_S", 0.01)
    line = Line(None)
    assert send(store, running(store, AttemptState.RUNNING), line) == "not sent to n0: no answer within 0.01 s"
    assert line.waiting[0].set_running_or_notify_cancel() is False


def test_a_job_that_is_gone(store: Store) -> None:
    assert send(store, JobId(99)) == "its command has ended"
