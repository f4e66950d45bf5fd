"""The monitor on a real terminal that is not as one wishes. On one that is: tests/end_to_end/test_top.py."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.tui.screen import PATIENCE_S
from tests.tui.stand_in import StandIn

REPOSITORY = Path(__file__).parents[2]
ALL_AS_USUAL, WITHOUT_STDERR = 'exec "$0" "$@"', 'exec "$0" "$@" 2>&-'


def on_a_terminal(master: StandIn, script: str, typed: bytes) -> tuple[int | None, bytes]:
    """`typed` comes once there is a picture, then `q` until it ends: with which status, and what was shown."""
    ours, theirs = pty.openpty()
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY), "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    words = ["sh", "-c", script, sys.executable, "-m", "mgpu", "--master", master.path, "top"]
    process = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=environ, start_new_session=True)
    os.close(theirs)
    shown, seen, deadline = bytearray(), False, time.monotonic() + PATIENCE_S
    try:
        while process.poll() is None and time.monotonic() < deadline:
            if select.select([ours], [], [], 0.2)[0]:
                shown += os.read(ours, 1 << 16)
            elif seen:
                os.write(ours, b"q")
            if b"train-1" in shown and not seen:
                seen = True
                os.write(ours, typed)
    except OSError:  # the other side is closed
        process.wait(PATIENCE_S)
    finally:
        os.close(ours)
        process.kill()
    return process.wait(), bytes(shown)


@pytest.mark.parametrize("typed", [b"\xff", b"\xe4\xf6\xfc", b"\xc3", b"\x1b[200~\xab\x00\xfe\x1b[201~"])
def test_bytes_that_are_no_letters_end_nothing(master: StandIn, typed: bytes) -> None:
    status, shown = on_a_terminal(master, ALL_AS_USUAL, typed)
    assert (status, b"Error" in shown) == (0, False)


@pytest.mark.parametrize("typed", [b"/cr\r", b"/chry\r", b"c\r", b"\t/d\r\t", b"c\x1bhn\r"])
def test_keys_that_come_at_once_go_where_the_one_before_leads(master: StandIn, typed: bytes) -> None:
    """To the line of words to search for, or to a question, on which Enter does nothing."""
    leave = b"\x1b" if b"/" in typed else b""
    status, _ = on_a_terminal(master, ALL_AS_USUAL, typed + leave)
    assert status == 0
    assert not [path for method, path, *_ in master.requests if method == "POST"]


def test_an_answer_that_comes_with_its_question_is_one(master: StandIn) -> None:
    assert on_a_terminal(master, ALL_AS_USUAL, b"cy")[0] == 0
    assert [body["ids"] for body in master.bodies("POST", "/v1/cancel")] == [[1]]


def test_where_stderr_is_closed_it_draws_all_the_same(master: StandIn) -> None:
    status, shown = on_a_terminal(master, WITHOUT_STDERR, b"")
    assert (status, b"train-1" in shown) == (0, True)
