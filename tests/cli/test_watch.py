"""--watch: on a terminal drawn over in place, elsewhere a block after the other; the master may come and go."""

from __future__ import annotations

import fcntl
import json
import os
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mgpu.cli.screen import END_OF_LINE, END_OF_SCREEN, ENTER, HOME, LEAVE, fitted, framed
from tests.client.peer import Peer, job

LONG_S = 60.0


class Seen:
    """A command on a terminal of that size, and all that came from it."""

    def __init__(self, start: Callable[..., subprocess.Popen[bytes]], *words: str, rows: int = 24) -> None:
        self.ours, self.theirs = os.openpty()
        self.resize(rows, 80)
        self.before = termios.tcgetattr(self.theirs)
        self.text = ""
        # in a group of its own, as a shell has it: the kernel stops none whose group nobody looks after
        self.process = start(*words, stdin=self.theirs, stdout=self.theirs, stderr=self.theirs, preexec_fn=os.setpgrp)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    def until(self, condition: Callable[[], Any]) -> None:
        end = time.monotonic() + LONG_S
        while not condition():
            assert time.monotonic() < end, self.text
            if select.select([self.ours], [], [], 0.2)[0]:
                self.text += os.read(self.ours, 65536).decode()

    def pictures(self) -> list[list[str]]:
        """Those that are whole, as lines without what steers the terminal."""
        whole = [one for one in self.text.split(HOME)[1:-1] if END_OF_LINE in one]
        return [re.split(r"\r+\n", re.sub(r"\x1b\[[0-9;]*[mKJ]", "", picture)) for picture in whole]

    def shows(self, text: str) -> Callable[[], bool]:
        return lambda: bool(self.pictures()) and text in "\n".join(self.pictures()[-1])

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(LONG_S)


@pytest.fixture
def seen(peer: Peer, mgpu_process: Callable, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Seen]]:
    made: list[Seen] = []
    monkeypatch.setenv("TERM", "xterm-256color")

    def start(*words: str, **more: int) -> Seen:
        made.append(Seen(mgpu_process, *words, **more))
        return made[-1]

    yield start
    for one in made:
        one.process.kill()
        os.close(one.ours)
        os.close(one.theirs)


def queue_of(peer: Peer, *ids: int, **more: Any) -> None:
    peer.answers["GET", "/v1/jobs"] = {"jobs": [job("RUNNING", job_id=one, **more) for one in ids]}


def test_the_screen_is_drawn_over_in_place_and_left_as_it_was(peer: Peer, seen: Callable[..., Seen]) -> None:
    queue_of(peer, 17)
    watched = seen("queue", "-i", "1")
    watched.until(watched.shows("   17  train"))
    assert not termios.tcgetattr(watched.theirs)[3] & termios.ECHO
    queue_of(peer, 18)
    watched.until(watched.shows("   18  train"))
    assert watched.text.startswith(ENTER) and watched.text.count("\x1b[J") == 1 + len(watched.pictures())
    assert "\n" not in watched.text.replace("\r\n", "")
    assert watched.end(signal.SIGINT) == 130
    watched.until(lambda: watched.text.endswith(LEAVE))
    assert termios.tcgetattr(watched.theirs) == watched.before


def test_nothing_is_wiped_behind_a_line_which_may_be_as_wide_as_the_terminal(
    peer: Peer, seen: Callable[..., Seen]
) -> None:
    queue_of(peer, 1, 2, detail="x" * 200, reason="Looking")
    watched = seen("queue", "--watch")
    watched.until(watched.shows("    2  "))
    assert [len(line) for line in watched.pictures()[-1][2:]] == [80, 80]
    lines = re.split(r"\r+\n", watched.text.split(HOME)[2])
    assert [line[:3] for line in lines] == [*[END_OF_LINE] * 3, END_OF_SCREEN]
    assert not any(END_OF_LINE in line[3:] or END_OF_SCREEN in line[3:] for line in lines)


def test_it_fits_the_terminal_and_follows_its_size(peer: Peer, seen: Callable[..., Seen]) -> None:
    queue_of(peer, *range(1, 21), detail="x" * 200, reason="Looking", name="模" * 30)
    watched = seen("queue", "--watch", rows=10)
    watched.until(watched.shows("... 13 more"))
    assert [len(picture) for picture in watched.pictures()] == [10]
    assert watched.pictures()[-1][2].startswith("    1  ")
    watched.resize(6, 60)
    watched.process.send_signal(signal.SIGWINCH)
    watched.until(watched.shows("... 17 more"))
    assert len(watched.pictures()[-1]) == 6


def test_a_master_that_is_gone_is_told_and_comes_back(peer: Peer, seen: Callable[..., Seen]) -> None:
    queue_of(peer, 17)
    watched = seen("queue", "-i", "1")
    watched.until(watched.shows("every 1 s, ^C ends"))
    socket, aside = Path(peer.path), Path(peer.path + "1")
    socket.rename(aside)
    watched.until(watched.shows("ago: no master runs at "))
    assert watched.pictures()[-1][0].startswith("AS OF ") and "   17  train" in "\n".join(watched.pictures()[-1])
    queue_of(peer, 18)
    aside.rename(socket)
    watched.until(watched.shows("   18  train"))
    assert watched.pictures()[-1][0].endswith("  every 1 s, ^C ends")
    assert watched.end(signal.SIGTERM) == 143


def test_an_answer_of_another_version_ends_it_with_a_line(peer: Peer, seen: Callable[..., Seen]) -> None:
    """In whatever thread that is seen."""
    peer.answers["GET", "/v1/nodes"] = {"nodes": [{"node_id": "gpu01", "state": "UP", "gpus": [], "reason": ""}]}
    watched = seen("nodes", "gpu01", "-i", "1")
    watched.until(watched.shows("gpu01"))
    peer.answers["GET", "/v1/nodes"] = (200, {"nodes": 5}, {"X-Mgpu-Version": "9.0"})
    watched.until(lambda: "cannot be read by this" in watched.text)
    assert watched.process.wait(20) == 69
    assert "Traceback" not in watched.text


def test_a_master_that_hangs_keeps_nobody(peer: Peer, seen: Callable[..., Seen]) -> None:
    queue_of(peer, 17)
    watched = seen("queue", "-i", "1")
    watched.until(watched.shows("   17  train"))
    peer.answers["GET", "/v1/jobs"] = hung = threading.Event()
    watched.until(watched.shows("ago: the master does not answer"))
    asked = len(peer.paths())
    watched.resize(20, 70)
    watched.process.send_signal(signal.SIGWINCH)
    assert watched.end(signal.SIGINT) == 130
    assert len(peer.paths()) == asked  # one question at a time
    hung.set()


def test_a_stop_gives_the_terminal_back_meanwhile(peer: Peer, seen: Callable[..., Seen]) -> None:
    queue_of(peer, 17)
    watched = seen("queue", "-i", "1")
    watched.until(watched.shows("   17  train"))
    watched.process.send_signal(signal.SIGTSTP)
    watched.until(lambda: watched.text.endswith(LEAVE))
    stat = Path(f"/proc/{watched.process.pid}/stat")
    watched.until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")
    assert termios.tcgetattr(watched.theirs) == watched.before
    watched.process.send_signal(signal.SIGCONT)
    watched.until(lambda: LEAVE + ENTER in watched.text and not watched.text.endswith(ENTER))
    assert watched.end(signal.SIGINT) == 130


def test_what_is_wrong_from_the_start_is_told_as_without_it(peer: Peer, mgpu: Callable) -> None:
    assert mgpu("queue", "--watch") == (1, "", "mgpu: no /v1/jobs?scope=active&brief=1: look\n")
    peer.answers["GET", "/v1/nodes"] = {"nodes": []}
    assert mgpu("nodes", "gpu99", "-i", "3") == (1, "", "mgpu: there is no node 'gpu99': mgpu nodes lists them\n")
    assert mgpu("nodes", "-i", "0").status == 2
    assert mgpu("queue", "-i", "9" * 17).status == 2
    assert mgpu("dial-stdio", "--silence", "9" * 20).status == 2


def blocks(process: subprocess.Popen[bytes], number: int) -> list[bytes]:
    assert process.stdout is not None
    return [process.stdout.readline() for _ in range(number)]


def test_no_terminal_gets_a_block_after_the_other(peer: Peer, mgpu_process: Callable) -> None:
    queue_of(peer, 17)
    process = mgpu_process("queue", "-i", "1")
    lines = blocks(process, 8)
    assert [lines[at].split()[0] for at in (1, 2, 5, 6)] == [b"JOBID", b"17", b"JOBID", b"17"]
    assert lines[3] == lines[7] == b"\n" and b"\x1b" not in b"".join(lines)
    process.send_signal(signal.SIGINT)
    assert process.wait(LONG_S) == 130


def test_json_is_a_document_in_each_line(peer: Peer, mgpu_process: Callable) -> None:
    peer.answers["GET", "/v1/nodes"] = {"nodes": []}
    process = mgpu_process("nodes", "-i", "1", "--json")
    assert [json.loads(line) for line in blocks(process, 2)] == [{"nodes": []}] * 2
    process.terminate()
    assert process.wait(LONG_S) == 143


def test_a_reader_that_is_gone_ends_it(peer: Peer, mgpu_process: Callable) -> None:
    queue_of(peer, 17)
    process = mgpu_process("queue", "-i", "1")
    blocks(process, 1)
    process.stdout.close()
    assert process.wait(LONG_S) == 141
    process.stdout = None


@pytest.mark.parametrize(
    ("line", "columns", "shown"),
    [
        ("abcdef", 4, "abc…"),
        ("\x1b[32mab\x1b[0mcdef", 4, "\x1b[32mab\x1b[0mc…"),
        ("\x1b[32mabcdef\x1b[0m gh", 4, "\x1b[32mabc…\x1b[0m"),
        ("模型模型", 5, "模型…"),
        ("abcdef", 0, "abcdef"),
    ],
)
def test_a_line_is_cut_but_for_its_colours(line: str, columns: int, shown: str) -> None:
    assert fitted(line, columns) == shown


@pytest.mark.parametrize(("rows", "shown"), [(3, ["a", "b", "c"]), (2, ["a", "... 2 more"]), (1, ["... 3 more"])])
def test_what_is_left_out_below_is_counted(rows: int, shown: list[str]) -> None:
    assert framed(["a", "b", "c"], rows) == shown
