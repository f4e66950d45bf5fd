"""Signals to an srun, a real process: at each moment of its life."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.waits import after, stderr_until
from tests.client.peer import Peer, end, output, state

STOPS = [
    (signal.SIGINT, "RUNNING", 130, True),
    (signal.SIGINT, "PENDING", 130, True),
    (signal.SIGTERM, "RUNNING", 143, True),
    (signal.SIGHUP, "RUNNING", 129, False),
    (signal.SIGQUIT, "RUNNING", 131, False),
]


@pytest.mark.parametrize(("number", "word", "status", "cancels"), STOPS)
def test_signals(
    peer: Peer, mgpu_process: Callable, number: signal.Signals, word: str, status: int, cancels: bool
) -> None:
    gone = threading.Event()
    peer.streams = [[state(word, reason="NodeDown"), gone, end("CANCELLED", detail="by alice", allocation=[])]]
    process = mgpu_process("srun", "prog")
    stderr_until(process, b"waits" if word == "PENDING" else b"runs on")
    process.send_signal(number)
    if cancels:
        assert peer.wait_for("POST", "/v1/cancel")["ids"] == [17]
        assert process.poll() is None  # it stays until the job is gone
        gone.set()
    _, err = process.communicate(timeout=30)
    gone.set()
    assert process.returncode == status
    last = err.decode().splitlines()[-1]
    if cancels:
        assert last == f"mgpu: job 17 CANCELLED (by {'SIGTERM' if number == signal.SIGTERM else '^C'})"
    else:
        word = "hung up" if number == signal.SIGHUP else "left"
        assert last == f"mgpu: {word}: job 17 goes on; go back to it with: mgpu attach 17"
        assert peer.bodies("POST", "/v1/cancel") == []


def test_who_does_not_wait_for_the_end_is_told_what_becomes_of_the_job(peer: Peer, mgpu_process: Callable) -> None:
    gone = threading.Event()
    peer.streams = [[state("RUNNING"), gone]]
    process = mgpu_process("srun", "prog")
    stderr_until(process, b"runs on")
    process.send_signal(signal.SIGINT)
    peer.wait_for("POST", "/v1/cancel")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    gone.set()
    assert process.returncode == 130
    words = "not waited for its end: job 17 is being ended; how it ended shows: mgpu show 17"
    assert err.decode().splitlines()[-1] == f"mgpu: {words}"


def test_on_a_terminal_the_second_interrupt_ends_the_job(peer: Peer, mgpu_process: Callable) -> None:
    gone = threading.Event()
    peer.streams = [[state("RUNNING"), gone, end("CANCELLED", allocation=[])]]
    ours, theirs = os.openpty()
    process = mgpu_process("srun", "prog", stderr=theirs)
    os.close(theirs)
    seen = b""
    while b"runs on" not in seen:
        seen += os.read(ours, 4096)
    process.send_signal(signal.SIGINT)
    while b"^C again within 1 s ends it" not in seen:
        seen += os.read(ours, 4096)
    assert peer.bodies("POST", "/v1/cancel") == []
    process.send_signal(signal.SIGINT)
    peer.wait_for("POST", "/v1/cancel")
    gone.set()
    process.communicate(timeout=30)
    os.close(ours)
    assert process.returncode == 130


def test_interrupts_are_seen_while_nobody_reads(peer: Peer, mgpu_process: Callable) -> None:
    gone = threading.Event()
    peer.streams = [[state("RUNNING"), output(bytes(1 << 20)), gone, end("CANCELLED", allocation=[])]]
    process = mgpu_process("srun", "prog")
    stderr_until(process, b"runs on")
    process.send_signal(signal.SIGTERM)
    peer.wait_for("POST", "/v1/cancel")
    gone.set()
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, len(out)) == (143, 1 << 20)


def test_user_signals_go_to_the_job(peer: Peer, mgpu_process: Callable) -> None:
    refused = {"job_id": 17, "code": "bad_request", "message": "job 17 waits: there is nothing to signal", "hint": ""}
    peer.answers["POST", "/v1/signal"] = {"signalled": [], "errors": [refused]}
    hold = threading.Event()
    peer.streams = [[state("RUNNING"), hold, end("COMPLETED", exit_code=0)]]
    process = mgpu_process("srun", "prog")
    stderr_until(process, b"runs on")
    process.send_signal(signal.SIGUSR1)
    body = peer.wait_for("POST", "/v1/signal")
    assert (body["ids"], body["signal"]) == ([17], "10")
    hold.set()
    _, err = process.communicate(timeout=30)
    assert (process.returncode, b"SIGUSR1 was not passed on: job 17 waits" in err) == (0, True)


@pytest.mark.parametrize(
    ("number", "status", "cancelled"),
    [(signal.SIGTERM, 143, 1), (signal.SIGINT, 130, 1), (signal.SIGHUP, 129, 0), (signal.SIGQUIT, 131, 0)],
)
def test_a_signal_before_the_submission_is_answered(
    peer: Peer, mgpu_process: Callable, number: int, status: int, cancelled: int
) -> None:
    """The job is taken back, or a line says that it may be queued."""
    hold = threading.Event()
    peer.answers["POST", "/v1/jobs"] = hold
    process = mgpu_process("srun", "prog")
    peer.wait_for("POST", "/v1/jobs")
    process.send_signal(number)
    peer.answers["POST", "/v1/jobs"] = (201, {"job_id": 17, "notices": []}, {})
    _, err = process.communicate(timeout=60)
    hold.set()
    assert process.returncode == status
    assert len(peer.bodies("POST", "/v1/cancel")) == cancelled
    assert (b"the job may be queued" in err) is (not cancelled)


# The command line, with a SIGTERM so many lines of code after the master's answer.
ENDED_AFTER = """
import os, signal, sys

left = int(sys.argv.pop(1))

def count(frame, event, argument):
    global left
    left -= event == "line"
    if left < 0:
        sys.settrace(None)
        os.kill(os.getpid(), signal.SIGTERM)
    return count

def answered(frame, event, argument):
    if event == "return":
        sys.settrace(lambda *_call: count)
        frame.f_back.f_trace = count
    return answered

def await_answer(frame, event, argument):
    return answered if frame.f_code.co_name == "send" and "submission" in frame.f_code.co_filename else None

sys.settrace(await_answer)
from mgpu.cli.main import main
main()
"""


@pytest.mark.parametrize("lines", range(0, 120, 10))
def test_no_moment_is_left_in_which_a_signal_ends_srun_and_not_the_job(peer: Peer, lines: int) -> None:
    peer.streams = [[state("PENDING"), after(peer, "POST", "/v1/cancel"), end("CANCELLED", detail="by alice")]]
    argv = [sys.executable, "-c", ENDED_AFTER, str(lines), "srun", "prog"]
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    ran = subprocess.run(argv, env=environ, capture_output=True, timeout=60, check=False)
    assert (ran.returncode, len(peer.bodies("POST", "/v1/cancel"))) == (143, 1), ran.stderr


def test_what_is_meant_for_the_job_waits_until_it_is_queued(peer: Peer, mgpu_process: Callable) -> None:
    peer.answers["POST", "/v1/jobs"] = hold = threading.Event()
    peer.answers["POST", "/v1/signal"] = {"signalled": [17], "errors": []}
    peer.streams = [[state("RUNNING"), after(peer, "POST", "/v1/signal"), end("COMPLETED", exit_code=0)]]
    process = mgpu_process("srun", "prog")
    peer.wait_for("POST", "/v1/jobs")
    process.send_signal(signal.SIGUSR1)
    peer.answers["POST", "/v1/jobs"] = (201, {"job_id": 17, "notices": []}, {})
    hold.set()  # the answer was lost: it is asked for again
    process.communicate(timeout=60)
    assert (process.returncode, peer.bodies("POST", "/v1/signal")[0]["signal"]) == (0, "10")
