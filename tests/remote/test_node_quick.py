"""The node's quick half: where there is perl it is used, and goes on as the shell wherever the way is not straight.
What jobs see of it is tested with all the rest, of which it is one of the kinds."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mgpu.remote.runner import ShellRunner
from mgpu.remote.wire import encode
from tests.remote.conftest import QUICK, Workbench, living, wait_until

WHO_WATCHES = "tr '\\0' ' ' </proc/$PPID/cmdline"


@pytest.fixture
def perl_bench(tmp_path: Path) -> Iterator[Workbench]:
    with closing(Workbench(tmp_path, QUICK)) as made:
        yield made


def by_whom(bench: Workbench, key: str) -> str:
    """What the process that ran the job is called."""
    return bench.output(key).decode().split()[0]


def test_a_plain_job_costs_no_shell_but_its_own(perl_bench: Workbench) -> None:
    assert perl_bench.run("1.1", WHO_WATCHES, perl_bench.devices(2), time_limit_s=60) == "0"
    assert by_whom(perl_bench, "1.1") == "mgpu-job-1.1"
    perl_bench.runner.clean(["1.1"])  # the first time the shell, which looks for what is old as well
    assert perl_bench.run("2.1", "true", job_file="text") == "0"
    perl_bench.runner.clean(["2.1"])
    assert {path.name for path in perl_bench.place("2.1").iterdir()} == {"pid", "exit", "clean"}


@pytest.mark.parametrize("launch", [{"output": "out"}, {"gang": True}, {"port": 23457}])
def test_what_it_does_not_know_the_shell_does(perl_bench: Workbench, launch: dict[str, object]) -> None:
    perl_bench.start("1.1", f"{WHO_WATCHES} >>{perl_bench.folder}/who", **launch)
    if launch.get("gang"):
        perl_bench.wait("1.1", "ready")
        perl_bench.runner.go("1.1", "run")
    assert perl_bench.exit_of("1.1") == "0"
    assert (perl_bench.folder / "who").read_text().startswith("sh -c ")


SETTINGS = ["-CSDA", "-MNoSuchModule", "-d", ":utf8", "/no 'such\"\n$(folder)"]


@pytest.mark.parametrize("value", SETTINGS)
def test_what_is_set_for_perl_is_the_jobs_alone(perl_bench: Workbench, value: str) -> None:
    names = ("PERL5OPT", "PERL5LIB", "PERL_UNICODE", "PERLIO", "LD_BIND_NOW")
    perl_bench.environ.update(dict.fromkeys(names, value))
    tell = "; ".join(f'printf "%s|" "${name}"' for name in names)
    assert perl_bench.run("1.1", f"{WHO_WATCHES}; {tell}; env | grep MGPU_AS_") == "1"
    assert perl_bench.output("1.1").decode() == f"mgpu-job-1.1 {f'{value}|' * 5}"


def test_a_place_of_any_name_has_its_events(perl_bench: Workbench) -> None:
    place = perl_bench.folder / "a\nb 'c\" $(d)"
    (place / "db/node001").mkdir(parents=True)
    perl_bench.runner = ShellRunner(perl_bench.login(encode(str(place))))
    perl_bench.start("1.1", WHO_WATCHES)
    wait_until((place / "db/node001/1.1/clean").is_symlink, "its end")
    assert by_whom(perl_bench, "1.1") == "mgpu-job-1.1"
    assert "1.1 ended = " in (place / "db/node001/events").read_text()


USELESS = {
    "none": "exit 127",
    "not the modules": '[ "$1" = -e ]',
    "dies": "case $1 in -e) exit 2 ;; esac",
    "says nothing": "case $1 in -e) sed p ;; esac",
}


@pytest.mark.parametrize("program", USELESS.values(), ids=USELESS)
def test_where_perl_is_of_no_use_everything_is_the_shells(perl_bench: Workbench, program: str) -> None:
    (perl_bench.bin / "perl").write_text(f"#!/bin/sh\n{program}\n")
    (perl_bench.bin / "perl").chmod(0o755)
    perl_bench.session._login_timeout_s = 2.0
    perl_bench.runner.reset()
    for number in (1, 2):
        assert perl_bench.run(f"{number}.1", WHO_WATCHES) == "0"
        assert by_whom(perl_bench, f"{number}.1") == "sh"
    assert perl_bench.session._quick.shell is None  # it is one of the spare shells
    perl_bench.runner.clean(["1.1", "2.1"])
    assert {path.name for path in perl_bench.place("2.1").iterdir()} == {"pid", "exit", "clean"}


def test_after_it_was_killed_another_one_starts_jobs(perl_bench: Workbench, mark: str) -> None:
    perl_bench.start("1.1", f"exec sleep {mark}")
    supervisor = perl_bench.wait("1.1", "pid").partition(":")[0]
    perl_bench.wait("1.1", "started")
    parent = Path(f"/proc/{supervisor}/stat").read_text().rpartition(") ")[2].split()[1]
    assert Path(f"/proc/{parent}/cmdline").read_bytes().startswith(b"mgpu-quick")
    os.kill(int(parent), signal.SIGKILL)
    assert perl_bench.run("2.1", WHO_WATCHES) == "0"
    assert by_whom(perl_bench, "2.1") == "mgpu-job-2.1"
    assert living(mark)
    assert perl_bench.stop("1.1") == ("ok", "stopping")
    assert perl_bench.exit_of("1.1") == "143"


@pytest.mark.parametrize("number", sorted(set(range(1, 32)) - {signal.SIGKILL, signal.SIGSTOP}))
def test_it_hears_no_signal_that_can_be_held_back(perl_bench: Workbench, number: int) -> None:
    assert perl_bench.run("1.1", f"kill -{number} $PPID; exit 7") == "7"


SHOW = """env; umask; pwd; grep flags /proc/self/fdinfo/0; grep -E '^Sig(Blk|Ign)' /proc/self/status
readlink /proc/self/fd/[0-8] || :"""


def test_a_job_sees_what_it_sees_under_the_shell(perl_bench: Workbench, tmp_path: Path) -> None:
    (tmp_path / "shell").mkdir()
    told = []
    with closing(Workbench(tmp_path / "shell", "dash")) as shell_bench:
        for bench in (shell_bench, perl_bench):
            assert bench.run("1.1", SHOW, time_limit_s=60) == "0"
            text = bench.output("1.1").decode().replace(str(bench.folder), "").replace(bench.tokens["1.1"], "")
            told.append({line for line in text.splitlines() if not line.startswith(("OLDPWD=", "_=", "SHLVL="))})
    assert told[0] == told[1]
    assert {line.partition("=")[0] for line in told[0] if line.startswith("MGPU_")} == {"MGPU_TOKEN"}


def test_who_watches_is_one_process_and_its_end_is_the_jobs(perl_bench: Workbench, mark: str) -> None:
    perl_bench.start("1.1", f"exec sleep {mark}")
    supervisor = perl_bench.wait("1.1", "pid").partition(":")[0]
    assert perl_bench.wait("1.1", "started").partition(":")[0] == supervisor
    wait_until(lambda: bool(living(mark)))
    os.kill(int(supervisor), signal.SIGKILL)
    wait_until(lambda: not perl_bench.look("1.1").alive)
    assert living(mark)
    assert perl_bench.stop("1.1", reason="ORPHANED") == ("ok", "stopping")
    assert perl_bench.exit_of("1.1") == "fail:supervisor:the job's supervising shell was killed"
    assert living(mark) == []


def test_all_that_descends_from_who_watches_is_the_jobs(perl_bench: Workbench, mark: str) -> None:
    """By that a stop and a signal know whom to tell; the timer, which it starts too, is none of them."""
    perl_bench.start("1.1", f"sleep {mark}; sleep {mark}", time_limit_s=600)
    wait_until(lambda: bool(living(mark)) and perl_bench.place("1.1").joinpath("timer").is_symlink())
    supervisor = perl_bench.wait("1.1", "started").partition(":")[0]
    (shell,) = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    assert Path(f"/proc/{shell}/task/{shell}/children").read_text().split() == [str(pid) for pid in living(mark)]
    perl_bench.runner.signal("1.1", perl_bench.tokens["1.1"], "B:15")
    assert perl_bench.exit_of("1.1") == "143"


def test_what_is_left_of_a_job_that_was_started_quickly_is_ended(perl_bench: Workbench, mark: str) -> None:
    assert perl_bench.run("1.1", f"setsid sleep {mark} & {WHO_WATCHES}") == "0"
    assert by_whom(perl_bench, "1.1") == "mgpu-job-1.1"
    assert living(mark) == []
    events = (perl_bench.place("1.1").parent / "events").read_text()
    assert " leftover " in events
    assert "1.1 ended " in events


def test_a_directory_reached_through_a_link_keeps_its_name(perl_bench: Workbench) -> None:
    (perl_bench.folder / "real").mkdir()
    (perl_bench.folder / "link").symlink_to("real")
    assert perl_bench.run("1.1", "pwd", directory=f"{perl_bench.folder}/link") == "0"
    assert perl_bench.output("1.1").decode() == f"{perl_bench.folder}/link\n"
    assert perl_bench.run("2.1", "pwd", directory=f"{perl_bench.folder}/link/../real/") == "0"
    assert perl_bench.output("2.1").decode() == f"{perl_bench.folder}/real\n"


def test_those_that_watched_leave_no_zombies(perl_bench: Workbench) -> None:
    for number in range(3):
        assert perl_bench.run(f"{number}.1", "true") == "0"
    watchers = [int(perl_bench.record(f"{number}.1", "pid").partition(":")[0]) for number in range(3)]  # type: ignore[union-attr]
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in watchers), "their end")
