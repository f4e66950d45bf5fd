"""What the master's log looks like: one call, two forms, and nobody else's text begins a line."""

from __future__ import annotations

import json
import logging
import os
import re
from pathlib import Path

import pytest

from mgpu import logbook
from mgpu.core.lifecycle import Happening
from mgpu.core.model import Audit, JobId, JobState, NodeName, PartKey
from tests.store.stored_values import job

KEY = PartKey(JobId(17), 2, 1)
HOSTILE = "x\n2026-12-01 08:00:00 ERROR all is lost\x1b[2J\r\u2028\udcff"


def lines(form: logbook.Format, *words: object, journal: bool = False, **more: object) -> str:
    record = logging.LogRecord("mgpu.master.link", logging.INFO, "", 0, "events: %s", words, None)
    record.__dict__.update(more)
    record.created = 1796112000.1239
    return logbook.Lines(form, journal).format(record)


def test_text_and_json_come_from_the_same_call() -> None:
    concerns = logbook.about(KEY, "gpu01")
    told = re.fullmatch(r"[-0-9]{10} [0-9:]{8} INFO (.*)", lines("text", "cut", **concerns))
    assert told is not None
    assert told[1] == "job 17.2 rank 1 on gpu01: events: cut"
    assert json.loads(lines("json", "cut", **concerns)) == {
        "time": "2026-12-01T08:00:00.123Z",
        "level": "info",
        "logger": "mgpu.master.link",
        "message": "events: cut",
        "job_id": 17,
        "attempt": 2,
        "rank": 1,
        "node": "gpu01",
    }


def test_a_line_for_the_journal_says_how_serious_it_is_and_not_when() -> None:
    assert lines("text", "cut", journal=True) == "<6>events: cut"
    assert lines("json", "cut", journal=True).startswith('<6>{"time": ')


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_text_of_others_begins_a_line_or_reaches_the_terminal(form: logbook.Format) -> None:
    told = lines(form, HOSTILE, **logbook.about(node=HOSTILE))
    assert told.isprintable()
    assert "\\n2026-12-01 08:00:00 ERROR all is lost" in told


def test_a_traceback_is_set_in_line_by_line() -> None:
    try:
        raise ValueError(HOSTILE)
    except ValueError as error:
        trouble = (ValueError, error, error.__traceback__)
    text = lines("text", "x", journal=True, exc_info=trouble, levelno=logging.ERROR).split("\n")
    assert text[0] == "<3>events: x"
    assert [line[:7] for line in text[1:]] == ["<3>    "] * (len(text) - 1)
    assert "\x1b" not in "".join(text)
    whole = lines("json", "x", exc_info=trouble)
    assert whole.isprintable()
    assert "ValueError" in json.loads(whole)["exception"]


def test_what_is_endless_is_cut() -> None:
    assert len(lines("text", "x" * 1_000_000)) < 5000


def test_what_happened_to_a_task_names_it(caplog: pytest.LogCaptureFixture) -> None:
    task = job("r", job_id=JobId(19), state=JobState.FAILED, attempt=2, exit_code=3, array_id=JobId(17), array_index=4)
    entry = Audit(1.0, "master", "ended: FAILED", JobId(19), None, "attempt 2, exit code 3")
    caplog.set_level(logging.INFO)
    logbook.happened(Happening(entry, task))
    logbook.happened(Happening(Audit(1.0, "ann", "node drain", None, NodeName("gpu01"), "fan", 1001)))
    first, second = caplog.records
    told = json.loads(logbook.Lines("json").format(first))
    wanted = {"job_id": 19, "job": "17_4", "attempt": 2, "exit_code": 3, "event": "ended: FAILED", "state": "FAILED"}
    assert wanted.items() <= told.items()
    text = logbook.Lines("text", journal=True).format
    assert text(first) == "<6>job 17_4: ended: FAILED: attempt 2, exit code 3"
    assert text(second) == "<6>gpu01: node drain by ann: fan"


def test_a_long_file_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "master.log"
    monkeypatch.setattr(logbook, "LOG_MAX", 1000)
    kept = os.dup(2), os.dup(1)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.dup2(file, 2)
        handler = logbook._Stderr(path)
        with open(2, "w", closefd=False) as stream:
            handler.setStream(stream)
            for number in range(30):
                handler.handle(logging.LogRecord("x", logging.INFO, "", 0, "%s", (f"{number} {'x' * 90}",), None))
    finally:
        os.dup2(kept[0], 2)
        for each in (*kept, file):
            os.close(each)
    before, now = (path.with_name("master.log.1").read_text(), path.read_text())
    assert 1000 < len(before) < 1200
    assert len(now) < 1200
    assert now.splitlines()[-1].startswith("29 ")
