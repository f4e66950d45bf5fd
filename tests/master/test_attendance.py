"""Jobs that end when nobody is with them any more."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mgpu.core.model import Command, CommandForm, Job, JobId, JobKind, JobSpec, JobState, Request
from mgpu.master.attendance import LONGEST_PAUSE_S, Attendance
from mgpu.store.spool import Spool
from mgpu.store.store import Store
from tests.clocks import HandClock


class Desk:
    def __init__(self, folder: Path) -> None:
        self.clock = HandClock(1e9, 100.0)
        self.store = Store.open(folder / "mgpu.db")
        self.spool = Spool(folder / "spool")
        self.woken = threading.Event()
        self.attendance = self.begin()

    def begin(self) -> Attendance:
        """A master's own; the first one, or one after a restart."""
        self.attendance = Attendance(self.store, self.spool, self.clock, self.woken.set)  # type: ignore[arg-type]
        self.attendance.load()
        return self.attendance

    def submit(self, number: int, limit: int | None, **more: object) -> JobId:
        command = Command(CommandForm.ARGV, ("true",))
        spec = JobSpec(command, Request(gpus=1), "x", JobKind.SRUN, client_absence_s=limit)
        job = Job(JobId(0), f"{number:08d}", "alice", 1000, spec, JobState.PENDING, 0.0)
        with self.store.write() as writer:
            job_id, _ = writer.add_job(replace(job, **more))  # type: ignore[arg-type]
        self.attendance.expect(self.job(job_id))
        return job_id

    def job(self, job_id: JobId) -> Job:
        with self.store.read() as reader:
            job = reader.job(job_id)
        assert job is not None
        return job

    def after(self, seconds: float) -> float:
        self.clock.passed += seconds
        return self.attendance.end_abandoned()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.store.close()


def test_one_whose_client_never_comes_is_taken_off_the_queue(desk: Desk) -> None:
    job_id, other = desk.submit(1, 30), desk.submit(2, None)
    assert desk.after(10) == 20
    assert desk.after(20) == LONGEST_PAUSE_S
    job = desk.job(job_id)
    assert (job.state, job.reason) == (JobState.CANCELLED, "Cancelled")
    assert job.detail == "cancelled by mgpu: no client was connected for 30 s (--kill-on-disconnect)"
    assert desk.job(other).state is JobState.PENDING


def test_one_that_runs_is_wanted_to_end(desk: Desk) -> None:
    job_id = desk.submit(1, 30, state=JobState.RUNNING, attempt=1)
    desk.after(30)
    job = desk.job(job_id)
    assert job.state is JobState.RUNNING
    assert job.stop.startswith("CANCEL by mgpu: no client was connected for 30 s")
    with desk.store.read() as reader:
        assert [entry.what for entry in reader.audits(job_id=job_id)] == ["cancel"]


def test_while_one_of_its_clients_is_there_it_goes_on(desk: Desk) -> None:
    job_id = desk.submit(1, 30)
    desk.attendance.attend(job_id, True)
    desk.after(1000)
    desk.attendance.attend(job_id, True)
    desk.attendance.attend(job_id, False)
    desk.after(1000)
    desk.woken.clear()
    desk.attendance.attend(job_id, False)
    assert desk.woken.is_set()  # the pass has to know when it is due
    assert desk.after(20) == 10
    desk.attendance.attend(job_id, True)  # somebody came back in time
    desk.after(20)
    desk.attendance.attend(job_id, False)
    assert desk.after(29) == 1
    assert desk.job(job_id).state is JobState.PENDING
    desk.after(1)
    assert desk.job(job_id).state is JobState.CANCELLED


def test_after_a_restart_the_absence_counts_from_there(desk: Desk) -> None:
    """All clients were cut off, and nobody's fault it was."""
    job_id, over = desk.submit(1, 30), desk.submit(2, 30, state=JobState.FAILED)
    desk.attendance.attend(job_id, True)
    desk.after(1000)
    desk.begin()
    assert desk.after(29) == 1
    desk.after(1)
    assert desk.job(job_id).state is JobState.CANCELLED
    assert desk.job(over).state is JobState.FAILED


def test_one_that_has_ended_is_forgotten(desk: Desk) -> None:
    job_id = desk.submit(1, 30)
    with desk.store.write() as writer:
        writer.save_job(replace(desk.job(job_id), state=JobState.COMPLETED))
    assert desk.after(31) == LONGEST_PAUSE_S
    assert desk.job(job_id).state is JobState.COMPLETED
    assert desk.after(1) == LONGEST_PAUSE_S
