"""srun with a real process, real pipes and signals, against a socket peer."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from mgpu.cli.sink import expand
from tests.client.peer import CUT, Peer, end, job, output, state

WHERE = "mgpu: job 17 runs on gpu01 (gpu01.lab, 10.0.0.1), GPU 0,1 [GPU-a GPU-b]\n"


def test_streams_stay_apart_and_byte_exact(peer: Peer, mgpu_process: Callable) -> None:
    big = bytes(range(256)) * 4096
    peer.answers["POST", "/v1/jobs"] = (201, {"job_id": 17, "notices": ["a\x1b notice"]}, {})
    peer.streams = [[state("RUNNING"), output(b"err\r", kind=2), output(big), end("FAILED", exit_code=5)]]
    process = mgpu_process("srun", "-G", "2", "prog")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (5, big)
    assert err.decode() == f"mgpu: a\\e notice\n{WHERE}err\rmgpu: job 17 FAILED, exit 5 on gpu01\n"


def test_quiet_says_errors_only(peer: Peer, mgpu: Callable) -> None:
    peer.streams = [[state("RUNNING"), output(b"x"), end("COMPLETED", exit_code=0)]]
    assert mgpu("srun", "-Q", "prog") == (0, "x", "")
    peer.streams = [[state("RUNNING"), end("TIMEOUT")]]
    assert mgpu("srun", "-Q", "prog") == (124, "", "mgpu: job 17 TIMEOUT\n")


def test_labels_stand_before_whole_lines(peer: Peer, mgpu: Callable) -> None:
    pieces = [output(b"a"), output(b"x\ny", rank=1), output(b"b\n\nc", offset=1), output(b"z\n", rank=1, offset=3)]
    peer.streams = [[state("RUNNING"), *pieces, end("COMPLETED", exit_code=0)]]
    assert mgpu("srun", "-l", "prog").out == "1: x\n0: ab\n0: \n1: yz\n0: c"
    peer.streams = [[state("RUNNING"), output(b"a"), output(b"b", rank=1), end("COMPLETED", exit_code=0)]]
    assert mgpu("srun", "-l", "prog").out == "0: a\n1: b"


def test_files_are_written_here(peer: Peer, mgpu: Callable) -> None:
    Path("job-17.0").write_text("of an earlier run, and longer")
    peer.streams = [[state("RUNNING"), output(b"out"), output(b"err", kind=2), end("COMPLETED", exit_code=0)]]
    assert mgpu("srun", "-Q", "-o", "job-%j.%r", "prog") == (0, "", "")
    assert sorted(Path("job-17.0").read_bytes()) == sorted(b"outerr")
    assert expand("%n-%%j%q-%j-%a.%r.%x", 17, 3, "a/b", "c/d") == "a_b-%j%q-17-0.3.c_d"
    assert expand("%A %4j %2n %N", 17, 3, "a", "x") == "17 0017 %2n a"


def test_a_file_that_nothing_came_for_is_empty(peer: Peer, mgpu: Callable) -> None:
    Path("out").write_text("of an earlier run")
    peer.streams = [[state("RUNNING"), end("COMPLETED", exit_code=0)]]
    assert mgpu("srun", "-Q", "-o", "out", "-e", "err.%n", "prog") == (0, "", "")
    assert (Path("out").read_bytes(), Path("err.gpu01").read_bytes()) == (b"", b"")


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (["-o", "nowhere/out.%j"], "cannot write nowhere/out.%j: there is no folder nowhere: make it first"),
        (["-e", "folder"], "cannot write folder: name a file of your own"),
    ],
)
def test_a_file_that_cannot_be_written_is_told_before(peer: Peer, mgpu: Callable, line: list[str], fault: str) -> None:
    Path("folder").mkdir()
    assert mgpu("srun", *line, "prog") == (2, "", f"mgpu: {fault}\n")
    assert peer.bodies("POST", "/v1/jobs") == []


def test_a_later_attempt_is_announced(peer: Peer, mgpu: Callable) -> None:
    again = [{"event": "attempt", "attempt": 2}, state("RUNNING", attempt=2), output(b"2"), end("COMPLETED", attempt=2)]
    peer.streams = [[state("RUNNING"), output(b"1"), state("PENDING", attempt=1), *again]]
    ran = mgpu("srun", "prog")
    assert ran.out == "12"
    assert ran.err == WHERE + WHERE.replace("17", "17 (attempt 2)") + "mgpu: job 17 COMPLETED\n"


def test_a_master_that_comes_back_is_no_news(peer: Peer, mgpu: Callable) -> None:
    peer.streams = [
        [state("RUNNING"), {"event": "notice", "text": "no such folder there"}, output(b"ab"), CUT],
        [
            state("RUNNING"),
            {"event": "notice", "text": "no such folder there"},
            output(b"c", offset=2),
            end("COMPLETED"),
        ],
    ]
    ran = mgpu("srun", "prog")
    assert (ran.status, ran.out) == (0, "abc")
    assert ran.err == f"{WHERE}mgpu: no such folder there\nmgpu: job 17 COMPLETED\n"


def test_nodes_without_contact_are_told_and_those_that_are_back(
    peer: Peer, mgpu_process: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    first = {**job("RUNNING")["allocation"][0], "state": "RUNNING"}
    parts = [first, {**first, "rank": 1, "node": "gpu02"}]
    away = [first, {**parts[1], "state": "LOST", "lost_since": "2026-11-28T08:00:00Z"}]
    told, back = threading.Event(), threading.Event()
    peer.streams = [
        [
            state("RUNNING", allocation=away),
            told,
            state("RUNNING", allocation=parts),
            output(b"x"),
            back,
            end("COMPLETED", exit_code=0),
        ]
    ]
    process = mgpu_process("srun", "prog")
    stderr_until(process, b"no contact with gpu02 since 2026-11-28 08:00:00: job 17 stays there; ")
    told.set()
    stderr_until(process, b"mgpu: there is contact with gpu02 again\n")
    back.set()
    assert process.wait(30) == 0


def test_a_moment_without_contact_is_no_news(peer: Peer, mgpu: Callable) -> None:
    away = [{**job("RUNNING")["allocation"][0], "state": "LOST"}]
    peer.streams = [[state("RUNNING"), state("RUNNING", allocation=away), state("RUNNING"), end("COMPLETED")]]
    assert mgpu("srun", "prog").err == f"{WHERE}mgpu: job 17 COMPLETED\n"


def test_a_job_that_waits_says_why_unless_it_is_for_its_turn(peer: Peer, mgpu: Callable) -> None:
    first, hold = threading.Event(), threading.Event()
    threading.Timer(1.7, first.set).start()
    threading.Timer(3.4, hold.set).start()
    turn = state("PENDING", reason="Resources", detail="0 of 8 GPUs are free")
    pending = state("PENDING", reason="NodeDown", detail="gpu01: host key unknown: mgpu node trust gpu01")
    peer.streams = [[turn, first, pending, hold, state("RUNNING"), end("COMPLETED", exit_code=0)]]
    ran = mgpu("srun", "prog")
    because = "mgpu: job 17 waits: NodeDown: gpu01: host key unknown: mgpu node trust gpu01\n"
    assert ran.err == f"{because}{WHERE}mgpu: job 17 COMPLETED, exit 0\n"


def stderr_until(process: subprocess.Popen[bytes], words: bytes) -> bytes:
    assert process.stderr is not None
    seen = b""
    while words not in seen:
        assert select.select([process.stderr], [], [], 30)[0], f"only {seen!r} came"
        seen += os.read(process.stderr.fileno(), 65536)
        assert process.poll() is None or words in seen, seen
    return seen


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


def test_a_reader_that_goes_leaves_the_job(peer: Peer, mgpu_process: Callable) -> None:
    hold = threading.Event()
    peer.streams = [[state("RUNNING"), hold, output(b"x" * 4096), end("COMPLETED")]]
    process = mgpu_process("srun", "prog")
    stderr_until(process, b"runs on")
    process.stdout.close()
    hold.set()
    process.stdout = None
    _, err = process.communicate(timeout=30)
    assert process.returncode == 141
    assert b"job 17 goes on" in err and peer.bodies("POST", "/v1/cancel") == []


def test_a_reader_that_goes_after_the_job_is_told_so(peer: Peer, mgpu_process: Callable) -> None:
    peer.answers["GET", "/v1/jobs/17"] = job("COMPLETED", exit_code=0)
    peer.streams = [[state("RUNNING"), output(bytes(1 << 20)), end("COMPLETED", exit_code=0)]]
    process = mgpu_process("srun", "prog")
    assert process.stdout.read(1) == b"\0"
    process.stdout.close()
    process.stdout = None
    _, err = process.communicate(timeout=30)
    assert process.returncode == 141
    last = "nobody reads the output: job 17 has ended; see all of it with: mgpu logs 17"
    assert err.decode().splitlines()[-1] == f"mgpu: {last}"


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


def test_who_waits_for_output_alone_can_be_ended(peer: Peer, mgpu_process: Callable) -> None:
    """The job has ended, as a cancel is told; what is missing of its output shall keep nobody."""
    ended = {"job_id": 17, "code": "already_ended", "message": "job 17 has already ended", "hint": ""}
    peer.answers["POST", "/v1/cancel"] = {"cancelled": [], "errors": [ended]}
    peer.answers["GET", "/v1/jobs/17"] = job("FAILED", exit_code=3)
    hold = threading.Event()
    peer.streams = [[state("RUNNING"), output(b"x"), hold, end("COMPLETED", exit_code=0)]]
    process = mgpu_process("srun", "prog")
    assert process.stdout.read(1) == b"x"
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    hold.set()
    assert process.returncode == 3
    assert err.decode().endswith(
        "not waited for the rest of its output: job 17 has ended; see all of it with: mgpu logs 17\n"
    )


def test_who_would_type_to_a_shell_is_told_of_pty(peer: Peer, mgpu_process: Callable) -> None:
    def told(*words: str) -> bool:
        peer.streams = [[state("RUNNING"), end("COMPLETED", exit_code=0)]]
        ours, theirs = os.openpty()
        process = mgpu_process("srun", *words, stdin=theirs, stdout=theirs)
        _, err = process.communicate(timeout=30)
        os.close(ours)
        os.close(theirs)
        return b" has an empty stdin there; to type to it: mgpu srun --pty " in err

    assert told("bash", "-l")
    assert told("/usr/bin/python3")
    assert not told("python3", "train.py")
    assert not told("-i", "none", "bash")
    assert not told("-Q", "bash")


def test_notices_stand_below_where_the_job_runs(peer: Peer, mgpu: Callable) -> None:
    notice = {"event": "notice", "text": "in the home directory"}
    peer.streams = [[notice, state("RUNNING"), end("COMPLETED", exit_code=0)]]
    assert mgpu("srun", "prog").err.startswith(WHERE + "mgpu: in the home directory\n")


def after(peer: Peer, method: str, path: str) -> threading.Event:
    """Set once such a request has come."""
    come = threading.Event()
    threading.Thread(target=lambda: (peer.wait_for(method, path), come.set()), daemon=True).start()
    return come


def test_immediate_asks_once_more_why_not(peer: Peer, mgpu: Callable) -> None:
    peer.answers["GET", "/v1/jobs/17"] = job("PENDING", reason="Resources", detail="all busy")
    peer.streams = [[state("PENDING"), after(peer, "POST", "/v1/cancel"), end("CANCELLED")]]
    ran = mgpu("srun", "--immediate=0", "prog")
    assert (ran.status, "taken off the queue; it waited: Resources: all busy" in ran.err) == (75, True)


def test_immediate_leaves_what_has_just_begun(peer: Peer, mgpu: Callable) -> None:
    peer.answers["GET", "/v1/jobs/17"] = job("RUNNING")
    came = after(peer, "GET", "/v1/jobs/17")
    peer.streams = [[state("PENDING"), came, state("RUNNING"), end("COMPLETED", exit_code=0)]]
    assert mgpu("srun", "--immediate=0", "prog").status == 0
    assert peer.bodies("POST", "/v1/cancel") == []


def test_immediate_takes_the_job_back(peer: Peer, mgpu: Callable) -> None:
    gone = threading.Event()
    threading.Thread(target=lambda: (peer.wait_for("POST", "/v1/cancel"), gone.set())).start()
    peer.streams = [[state("PENDING", reason="Resources"), gone, end("CANCELLED", allocation=[])]]
    ran = mgpu("srun", "--immediate=0", "prog")
    assert ran.status == 75
    assert "did not start within 0 s (--immediate)" in ran.err


@pytest.mark.parametrize("option", ["--session-timeout", "--max-wait-time"])
def test_the_older_limits_end_the_following_alone(peer: Peer, mgpu: Callable, option: str) -> None:
    hold = threading.Event()
    peer.streams = [[state("RUNNING"), hold, end("COMPLETED")]]
    ran = mgpu("srun", option, "0", "prog")
    hold.set()
    assert ran.status == 75
    assert ran.err.endswith(
        f"stopped following after 0 s ({option}): job 17 goes on; go back to it with: mgpu attach 17\n"
    )
    assert peer.bodies("POST", "/v1/cancel") == []


@pytest.mark.parametrize("option", ["--connection-timeout=0", "--max-consecutive-timeouts=2"])
def test_a_lost_master_may_be_given_up(peer: Peer, mgpu: Callable, option: str) -> None:
    peer.streams = [[state("RUNNING"), CUT]] + [[CUT]] * 50
    ran = mgpu("srun", option, "prog")
    assert (ran.status, peer.bodies("POST", "/v1/cancel")) == (75, [])


def test_submit_interactive_follows(peer: Peer, mgpu: Callable) -> None:
    peer.streams = [[state("RUNNING"), output(b"x"), end("FAILED", exit_code=4)]]
    ran = mgpu("submit", "--interactive", "-o", "there", "--", "prog")
    assert (ran.status, ran.out) == (4, "x")
    (body,) = peer.bodies("POST", "/v1/jobs")
    assert (body["kind"], body["options"]) == ("batch", {"output": "there"})
