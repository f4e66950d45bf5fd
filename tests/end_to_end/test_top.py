"""The monitor on a real terminal, against real nodes: a job is watched and cancelled there, and whatever ends the
monitor, the terminal is as it was."""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from shlex import join
from typing import Any

import pytest

from tests.end_to_end.cluster import Cluster, until
from tests.end_to_end.tmux import AS_A_SHELL_HAS_THEM, Tmux

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")

# writes a line for each of the files in $0 that somebody makes, and a progress bar meanwhile
BAR = (
    "i=0; for step in 1 2; do until [ -e $0/$step ]; do i=$((i+1)); printf '\\rat %d ' $i; sleep 0.1; done;"
    " printf '\\n\\033[32mstep %d\\033[0m\\033]0;title\\007\\n' $step; done; sleep 600"
)
# a monitor in which something goes wrong after its first picture
BROKEN = """
import sys
from mgpu.tui.totals import Totals
def fault(self, *answer):
    secret = "the-" + "token"
    raise RuntimeError("a fault of ours")
Totals.tell_nodes = fault
from mgpu.__main__ import main
sys.argv = ["mgpu", "top"]
sys.exit(main())
"""


@pytest.fixture
def tmux(cluster: Cluster, tmp_path: Path) -> Iterator[Tmux]:
    with closing(Tmux(tmp_path, cluster.environ, (120, 40))) as made:
        yield made


class Top:
    """`mgpu top` begun in the shell of `tmux`; what a terminal has to be like after it is written down before."""

    def __init__(self, tmux: Tmux, folder: Path, words: tuple[str, ...] = ("-m", "mgpu", "top")) -> None:
        self.tmux = tmux
        self._folder = folder
        for name in ("pid", "code", "after"):
            (folder / name).unlink(missing_ok=True)
        script = f"echo $$ > pid; exec {join([sys.executable, *words])}"
        tmux.line("clear; stty -g > before")
        tmux.line(f"sh -c {join([script])}; echo $? > code; stty -g > after")

    def await_picture(self) -> None:
        self.tmux.await_text("╭─ Queue")
        self.tmux.await_text("node002")

    @property
    def pid(self) -> int:
        return int((self._folder / "pid").read_text())

    def read(self, name: str) -> str:
        path = self._folder / name
        return until(f"the file {name}", lambda: path.exists() and path.read_text().strip())  # type: ignore[no-any-return]

    def ended(self) -> int:
        """Its exit status, once the shell has the terminal again: as that was before."""
        code = int(self.read("code"))
        assert self.read("after") == self.read("before")
        until("the modes of a shell", lambda: self.tmux.modes() == AS_A_SHELL_HAS_THEM)
        return code


def test_a_job_is_watched_and_cancelled(cluster: Cluster, tmux: Tmux, tmp_path: Path) -> None:
    steps = "/tmp/top-steps"
    cluster.lab.node("node001").run(f"rm -rf {steps}; mkdir -pm 777 {steps}")
    job_id = cluster.submit("-J", "watched", "-w", "node001", "--", "sh", "-c", BAR, steps)
    cluster.await_output(job_id, "at 1 ")
    top = Top(tmux, tmp_path)
    tmux.await_text("watched")
    tmux.type("Enter")
    tmux.await_text("runs as pid")
    text = tmux.await_text("│  at ")
    bars = [line for line in text.splitlines() if line.startswith("│  at ")]
    assert len(bars) == 1, text  # its last state alone
    first = bars[0]
    tmux.await_gone(first)  # and that goes on
    cluster.lab.node("node001").run(f"touch {steps}/1")
    tmux.await_text("step 1")
    cluster.lab.node("node001").run(f"touch {steps}/2")
    tmux.await_text("step 2")
    tmux.type("c")
    tmux.await_text(f"Cancel job {job_id}")
    assert cluster.job(job_id)["state"] == "RUNNING"
    tmux.type("y")
    assert cluster.await_job(job_id)["state"] == "CANCELLED"
    tmux.await_text(f"job {job_id} CANCELLED")
    tmux.type("q")
    assert top.ended() == 0


def test_whatever_ends_it_the_terminal_is_as_it_was(cluster: Cluster, tmux: Tmux, tmp_path: Path) -> None:
    ways: dict[str, tuple[int, Callable[[Top], Any]]] = {
        "q": (0, lambda top: tmux.type("q")),
        "^C": (0, lambda top: tmux.type("C-c")),
        **{
            each.name: (128 + each, lambda top, each=each: os.kill(top.pid, each))
            for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
        },
    }
    for name, (code, end) in ways.items():
        top = Top(tmux, tmp_path)
        top.await_picture()
        assert tmux.modes() != AS_A_SHELL_HAS_THEM
        end(top)
        assert top.ended() == code, name


def test_it_is_stopped_and_goes_on(cluster: Cluster, tmux: Tmux, tmp_path: Path) -> None:
    top = Top(tmux, tmp_path)
    top.await_picture()
    picture = tmux.text.splitlines()[2:]
    for stop in (lambda: tmux.type("C-z"), lambda: os.kill(top.pid, signal.SIGTSTP)):
        stop()
        assert top.ended() == 128 + signal.SIGSTOP
        (tmp_path / "code").unlink()
        tmux.line("fg; echo $? > code; stty -g > after")
        top.await_picture()
        until(
            "the whole picture", lambda: [line[:9] for line in tmux.text.splitlines()[2:]] == [x[:9] for x in picture]
        )
    tmux.type("q")
    assert top.ended() == 0


def test_a_master_that_was_killed_is_told_of_until_it_is_back(cluster: Cluster, tmux: Tmux, tmp_path: Path) -> None:
    top = Top(tmux, tmp_path)
    top.await_picture()
    os.kill(cluster.master_pid(), signal.SIGKILL)
    tmux.await_text("stale")
    assert "node002" in tmux.text
    cluster("nodes")  # starts another
    tmux.await_gone("stale")
    tmux.type("q")
    assert top.ended() == 0


def test_a_master_that_hangs_keeps_nobody_in_it(cluster: Cluster, tmux: Tmux, tmp_path: Path) -> None:
    top = Top(tmux, tmp_path)
    top.await_picture()
    master = cluster.master_pid()
    os.kill(master, signal.SIGSTOP)
    try:
        tmux.await_text("stale")
        tmux.type("q")
        assert top.ended() == 0
    finally:
        os.kill(master, signal.SIGCONT)


def test_a_fault_of_ours_is_told_on_a_sound_terminal(cluster: Cluster, tmux: Tmux, tmp_path: Path) -> None:
    top = Top(tmux, tmp_path, ("-c", BROKEN))
    assert top.ended() == 1
    text = tmux.await_text("a fault of ours")
    assert "the-token" not in text.split("RuntimeError")[-1]
    assert "locals" not in text


def test_without_a_terminal_it_does_not_begin(cluster: Cluster) -> None:
    assert cluster.refused("top") == (
        "mgpu: top needs a terminal: mgpu queue and mgpu nodes tell the same to a file or a pipe"
    )


# --- a terminal that fails ---


class BareTerminal:
    """One that nobody draws: it can go away, or take nothing any more."""

    def __init__(self, cluster: Cluster, *words: str) -> None:
        self.process_id, self.fd = pty.fork()
        if self.process_id == 0:
            line = [*map(str, cluster.argv(["top", *words]))]
            os.execve(sys.executable, line, {**cluster.environ, "TERM": "xterm-256color"})
        self.shown = b""
        until("a picture", lambda: self.read() and b"node002" in self.shown)

    def read(self) -> bool:
        while select.select([self.fd], [], [], 0.2)[0]:
            self.shown += os.read(self.fd, 1 << 16)
        return True


def test_a_terminal_that_went_away_ends_it(cluster: Cluster) -> None:
    terminal = BareTerminal(cluster)
    os.close(terminal.fd)
    assert code_of(terminal.process_id) == 128 + signal.SIGHUP


def test_the_mouse_is_left_to_the_terminal_on_wish(cluster: Cluster) -> None:
    for words, asked_for in ((), True), (("--no-mouse",), False):
        terminal = BareTerminal(cluster, *words)
        assert (b"\x1b[?1000h" in terminal.shown) == asked_for
        os.close(terminal.fd)
        assert code_of(terminal.process_id) == 128 + signal.SIGHUP


def test_a_terminal_that_takes_nothing_does_not_keep_it(cluster: Cluster) -> None:
    terminal = BareTerminal(cluster)
    line = os.open(f"/proc/{terminal.process_id}/fd/0", os.O_RDWR | os.O_NOCTTY)
    termios.tcflow(line, termios.TCOOFF)
    for _ in range(40):  # more pictures than are kept for it
        os.write(terminal.fd, b"?q")
    os.kill(terminal.process_id, signal.SIGTERM)
    assert code_of(terminal.process_id) == 128 + signal.SIGTERM
    os.close(line)
    os.close(terminal.fd)


def code_of(process_id: int) -> int:
    ended = until("its end", lambda: (found := os.waitpid(process_id, os.WNOHANG))[0] and found)
    return os.waitstatus_to_exitcode(ended[1])
