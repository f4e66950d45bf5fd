"""logs and attach, against a socket peer."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from mgpu.cli.sink import Sink
from mgpu.client.http import quote
from tests.client.peer import CUT, Peer, end, job, output, state

FROM_NOW = {"event": "begin", "offsets": [[1, 0, 1000], [2, 0, 50]]}


def stored(peer: Peer, number: int, stdout: bytes, stderr: bytes) -> None:
    """What is there of a job, in pieces of three bytes."""
    peer.answers["GET", f"/v1/jobs/{number}"] = {**job("RUNNING"), "job_id": number}
    path = f"/v1/jobs/{number}/output?stream={{}}&rank=0{{}}&limit=1048576"
    for name, data in (("stdout", stdout), ("stderr", stderr)):
        for offset in range(0, len(data) + 1, 3):
            where = f"&offset={offset}" if offset else ""
            fresh = "" if offset else "&fresh=1"
            head = {"X-Mgpu-Size": str(len(data)), "X-Mgpu-Offset": str(offset)}
            for query in ("", fresh):
                peer.answers["GET", path.format(name, where) + query] = (200, data[offset : offset + 3], head)


def test_each_stream_on_its_own(peer: Peer, mgpu: Callable) -> None:
    stored(peer, 17, b"abcdef", b"oh no\n")
    assert mgpu("logs", "17") == (0, "abcdef", "oh no\n")
    assert mgpu("logs", "17", "--stderr") == (0, "oh no\n", "")


def test_where_it_begins_is_the_masters_to_find(peer: Peer, mgpu: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    stored(peer, 17, b"", b"")
    zone = quote(f"UTC,{time.strftime('%z')}")
    path = f"/v1/jobs/17/output?stream=stderr&rank=0&tail=2&since=10m&zone={zone}&limit=1048576&fresh=1"
    peer.answers["GET", path] = (200, b"later", {"X-Mgpu-Size": "100", "X-Mgpu-Offset": "95"})
    assert mgpu("logs", "--stderr", "--tail", "2", "--since", "10m", "17") == (0, "later", "")
    assert [path for path in peer.paths() if "offset" in path] == []  # the end was reached at once


def owed(peer: Peer, monkeypatch: pytest.MonkeyPatch, *answers: tuple[bytes, str]) -> None:
    """What its node has not given yet, the first time somebody asks, and so on; the last again and again."""
    left = list(answers)
    stored(peer, 17, b"", b"")
    elsewhere = peer.answer_to

    def answer_to(method: str, path: str) -> Any:
        if "stream=stdout" not in path:
            return elsewhere(method, path)
        data, word = left.pop(0) if len(left) > 1 else left[0]
        return 200, data, {"X-Mgpu-Size": len(data), "X-Mgpu-Offset": 0, **({"X-Mgpu-Owed": word} if word else {})}

    monkeypatch.setattr(peer, "answer_to", answer_to)


def test_all_that_an_ended_job_wrote_is_waited_for(peer: Peer, mgpu: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    owed(peer, monkeypatch, (b"", "coming"), (b"ab", "coming"), (b"abc", ""))
    assert mgpu("logs", "17") == (0, "abc", "")


def test_what_its_nodes_do_not_give_is_said(peer: Peer, mgpu: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = "mgpu: job 17: not all of its output is here; the rest is fetched when its nodes answer again\n"
    owed(peer, monkeypatch, (b"ab", "away"))
    assert mgpu("logs", "17") == (0, "ab", missing)
    monkeypatch.setattr("mgpu.client.output.PATIENCE_S", 0.0)
    owed(peer, monkeypatch, (b"ab", "coming"))
    assert mgpu("logs", "17") == (0, "ab", missing)


def test_several_have_heads(peer: Peer, mgpu: Callable) -> None:
    stored(peer, 17, b"seven", b"")
    stored(peer, 18, b"eight\n", b"oh\n")
    ran = mgpu("logs", "17", "18", "17")
    assert ran == (0, "==> job 17 <==\nseven\n==> job 18 <==\neight\n", "==> job 18 <==\noh\n")
    assert mgpu("logs", "-l", "18", "17").out == "18.0: eight\n17.0: seven\n"


def test_one_that_is_not_there_keeps_nothing_back(peer: Peer, mgpu: Callable) -> None:
    stored(peer, 18, b"eight\n", b"")
    assert mgpu("logs", "4", "18") == (1, "==> job 18 <==\neight\n", "mgpu: no /v1/jobs/4: look\n")


def test_no_job_at_all(mgpu: Callable) -> None:
    assert mgpu("logs") == (2, "", "mgpu: which job? give its number: mgpu queue and mgpu history show them\n")
    assert mgpu("logs", "-f", *map(str, range(1, 60))).status == 2


def test_it_follows_to_the_end(peer: Peer, mgpu: Callable) -> None:
    peer.streams = [[state("RUNNING"), output(b"out"), output(b"err", kind=2), end("FAILED", exit_code=3)]]
    assert mgpu("logs", "-f", "17") == (0, "out", "err")
    peer.streams = [[state("RUNNING"), output(b"out"), output(b"err", kind=2), end("FAILED", exit_code=3)]]
    assert mgpu("logs", "-f", "--stderr", "17") == (0, "err", "")


def test_several_are_followed_at_once(peer: Peer, mgpu_process: Callable) -> None:
    """Whichever of them got which stream, the one that has not ended is waited for, and its news is shown at once."""
    hold = threading.Event()
    peer.streams = [
        [state("RUNNING"), output(b"one\n"), end("COMPLETED", exit_code=0)],
        [state("RUNNING"), output(b"two\n"), hold, output(b"more\n", offset=4), end("COMPLETED", exit_code=0)],
    ]
    process = mgpu_process("logs", "-f", "-l", "17", "18")
    first = sorted(process.stdout.readline() for _ in range(2))
    assert {line.partition(b": ")[2] for line in first} == {b"one\n", b"two\n"}
    hold.set()
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out.partition(b": ")[2], err) == (0, b"more\n", b"")


def test_an_interrupted_look_leaves_the_jobs(peer: Peer, mgpu_process: Callable) -> None:
    for words in (["17"], ["17", "18"]):
        hold = threading.Event()
        peer.streams = [[state("RUNNING"), output(b"first\n"), hold] for _ in words]
        process = mgpu_process("logs", "-f", "-l", *words)
        for _ in words:
            assert process.stdout.readline().endswith(b"0: first\n")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        hold.set()
        assert (process.returncode, err, peer.bodies("POST", "/v1/cancel")) == (130, b"", [])


def test_a_window_that_changes_its_size_ends_no_look(peer: Peer, mgpu_process: Callable) -> None:
    hold = threading.Event()
    peer.streams = [[state("RUNNING"), output(b"first\n"), hold, end("COMPLETED", exit_code=0)]]
    process = mgpu_process("logs", "-f", "17")
    assert process.stdout.readline() == b"first\n"
    for number in (signal.SIGWINCH, signal.SIGSTOP, signal.SIGCONT):
        process.send_signal(number)
    hold.set()
    process.communicate(timeout=30)
    assert process.returncode == 0


def test_a_rank_that_is_not_there_is_not_waited_for(peer: Peer, mgpu: Callable) -> None:
    peer.streams = [[state("PENDING"), state("RUNNING"), threading.Event()]]
    said = "mgpu: job 17 has no rank 1: its ranks are 0 to 0\n"
    assert mgpu("logs", "-f", "--rank", "1", "17") == (1, "", said)


def test_srun_goes_on_without_a_rank_to_show(peer: Peer, mgpu: Callable) -> None:
    peer.streams = [[state("RUNNING"), end("FAILED", exit_code=3)]]
    ran = mgpu("srun", "-Q", "--rank", "1", "prog")
    assert (ran.status, ran.err.splitlines()[0]) == (3, "mgpu: job 17 has no rank 1, so there is nothing to show")
    assert mgpu("srun", "--rank", "x", "prog").status == 2


def test_a_progress_bar_is_not_kept_back_for_its_label() -> None:
    sink = Sink("", "", True, 17, 0, lambda: None)
    said = [sink._labelled(1, 0, piece) for piece in (b"10%\r20%", b"\r", b"30%\r", b"\ndone", b"\r\n")]
    assert said == [b"0: 10%\r", b"", b"0: 20%\r", b"0: 30%\r\n", b"0: done\r\n"]


# --- attach ---------------------------------------------------------------------------------------------------------


def test_attach_goes_on_from_now_and_ends_as_the_job_does(peer: Peer, mgpu: Callable) -> None:
    new = [output(b"new\n", offset=1000), end("FAILED", exit_code=5)]
    peer.streams = [[state("RUNNING"), FROM_NOW, *new]]
    ran = mgpu("attach", "17")
    assert (ran.status, ran.out) == (5, "new\n")
    assert ran.err.startswith("mgpu: job 17 runs on gpu01 ") and ran.err.endswith("job 17 FAILED, exit 5 on gpu01\n")
    assert peer.paths()[1:] == ["/v1/jobs/17/stream?tail=0&session=1"]


@pytest.mark.parametrize(
    ("words", "query"),
    [
        (["--from-start"], "stdout=0&stderr=0"),
        (["--tail", "9"], "tail=9"),
        (["--rank", "1"], "rank=1&tail=0"),
    ],
)
def test_where_attach_begins(peer: Peer, mgpu: Callable, words: list[str], query: str) -> None:
    peer.streams = [[state("RUNNING"), end("COMPLETED", exit_code=0)]]
    assert mgpu("attach", *words, "17").status == 0
    assert peer.paths()[1:] == [f"/v1/jobs/17/stream?{query}&session=1"]


def test_after_a_cut_attach_goes_on_where_it_was(peer: Peer, mgpu: Callable) -> None:
    peer.streams = [
        [state("RUNNING"), FROM_NOW, output(b"a", offset=1000), CUT],
        [state("RUNNING"), output(b"b", offset=1001), end("COMPLETED", exit_code=0)],
    ]
    assert mgpu("attach", "17").out == "ab"
    assert peer.paths()[-1] == "/v1/jobs/17/stream?stdout=1001&stderr=50&attempt=1&session=1"


def test_of_a_job_that_waits_all_will_come(peer: Peer, mgpu: Callable) -> None:
    peer.streams = [
        [state("PENDING"), CUT],
        [state("RUNNING"), output(b"all"), end("COMPLETED", exit_code=0)],
    ]
    assert mgpu("attach", "17").out == "all"
    assert peer.paths()[-1] == "/v1/jobs/17/stream?stdout=0&stderr=0&session=1"


def test_attach_to_what_has_ended_tells_how(peer: Peer, mgpu: Callable) -> None:
    over: dict[str, Any] = {"exit_code": 3}
    peer.streams = [[state("FAILED", **over), FROM_NOW, end("FAILED", **over)]]
    assert mgpu("attach", "17") == (3, "", "mgpu: job 17 FAILED, exit 3 on gpu01\n")


def test_the_job_of_another_is_not_ended(peer: Peer, mgpu_process: Callable) -> None:
    refused = {"job_id": 17, "code": "not_allowed", "message": "job 17 belongs to bob: alice may not cancel it"}
    peer.answers["POST", "/v1/cancel"] = {"cancelled": [], "errors": [{**refused, "hint": ""}]}
    hold = threading.Event()
    peer.streams = [[state("RUNNING"), FROM_NOW, hold, end("COMPLETED", exit_code=0)]]
    process = mgpu_process("attach", "17")
    assert b"runs on" in process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    assert process.stderr.readline() == b"mgpu: job 17 belongs to bob: alice may not cancel it\n"
    hold.set()
    process.communicate(timeout=30)
    assert process.returncode == 0


def test_attach_needs_to_know_where(mgpu: Callable) -> None:
    assert mgpu("attach", "--from-start", "--tail", "3", "17").status == 2
    assert mgpu("--json", "attach", "17").status == 2
