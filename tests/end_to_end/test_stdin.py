"""What a job reads: a pipe, a file, nothing; and a terminal on its node, which outlives ours."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.end_to_end.cluster import Cluster, Terminal, until


@contextmanager
def pipe_of(data: bytes) -> Iterator[int]:
    reader, writer = os.pipe()

    def write() -> None:
        with suppress(BrokenPipeError), os.fdopen(writer, "wb") as file:
            file.write(data)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield reader
    finally:
        os.close(reader)
        thread.join()


def test_a_pipe_byte_for_byte_on_all_nodes(cluster: Cluster) -> None:
    data = random.Random(7).randbytes(5_000_000)
    with pipe_of(data) as stdin:
        result = cluster("srun", "-N", 2, "--label", "sha256sum", stdin=stdin)
    wanted = hashlib.sha256(data).hexdigest()
    assert sorted(result.lines) == [f"0: {wanted}  -", f"1: {wanted}  -"]


def test_a_file_by_redirection_and_by_name(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "in"
    file.write_bytes(b"\0\xff\n" * 1000)
    with file.open("rb") as stdin:
        assert cluster("srun", "-Q", "cat", stdin=stdin.fileno()).raw == file.read_bytes()
    assert cluster("srun", "-Q", "--input", str(file), "cat").raw == file.read_bytes()
    with file.open("rb") as stdin:
        assert cluster("srun", "-Q", "--input", "none", "wc", "-c", stdin=stdin.fileno()).out == "0\n"
        assert stdin.tell() == 0  # the next command in a script still has it
    assert "--input /no/such: No such file" in cluster.refused("srun", "-i", "/no/such", "cat")


def test_a_job_that_reads_no_more_ends_all_the_same(cluster: Cluster) -> None:
    with pipe_of(bytes(20_000_000)) as stdin:
        result = cluster("srun", "-Q", "sh", "-c", "head -c 3; exit 4", stdin=stdin, check=False)
    assert (result.code, result.raw) == (4, bytes(3))


def test_neither_a_killed_master_nor_a_cut_link_loses_a_byte(cluster: Cluster) -> None:
    cluster.lab.node("node001").run("rm -f /tmp/stdin-go")
    data = random.Random(8).randbytes(12_000_000)
    slowly = "head -c 1000000; until [ -e /tmp/stdin-go ]; do sleep 0.05; done; cat"
    with pipe_of(data) as stdin:
        command = cluster.start("srun", "-w", "node001", "sh", "-c", f"({slowly}) | sha256sum", stdin=stdin)
        command.read_until("runs on")
        os.kill(cluster.master_pid(), signal.SIGKILL)
        until("another master", lambda: answers(cluster))
        cluster.lab.node("node001").fault("link", "down")
        cluster.lab.node("node001").fault("link", "up")
        cluster.lab.node("node001").run("touch /tmp/stdin-go")
        result = command.finish()
    assert result.out == f"{hashlib.sha256(data).hexdigest()}  -\n"
    assert result.code == 0


def answers(cluster: Cluster) -> bool:
    with suppress(OSError):
        return cluster.ask("GET", "/v1/status")[0] == 200
    return False


def prompt(terminal: Terminal, typed: str, wanted: str) -> None:
    terminal.type(typed)
    terminal.read_until(wanted)


def test_a_terminal_is_a_terminal(cluster: Cluster) -> None:
    terminal = cluster.terminal("srun", "--pty", "sh")
    terminal.read_until("runs on")
    prompt(terminal, "stty size; echo at=$(tty)\r", "at=/dev/pts/")
    prompt(terminal, "sh -c 'echo go$((0+1)); exec sleep 1000'\r", "go1")
    prompt(terminal, "\x03echo after=$?\r", "after=130")
    prompt(terminal, "printf 'a\\033[31mb\\n'; echo tail=$((1+1))\r", "tail=2")
    assert "a\x1b[31mb\r\n" in terminal.text  # as it was written, no line end of ours
    terminal.type("exit 7\r")
    assert terminal.finish() == 7
    assert "FAILED, exit 7" in terminal.text


def test_a_terminal_is_left_and_found_again(cluster: Cluster) -> None:
    first = cluster.terminal("srun", "--pty", "sh")
    first.read_until("runs on")
    prompt(first, "x=kept; echo one=$((2-1))\r", "one=1")
    prompt(first, "~.", "go back to it with: mgpu attach")
    assert first.finish() == 75
    job_id = int(first.text.split("mgpu attach ")[1].split()[0])
    again = cluster.terminal("attach", job_id)
    again.read_until("one=1")  # the last lines are shown
    prompt(again, "echo still=$x\r", "still=kept")
    again.abandon()
    os.kill(cluster.master_pid(), signal.SIGKILL)
    third = cluster.terminal("attach", job_id)
    prompt(third, "echo yet=$x$x\r", "yet=keptkept")
    third.type("exit\r")
    assert third.finish() == 0


def test_several_terminals_at_once(cluster: Cluster) -> None:
    terminals = [cluster.terminal("srun", "-G", 1, "--pty", "sh") for _ in range(3)]
    for number, terminal in enumerate(terminals):
        terminal.read_until("runs on")
        prompt(terminal, f"echo n=$(({number}+10))\r", f"n={number + 10}")
    for terminal in terminals:
        terminal.type("exit\r")
        assert terminal.finish() == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--pty", "--label"), "--label does not go with --pty"),
        (("--pty", "-N", "2"), "--pty is a terminal on one node, and 2 are asked for"),
        (("--pty", "-i", "x"), "--pty takes its keys from the terminal"),
    ],
)
def test_what_a_terminal_cannot_be(cluster: Cluster, words: tuple[str, ...], told: str) -> None:
    terminal = cluster.terminal("srun", *words, "sh")
    assert terminal.finish() == 2
    assert told in terminal.text


def test_without_a_terminal_there_is_none_to_give(cluster: Cluster) -> None:
    assert "--pty needs a terminal" in cluster.refused("srun", "--pty", "sh", stdin=subprocess.DEVNULL)
