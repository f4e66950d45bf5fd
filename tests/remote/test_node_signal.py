"""Signals for what runs: to whom they go, and to whom not."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from tests.remote.conftest import Workbench, wait_until

# a shell that waits for another, each of which says what it got
TWO = """trap 'echo first' USR1
sh -c 'trap "echo second" USR1; echo ready; while :; do sleep 0.05; done' &
while :; do wait; sleep 0.05; done"""


def send(bench: Workbench, key: str, word: str) -> str:
    return bench.runner.signal(key, bench.tokens[key], word)


def begun(bench: Workbench, key: str, script: str) -> None:
    bench.start(key, script)
    wait_until(lambda: b"ready" in bench.output(key), "its first word")


def said(bench: Workbench, key: str) -> list[bytes]:
    return sorted(set(bench.output(key).split()) - {b"ready"})


def test_all_the_first_or_all_but_its_shell(bench: Workbench) -> None:
    for key, word, heard in (
        ("1.1", "10", [b"first", b"second"]),
        ("2.1", "B:10", [b"first"]),
        ("3.1", "S:10", [b"second"]),
    ):
        begun(bench, key, TWO)
        assert send(bench, key, word) == "sent"
        wait_until(lambda key=key, heard=heard: said(bench, key) == heard, f"{word}")  # type: ignore[misc]
        assert send(bench, key, "9") == "sent"
        assert bench.exit_of(key) == "137"  # the command's own end: nothing wanted it stopped
        assert bench.record(key, "stop") is None
        assert said(bench, key) == heard


def test_a_shell_that_is_alone_is_not_spared(bench: Workbench) -> None:
    bench.start("2.1", "echo ready; exec sleep 1000")
    wait_until(lambda: bench.output("2.1") == b"ready\n")
    assert send(bench, "2.1", "S:15") == "sent"
    assert bench.exit_of("2.1") == "143"


def test_there_may_be_nobody_to_get_it(bench: Workbench) -> None:
    bench.run("1.1", "exit 3")
    assert send(bench, "1.1", "10") == "ended"
    bench.tokens["2.1"] = "none of it was ever started"
    assert bench.runner.signal("2.1", "ab" * 16, "10") == "ended"
    begun(bench, "3.1", "echo ready; exec sleep 1000")
    assert bench.runner.signal("3.1", "ab" * 16, "9") == "ended"  # of another database, or attempt
    assert bench.look("3.1").alive
    del bench.tokens["2.1"]


def test_what_left_the_session_gets_it_too(bench: Workbench, mark: str) -> None:
    far = "trap 'echo far' USR2; echo begun; while :; do sleep 0.05; done"
    bench.start("1.1", f'setsid sh -c "{far}" & trap "" USR2; echo ready; exec sleep {mark}')
    wait_until(lambda: set(bench.output("1.1").split()) == {b"begun", b"ready"})
    assert send(bench, "1.1", "12") == "sent"
    wait_until(lambda: b"far" in bench.output("1.1"))


def test_what_carries_a_terminal_is_no_part_of_the_job(bench: Workbench) -> None:
    job = "trap 'echo got' USR2; echo ready; while :; do sleep 0.05; done"
    for key, word in (("1.1", "12"), ("2.1", "B:12")):
        assert bench.start(key, f"exec sh -c {shlex.quote(job)}", input="24x80") is None
        wait_until(lambda key=key: b"ready" in bench.output(key), "its first word")  # type: ignore[misc]
        for _ in range(2):  # it is there to get another one
            assert send(bench, key, word) == "sent"
        wait_until(lambda key=key: b"got" in bench.output(key), "the signal")  # type: ignore[misc]
        assert bench.look(key).alive
        assert send(bench, key, "9") == "sent"
        assert bench.exit_of(key) == "137"


def test_nor_is_what_keeps_its_stdin_open(bench: Workbench) -> None:
    assert bench.start("1.1", TWO, input="pipe") is None
    wait_until(lambda: b"ready" in bench.output("1.1"), "its first word")
    assert send(bench, "1.1", "S:10") == "sent"
    wait_until(lambda: said(bench, "1.1") == [b"second"], "the signal")
    assert send(bench, "1.1", "B:10") == "sent"
    wait_until(lambda: said(bench, "1.1") == [b"first", b"second"], "the signal to the first")


def test_a_terminal_that_was_stopped_goes_on(bench: Workbench) -> None:
    job = "echo ready; read -r line; echo got"
    assert bench.start("1.1", f"exec sh -c {shlex.quote(job)}", input="24x80") is None
    wait_until(lambda: b"ready" in bench.output("1.1"), "its first word")
    carrier = next(
        stdin.parents[1]
        for stdin in Path("/proc").glob("[0-9]*/fd/0")
        if str(bench.place("1.1")) in os.path.realpath(stdin) and b"script" in (stdin.parents[1] / "comm").read_bytes()
    )
    assert send(bench, "1.1", "19") == "sent"
    wait_until(lambda: b") T " in (carrier / "stat").read_bytes(), "script's own stop")
    assert send(bench, "1.1", "18") == "sent"
    with bench.runner.feeding("1.1") as feed:
        feed.give(b"line\n")
        assert bench.exit_of("1.1") == "0"
