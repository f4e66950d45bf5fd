"""The node's half: a stop that meets the beginning or the end of a command. Which of the two came first is exact."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep

import pytest

from mgpu.core.lifecycle import START_HANGS, News, PartEvent
from mgpu.core.model import AttemptState, JobId, NodeName, Part
from mgpu.core.reconcile import event_news, news_of
from tests.remote.conftest import SHELLS, Workbench, living, wait_until

ABORTED = "fail:aborted:stopped before it began"


def end_of(bench: Workbench, key: str) -> News:
    """As the records tell it; the event tells the same."""
    code = bench.exit_of(key)
    job, attempt = key.split(".")
    place = (JobId(int(job)), int(attempt), 0, NodeName("node001"), "", (), ())
    looked = news_of(Part(*place, AttemptState.RUNNING, started=1.0), bench.tokens[key], bench.answer(key))[-1]
    events = bench.place(key).parent / "events"
    wait_until(lambda: f"{key} ended " in events.read_text(), "the event")
    lines = events.read_text().splitlines()
    (heard,) = [
        news for line in lines for news in event_news(line, float) if line.startswith(f"{key} ended") and not news.stop
    ]
    assert (looked.event, looked.exit_code, looked.ended_by) == (heard.event, heard.exit_code, heard.ended_by)
    assert code == str(looked.exit_code)
    return looked


# --- its beginning ----------------------------------------------------------------------------------------------------


def test_a_start_is_given_up_only_before_the_command_begins(bench: Workbench, mark: str) -> None:
    bench.start("1.1", f"sleep {mark}")
    bench.wait("1.1", "started")
    wait_until(lambda: bool(living(mark)))
    assert bench.stop("1.1", reason=START_HANGS) == ("ok", "begun")
    assert bench.record("1.1", "stop") is None
    assert living(mark)
    assert bench.stop("1.1") == ("ok", "stopping")
    assert end_of(bench, "1.1").ended_by == "CANCEL"


def test_a_start_that_was_given_up_never_begins(bench: Workbench) -> None:
    bench.start("1.1", "echo ran", gang=True)
    bench.wait("1.1", "ready")
    for _ in range(2):
        assert bench.stop("1.1", reason=START_HANGS)[1] in ("stopping", "ended")
    bench.runner.go("1.1", "run")
    assert bench.exit_of("1.1") == ABORTED
    assert bench.record("1.1", "started") is None
    assert bench.output("1.1") == b""


def test_the_runner_that_comes_second_gives_way(bench: Workbench) -> None:
    """The stop has barred the way and has not gone on yet, when the runner is already past its look for one."""
    bench.start("1.1", "echo ran", gang=True)
    bench.wait("1.1", "ready")
    (bench.place("1.1") / "started").touch()
    bench.runner.go("1.1", "run")
    assert bench.exit_of("1.1") == ABORTED
    assert bench.output("1.1") == b""
    bench.runner.clean(["1.1"])
    assert {path.name for path in bench.place("1.1").iterdir()} == {"pid", "exit", "clean"}


def test_however_closely_they_meet_one_of_them_wins(bench: Workbench) -> None:
    for number in range(12):
        key = f"{number}.1"
        bench.start(key, "echo ran", gang=True)
        bench.wait(key, "ready")
        bench.runner.go(key, "run")
        sleep(0.008 * number)
        answer = bench.stop(key, reason=START_HANGS)[1]
        code = bench.exit_of(key)
        assert (code, bench.output(key)) == (("0", b"ran\n") if answer in ("begun", "ended") else (ABORTED, b""))


# --- its end ----------------------------------------------------------------------------------------------------------


def test_an_end_that_a_stop_brought_about(bench: Workbench, mark: str) -> None:
    bench.start("1.1", f"trap 'exit 0' TERM; sleep {mark} & wait")
    bench.wait("1.1", "started")
    wait_until(lambda: bool(living(mark)))
    bench.stop("1.1", grace_s=10, reason="ORPHANED")
    assert (end_of(bench, "1.1").exit_code, end_of(bench, "1.1").ended_by) == (0, "ORPHANED")
    assert bench.run("2.1", "trap 'exit 0' TERM; sleep 1000 & wait", time_limit_s=1) == "0"
    assert end_of(bench, "2.1").ended_by == "TIMEOUT"


@pytest.mark.parametrize("shell", SHELLS)
def test_the_grace_begins_when_its_processes_were_told(tmp_path: Path, mark: str, shell: str) -> None:
    """However long that took: here there is none at all."""
    bench = Workbench(tmp_path, shell)
    try:
        bench.start("1.1", f"sleep {mark}")
        wait_until(lambda: bool(living(mark)))
        assert bench.stop("1.1", grace_s=-1) == ("ok", "stopping")
        assert end_of(bench, "1.1").exit_code == 143
    finally:
        bench.close()


def test_an_end_that_could_not_be_written_down_at_first(bench: Workbench, mark: str) -> None:
    place, away = bench.place("1.1"), bench.place("away")
    bench.start("1.1", f"sleep {mark} & wait; exit 7")
    bench.wait("1.1", "started")
    wait_until(lambda: bool(living(mark)))
    runner = (place / "started").readlink().name.partition(":")[0]
    place.rename(away)
    os.kill(living(mark)[0], signal.SIGKILL)
    name = Path(f"/proc/{runner}/comm")  # where it is the supervisor too, that goes on as a shell
    wait_until(lambda: name.read_text() == "sh\n" if bench.quick else not name.exists(), "the runner's end")
    away.rename(place)
    assert end_of(bench, "1.1").exit_code == 7


def test_an_end_without_any_stop_is_its_own(bench: Workbench) -> None:
    assert bench.run("1.1", "exit 4") == "4"
    assert end_of(bench, "1.1").ended_by == ""


def test_a_stop_that_finds_only_what_the_command_left_behind_came_too_late(bench: Workbench, mark: str) -> None:
    bench.start("1.1", f"setsid sh -c 'trap \"\" TERM; sleep {mark}; sleep {mark}' & sleep 0.2; exit 0")
    bench.wait("1.1", "exit")
    assert bench.record("1.1", "clean") is None
    assert bench.stop("1.1", grace_s=0) == ("ok", "stopping")
    assert bench.record("1.1", "stop") == "CANCEL"
    assert (end_of(bench, "1.1").exit_code, end_of(bench, "1.1").ended_by) == (0, "")
    assert living(mark) == []


def test_who_writes_down_the_end_is_not_ended_with_the_job(bench: Workbench, mark: str) -> None:
    """However slow its tools are: here the one with which it reads what has ended the command."""
    slow = bench.bin / "readlink"
    slow.write_text(f'#!/bin/sh\ncase $* in */stop) sleep 1.5 ;; esac\nexec {shutil.which("readlink")} "$@"\n')
    slow.chmod(0o755)
    bench.start("1.1", f"trap 'exit 3' TERM; (trap '' TERM; sleep {mark}) & wait")
    bench.wait("1.1", "started")
    wait_until(lambda: bool(living(mark)))
    bench.stop("1.1", grace_s=0)
    assert (end_of(bench, "1.1").exit_code, end_of(bench, "1.1").ended_by) == (3, "CANCEL")


@pytest.mark.parametrize("code", [0, 7])
def test_who_ends_by_itself_without_its_supervisor_has_its_own_end(shell_bench: Workbench, code: int) -> None:
    shell_bench.start("1.1", f"while [ ! -e {shell_bench.folder}/go ]; do sleep 0.02; done; exit {code}")
    shell_bench.wait("1.1", "started")
    os.kill(int(shell_bench.wait("1.1", "pid").split(":")[0]), signal.SIGKILL)
    (shell_bench.folder / "go").touch()
    shell_bench.wait("1.1", "exit")
    assert shell_bench.stop("1.1", reason="ORPHANED") == ("ok", "stopping")
    ended = end_of(shell_bench, "1.1")
    assert (ended.event, ended.exit_code, ended.ended_by) == (PartEvent.EXITED, code, "")


def test_a_stop_after_a_reboot_finds_nothing_to_end(bench: Workbench) -> None:
    """Nor does it write down anything: the node went down, nobody killed the supervisor."""
    token = bench.tokens["1.1"] = "e" * 32
    place = bench.place("1.1")
    place.mkdir(parents=True)
    (place / "pid").symlink_to(f"1:2:another-boot:{token}")
    (place / "started").symlink_to("3:4.00:-")
    for reason in ("GANG", START_HANGS):
        assert bench.stop("1.1", reason=reason) == ("ok", "ended")
    assert {path.name for path in place.iterdir()} == {"pid", "started"}
    part = Part(JobId(1), 1, 0, NodeName("node001"), "", (), (), AttemptState.LOST, started=1.0, stop="GANG")
    assert [news.event for news in news_of(part, token, bench.answer("1.1"))] == [
        PartEvent.STARTED,
        PartEvent.REBOOTED,
    ]


@contextmanager
def few_files(folder: Path) -> Iterator[None]:
    folder.mkdir(exist_ok=True)
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "nr_inodes=60,mode=0700", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("only root can mount")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("limit_s", [None, 2])
def test_a_stop_that_cannot_be_written_down_is_carried_out(bench: Workbench, mark: str, limit_s: int | None) -> None:
    """Not one file more can be made, and when the job ends there is room again: its end is not taken for its own."""
    run = bench.folder / "run"
    with few_files(run):
        bench.place("1.1").parent.mkdir(parents=True)
        bench.start("1.1", f"trap 'rm {run}/full.*; exit 3' TERM; sleep {mark} & wait", time_limit_s=limit_s)
        bench.wait("1.1", "started")
        wait_until(lambda: bool(living(mark)))
        with pytest.raises(OSError, match="No space"):
            for number in range(100):
                (run / f"full.{number}").touch()
        if limit_s is None:
            assert bench.stop("1.1", grace_s=10) == ("ok", "stopping")
        assert (end_of(bench, "1.1").exit_code, end_of(bench, "1.1").ended_by) == (3, None)
        bench.tokens.clear()
