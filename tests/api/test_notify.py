"""`notify:` its command, run for real: what it is told, what becomes of it when it fails; nothing is missed."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep

import pytest

from mgpu import clock
from mgpu.config.model import Notify
from mgpu.core.model import Audit, JobId, JobState, NodeName
from mgpu.master import notifying, outside
from mgpu.master.notifying import Notifier
from mgpu.store import notified
from tests.api.conftest import Served

KEEPS = """#!/bin/sh
# keeps each document, at once or not at all
t=$(mktemp "{folder}/.XXXXXX") && cat > "$t" && mv "$t" "{folder}/$(date +%s%N).$$"
"""


class Told:
    """Who is told, with the master that tells."""

    def __init__(self, served: Served, folder: Path) -> None:
        self.served = served
        self.folder = folder / "told"
        self.folder.mkdir()
        self.script = self.write(KEEPS.format(folder=self.folder))
        self.notifier: Notifier | None = None

    def write(self, text: str, name: str = "tell") -> Path:
        path = self.folder.parent / name
        path.write_text(text)
        path.chmod(0o700)
        return path

    def start(self, *events: str, command: tuple[str, ...] | None = None, **changes: object) -> None:
        wanted = replace(Notify(command or (str(self.script),), events, retries=0), **changes)  # type: ignore[arg-type]
        self.start_with(wanted)

    def start_with(self, wanted: Notify | None) -> None:
        self.notifier = Notifier(replace(self.served.context, config=replace(self.served.config, notify=wanted)))
        self.notifier.start()

    def stop(self) -> None:
        if self.notifier is not None:
            self.notifier.stop()
            self.notifier = None

    def documents(self) -> list[dict]:
        found = [json.loads(path.read_text()) for path in self.folder.iterdir() if path.name[0] != "."]
        return sorted(found, key=lambda one: one["id"])

    def wait(self, count: int) -> list[dict]:
        deadline = monotonic() + 30
        while len(self.documents()) < count:
            assert monotonic() < deadline, self.documents()
            sleep(0.02)
        return self.documents()

    def end(self, job_id: JobId, state: JobState, code: int) -> None:
        with self.served.store.write() as writer:
            job = writer.job(job_id)
            now = clock.now()
            over = replace(job, state=state, attempt=1, start_time=now, end_time=now, exit_code=code)
            writer.save_job(over, job)

    def say(self, what: str, node: str) -> None:
        with self.served.store.write() as writer:
            writer.audit(Audit(clock.now(), "master", what, None, NodeName(node), "why"))

    def cursor(self) -> int:
        with self.served.store.read() as reader:
            return notified.cursor(reader)


@pytest.fixture
def told(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    monkeypatch.setattr(notifying, "AGAIN_S", 0.01)
    made = Told(served, tmp_path)
    yield made
    made.stop()


def test_an_event_is_one_document(told):
    told.start("failed", "node_down")
    job_id = told.served.submit(job_name="train", mail_type="END", mail_user="ann@example.org")
    told.end(job_id, JobState.FAILED, 3)
    told.say("node DOWN", "gpu02")
    failed, down = told.wait(2)
    assert (failed["event"], failed["state"], failed["cluster"], failed["by"]) == ("failed", "FAILED", "mgpu", "master")
    assert failed["job"]["job_id"] == job_id
    assert (failed["job"]["name"], failed["job"]["exit_code"]) == ("train", 3)
    assert failed["mail"] == {"user": "ann@example.org", "type": "END"}
    assert "echo" not in json.dumps(failed)  # its command is nobody's business
    assert (down["event"], down["job"], down["mail"]) == ("node_down", None, None)
    assert down["node"] == {"node_id": "gpu02", "state": "UP", "reason": "why"}


def test_who_asked_is_told_and_nobody_else(told):
    told.start()
    silent, asks = told.served.submit("1" * 8), told.served.submit("2" * 8, mail_type="BEGIN,END")
    for job_id in (silent, asks):
        told.end(job_id, JobState.COMPLETED, 0)
    found = told.wait(2)
    told.stop()
    assert [(one["event"], one["job"]["job_id"], one["mail"]["type"]) for one in told.documents()] == [
        ("started", asks, "BEGIN"),
        ("ended", asks, "END"),
    ]
    assert found[0]["mail"]["user"] == told.served.job(asks).user


def test_a_notice_where_nobody_would_be_told(told):
    body = {**_submission(), "options": {"mail_type": "END"}}
    answer = told.served.ask("POST", "/v1/jobs", body)[1]
    assert answer["notices"] == ["--mail-type: nobody would be told, as this master's configuration has no `notify:`"]


def _submission() -> dict:
    from tests.api.conftest import submission

    return submission("3" * 8)


def test_what_happened_meanwhile_is_told_later_and_once(told):
    told.start("node_down")
    told.say("node DOWN", "gpu01")
    told.wait(1)
    told.stop()
    for _ in range(3):
        told.say("node DOWN", "gpu02")
    told.start("node_down")
    told.wait(4)
    told.stop()
    told.start("node_down")
    told.stop()
    ids = [one["id"] for one in told.documents()]
    assert len(ids) == len(set(ids)) == 4
    with told.served.store.read() as reader:
        assert told.cursor() == notified.newest(reader)


def test_what_happened_while_nobody_was_to_be_told_is_not_told(told):
    told.say("node DOWN", "gpu00")
    told.start_with(None)
    told.say("node DOWN", "gpu01")
    told.start("node_down")
    told.say("node DOWN", "gpu02")
    told.wait(1)
    told.stop()
    assert [one["node"]["node_id"] for one in told.documents()] == ["gpu02"]


def test_what_was_being_told_when_the_master_ended_is_told_again(told, monkeypatch):
    monkeypatch.setattr(notifying, "DRAIN_S", 0.1)
    marker = told.folder.parent / "begun"
    slow = told.write(f"#!/bin/sh\ntouch {marker}; exec sleep 600\n", "slow")
    told.start("node_down", command=(str(slow),), timeout_s=600.0)
    told.say("node DOWN", "gpu01")
    deadline = monotonic() + 30
    while not marker.exists():
        assert monotonic() < deadline
        sleep(0.02)
    told.stop()
    told.start("node_down")
    assert [one["node"]["node_id"] for one in told.wait(1)] == ["gpu01"]


def test_a_failing_command_is_tried_again_then_said_and_holds_up_nobody(told):
    count = told.folder.parent / "count"
    failing = told.write(f"#!/bin/sh\necho x >> {count}\necho 'no such channel' >&2\nexit 7\n", "failing")
    told.start("node_down", command=(str(failing),), retries=2)
    told.say("node DOWN", "gpu01")
    deadline = monotonic() + 30
    while not told.served.context.control.meters.notices[False]:
        assert monotonic() < deadline
        sleep(0.02)
    assert count.read_text() == "x\n" * 3
    (line,) = told.served.context.control.meters.troubles()
    assert f"notify: {failing} ended with exit status 7: no such channel" in line
    told.stop()
    told.start("node_down")
    told.say("node DOWN", "gpu02")
    assert [one["node"]["node_id"] for one in told.wait(1)] == ["gpu02"]


def test_before_its_time_is_up_a_job_may_want_a_word(told, monkeypatch):
    monkeypatch.setattr(notifying, "LOOK_S", 0.1)
    job_id = told.served.submit(time="10", mail_type="TIME_LIMIT_50,TIME_LIMIT_90")
    with told.served.store.write() as writer:
        waits = writer.job(job_id)
        writer.save_job(replace(waits, state=JobState.RUNNING, attempt=1, start_time=clock.now() - 301), waits)
    told.start()
    (found,) = told.wait(1)
    assert (found["event"], found["mail"]["type"]) == ("time_limit_50", "TIME_LIMIT_50")
    told.stop()
    told.start()
    told.stop()
    assert len(told.documents()) == 1


# --- the command itself ----------------------------------------------------------------------------------------------


def run(text: str, timeout_s: float = 30.0, given: bytes = b"{}") -> str:
    return outside.run(("/bin/sh", "-c", text), given, timeout_s, lambda: False)


def test_a_command_gets_a_large_text_and_little_of_our_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("MGPU_SECRET", "17")
    monkeypatch.setenv("HOME", "/home/q")
    assert run(f"wc -c > {tmp_path}/size; env > {tmp_path}/env; pwd > {tmp_path}/pwd", given=b"x" * 3_000_000) == ""
    assert (tmp_path / "size").read_text().split() == ["3000000"]
    assert (tmp_path / "pwd").read_text() == "/\n"
    environment = (tmp_path / "env").read_text()
    assert "SECRET" not in environment
    assert "HOME=/home/q" in environment


def test_a_command_that_does_not_end_is_ended_with_all_that_it_started(tmp_path):
    pids = tmp_path / "pids"
    told = run(f"sleep 600 & echo $! > {pids}; trap '' TERM; echo $$ >> {pids}; sleep 600; sleep 600", timeout_s=0.5)
    assert told == "/bin/sh took longer than 0.5 s and was ended"
    deadline = monotonic() + 30
    while any(lives(pid) for pid in pids.read_text().split()):
        assert monotonic() < deadline
        sleep(0.02)


def lives(pid: str) -> bool:
    """One that has ended, and that nobody has waited for, does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except FileNotFoundError:
        return False


def test_endless_words_of_a_command_are_read_and_not_kept():
    told = run("head -c 5000000 /dev/zero | tr '\\0' 'x' >&2; echo >&2; exit 3")
    assert told.startswith("/bin/sh ended with exit status 3: xxx")
    assert len(told) < 2100


def test_a_command_that_leaves_something_behind_is_not_waited_for(tmp_path):
    assert run(f"sleep 600 & echo $! > {tmp_path}/pid; exit 0") == ""
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_a_command_that_is_none():
    told = outside.run(("/no/such",), b"", 1.0, threading.Event().is_set)
    assert told == "/no/such cannot be run: No such file or directory"


@pytest.mark.parametrize("place", ["rows_after", "submit"])
def test_a_fault_while_it_is_told_keeps_nothing_that_comes_later_from_being_told(told, monkeypatch, caplog, place):
    faults = iter([ZeroDivisionError() if place == "rows_after" else RuntimeError("can't start new thread")])
    of = notified if place == "rows_after" else notifying.ThreadPoolExecutor
    real = getattr(of, place)

    def once(*given):
        for fault in faults:
            raise fault
        return real(*given)

    monkeypatch.setattr(of, place, once)
    told.start("node_down")
    for _ in range(notifying.WAITING + 1):  # each has its room
        told.say("node DOWN", "gpu02")
    assert len(told.wait(notifying.WAITING + 1)) == notifying.WAITING + 1
    assert "reading on in the audit failed" in caplog.text
