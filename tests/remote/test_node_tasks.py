"""Several tasks of a command side by side, under the supervisor: signals, stops, and the end of one of them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from mgpu.core.model import Command, CommandForm
from tests.core.test_side_by_side import shell, tasks
from tests.remote.conftest import Workbench, living, wait_until

HEARS = """trap 'echo shell' USR1
sh -c 'trap "echo child" USR1; echo ready; while :; do sleep 0.05; done' & while :; do wait; sleep 0.05; done"""


def begun(bench: Workbench, key: str, command: Command, count: int = 2) -> None:
    assert bench.start(key, tasks(command, count).script) is None
    wait_until(lambda: bench.output(key).count(b"ready") == count, "the first word of all")


def said(bench: Workbench, key: str) -> list[bytes]:
    return sorted(word for word in bench.output(key).split() if word != b"ready")


def leftovers(bench: Workbench, key: str) -> bool:
    return f"{key} leftover " in (bench.place(key).parent / "events").read_text()


def test_a_signal_reaches_every_task_and_none_of_the_shells_around_them(bench: Workbench) -> None:
    script = Command(CommandForm.SCRIPT, (), f"#!/bin/sh\n{HEARS}\n", "x.sh")
    for key, word, heard in (
        ("1.1", "10", [b"child", b"child", b"shell", b"shell"]),
        ("2.1", "B:10", [b"shell", b"shell"]),
        ("3.1", "S:10", [b"child", b"child"]),
    ):
        assert bench.start(key, tasks(script, 2).script, job_file=script.script) is None
        wait_until(lambda key=key: bench.output(key).count(b"ready") == 2, "both")  # type: ignore[misc]
        wait_until(lambda key=key: (bench.place(key) / "tasks").is_symlink(), "their pids")  # type: ignore[misc]
        assert bench.runner.signal(key, bench.tokens[key], word) == "sent"
        wait_until(lambda key=key, heard=heard: said(bench, key) == heard, word)  # type: ignore[misc]
        assert bench.runner.signal(key, bench.tokens[key], "9") == "sent"
        assert bench.exit_of(key) == "137"


def test_one_that_fails_ends_the_others_and_nothing_is_called_left(bench: Workbench, mark: str) -> None:
    fails = 'while [ $(grep -c ready "${0%/*}/stdout") -lt 3 ]; do sleep 0.02; done; exit 3'
    begun(bench, "1.1", shell(f"echo ready; [ $RANK = 1 ] || exec sleep {mark}; {fails}"), 3)
    assert bench.exit_of("1.1") == "3"
    assert living(mark) == []
    assert not leftovers(bench, "1.1")
    assert b"task 1 on node001 ended with 3" in bench.output("1.1", "stderr")


def test_what_a_task_that_ended_well_left_is_told(bench: Workbench, mark: str) -> None:
    assert bench.run("1.1", tasks(shell(f"sleep {mark} >/dev/null 2>&1 &"), 2).script) == "0"
    assert living(mark) == []
    assert leftovers(bench, "1.1")


def test_a_stop_gives_each_task_its_time(bench: Workbench) -> None:
    line = "trap 'sleep 0.$((RANK * 4)); echo saved; exit 5' TERM; echo ready; while :; do sleep 0.02; done"
    begun(bench, "1.1", shell(line), 3)
    assert bench.stop("1.1", grace_s=10) == ("ok", "stopping")
    assert bench.exit_of("1.1") == "5"
    assert bench.output("1.1").count(b"saved") == 3
    assert not leftovers(bench, "1.1")


def test_a_task_killed_from_outside_is_a_failure_like_any(bench: Workbench, mark: str) -> None:
    begun(bench, "1.1", shell(f"echo ready; exec sleep {mark}"), 2)
    os.kill(living(mark)[0], signal.SIGKILL)
    assert bench.exit_of("1.1") == "137"
    assert living(mark) == []


def test_where_the_shell_that_hears_of_their_ends_was_killed_the_first_end_is_that_of_all(
    bench: Workbench, mark: str
) -> None:
    waits = 'while [ ! -e "${0%/*}/go" ]; do sleep 0.05; done'
    begun(bench, "1.1", shell(f"echo ready; [ $RANK = 1 ] || exec sleep {mark}; {waits}; exit 3"))
    runner = int(bench.wait("1.1", "started").split(":")[0])
    (script,) = children(runner)
    found: list[int] = []

    def seen() -> bool:
        found[:] = (pid for pid in children(script) if not children(pid))
        return bool(found)

    wait_until(seen, "the shell that hears of their ends")
    os.kill(found[0], signal.SIGKILL)
    (bench.place("1.1") / "go").touch()
    assert bench.exit_of("1.1") == "137"
    assert living(mark) == []


def children(pid: int) -> list[int]:
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
