"""Words of ours among the keys of a job's terminal, and what our own becomes meanwhile."""

from __future__ import annotations

import os
import termios

import pytest

from mgpu.cli.leave import Leave
from mgpu.cli.terminal import Keys, Terminal


@pytest.mark.parametrize(
    ("typed", "passed"),
    [
        (b"ls ~/x\r", b"ls ~/x\r"),
        (b"~~\r", b"~\r"),
        (b"~~.", b"~."),
        (b"~/bin/x\r", b"~/bin/x\r"),
        (b"a~.", b"a~."),
        (b"\x03\x04\x1a\xff", b"\x03\x04\x1a\xff"),
        (b"x\r~\r", b"x\r~\r"),
    ],
)
def test_what_is_typed_goes_to_the_job(typed: bytes, passed: bytes) -> None:
    assert Keys()(typed) == passed
    one_by_one = Keys()
    assert b"".join(one_by_one(bytes([key])) for key in typed) == passed


@pytest.mark.parametrize("typed", [b"~.", b"ls\r~.", b"ls\n~.", b"~?~.", b"~a\r~."])
def test_the_way_out(typed: bytes) -> None:
    keys = Keys()
    with pytest.raises(Leave) as leave:
        for key in typed:
            keys(bytes([key]))
    assert leave.value.exit_code == 75


def test_it_explains_itself() -> None:
    keys, told = Keys(), []
    keys.explain = lambda: told.append("help")
    assert keys(b"~?ls") == b"ls"
    assert told == ["help"]


def test_the_terminal_is_raw_while_its_keys_are_the_job_s(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[str, object]] = []
    ours, theirs = os.openpty()
    before = termios.tcgetattr(theirs)
    terminal = Terminal(theirs, "")
    terminal.enter()
    terminal.enter()
    _, oflag, _, lflag, *_ = termios.tcgetattr(theirs)
    assert not oflag & termios.OPOST
    assert not lflag & (termios.ECHO | termios.ICANON | termios.ISIG)
    monkeypatch.setattr("mgpu.cli.terminal.say", lambda text: said.append((text, termios.tcgetattr(theirs))))
    terminal.tell("words")
    assert said == [("words", before)]
    assert termios.tcgetattr(theirs) != before
    terminal.leave()
    terminal.leave()
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)


def test_a_stderr_that_is_a_file_gets_our_words_alone(capfd: pytest.CaptureFixture[str]) -> None:
    _, slave = os.openpty()
    terminal = Terminal(slave, "24x80")
    terminal.enter()
    terminal.tell("words")
    assert capfd.readouterr().err == "mgpu: words\n"
    terminal.leave()
