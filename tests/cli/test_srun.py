"""srun with a real process, real pipes and signals, against a socket peer."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from mgpu.cli.sink import expand
from tests.cli.waits import after, stderr_until
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
