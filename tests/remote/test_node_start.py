"""The node's half: what starts, once only, and in which world."""

from __future__ import annotations

import os
import secrets
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mgpu.core.lifecycle import PartEvent
from mgpu.core.model import AttemptState, DeviceUuid, FailureClass, JobId, NodeName, Part
from mgpu.core.reconcile import news_of
from mgpu.remote.runner import Refusal, ShellRunner
from tests.remote.conftest import Workbench, living, wait_until


def part_of(key: str) -> Part:
    job, attempt = key.split(".")
    return Part(JobId(int(job)), int(attempt), 0, NodeName("node001"), "", (), (), AttemptState.STARTING)


def of_its_session(bench: Workbench, key: str) -> set[int]:
    """Pids of what lives of a job, its two shells among them."""
    leader = bench.record(key, "pid").partition(":")[0]
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            session = (entry / "stat").read_text().rpartition(") ")[2].split()[3] if entry.name.isdigit() else ""
        except OSError:
            continue
        if session == leader:
            found.add(int(entry.name))
    return found


def test_the_same_start_from_eight_connections_starts_once(bench: Workbench) -> None:
    runs = bench.folder / "runs"
    runners = [ShellRunner(bench.login()) for _ in range(8)]
    bench.tokens["1.1"] = secrets.token_hex(16)
    with ThreadPoolExecutor(8) as pool:
        answers = list(
            pool.map(lambda runner: bench.start("1.1", f"echo run >>{runs}; sleep 0.2", runner=runner), runners)
        )
    assert answers == [None] * 8
    assert bench.exit_of("1.1") == "0"
    assert runs.read_text() == "run\n"
    assert {path.name for path in bench.place("1.1").iterdir()} >= {"script", "pid", "exit"}
    assert not list(bench.place("1.1").glob("script.*"))


def test_a_start_that_was_cut_off_in_the_middle_is_written_anew(bench: Workbench) -> None:
    place = bench.place("1.1")
    place.mkdir(parents=True)
    (place / "script").write_text("echo wro")
    (place / "job").write_text("hal")
    assert bench.run("1.1", 'cat "${0%/*}/job"; ls "${0%/*}/bin"', job_file="whole\n") == "0"
    assert bench.output("1.1") == b"whole\nscontrol\n"


def test_who_never_asks_for_own_programs_has_none(quick_bench: Workbench) -> None:
    assert quick_bench.run("1.1", "true") == "0"
    assert not (quick_bench.place("1.1") / "bin").exists()


def test_another_token_starts_nothing(bench: Workbench) -> None:
    runs = bench.folder / "runs"
    bench.start("1.1", f"echo first >>{runs}; sleep 0.3")
    bench.wait("1.1", "pid")
    other = secrets.token_hex(16)
    first, bench.tokens["1.1"] = bench.tokens["1.1"], other
    bench.start("1.1", f"echo second >>{runs}")
    (news,) = news_of(part_of("1.1"), other, bench.answer("1.1"))
    assert (news.event, news.failure) == (PartEvent.LAUNCH_FAILED, FailureClass.NODE)
    bench.tokens["1.1"] = first
    assert bench.exit_of("1.1") == "0"
    assert runs.read_text() == "first\n"


def test_a_fence_before_the_start_holds(bench: Workbench) -> None:
    bench.tokens["1.1"] = secrets.token_hex(16)
    assert bench.stop("1.1") == ("ok", "fenced")
    bench.start("1.1", f"echo run >{bench.folder}/runs")
    assert bench.record("1.1", "pid") == "fenced"
    assert bench.stop("1.1") == ("ok", "fenced")
    assert not (bench.folder / "runs").exists()


def test_a_stop_right_after_the_start_leaves_nothing(bench: Workbench) -> None:
    mark = f"{secrets.randbelow(10**6)}.{secrets.randbelow(10**6)}"
    for number in range(4):
        key = f"{number}.1"
        bench.start(key, f"exec sleep 1000{mark}")
        if bench.stop(key, grace_s=10) == ("ok", "stopping"):
            assert bench.exit_of(key) in ("143", "fail:aborted:stopped before it began")
        else:
            assert bench.record(key, "pid") == "fenced"
    assert living(f"1000{mark}") == []


def test_late_bytes_of_a_start_after_the_cleaning_start_nothing(bench: Workbench) -> None:
    runs = bench.folder / "runs"
    assert bench.run("1.1", f"echo run >>{runs}", job_file="hello\n") == "0"
    bench.runner.clean(["1.1"])
    assert {path.name for path in bench.place("1.1").iterdir()} == {"pid", "exit", "clean"}
    assert bench.start("1.1", f"echo run >>{runs}") is None
    assert bench.record("1.1", "started") is None
    assert runs.read_text() == "run\n"


def test_a_gang_waits_for_the_word(bench: Workbench) -> None:
    for key in ("1.1", "2.1", "3.1"):
        bench.start(key, "echo ran", gang=True)
        bench.wait(key, "ready")
        assert bench.record(key, "started") is None
    assert bench.runner.go("1.1", "run") == "run"
    assert bench.runner.go("1.1", "abort") == "run"
    assert bench.runner.go("2.1", "abort") == "abort"
    assert bench.stop("3.1") == ("ok", "stopping")
    assert bench.exit_of("1.1") == "0"
    assert bench.output("1.1") == b"ran\n"
    assert bench.exit_of("2.1") == "fail:aborted:the other nodes were not ready"
    assert bench.exit_of("3.1") == "fail:aborted:stopped before it began"
    assert bench.output("2.1") == bench.output("3.1") == b""


def test_a_pipe_in_place_of_the_events_is_waited_for_by_nobody(bench: Workbench) -> None:
    assert bench.run("1.1", "true") == "0"
    events = bench.place("1.1").parent / "events"
    events.unlink()
    os.mkfifo(events)
    assert bench.run("2.1", "true") == "0"
    told = bench.runner.events()
    assert next(told) == ""
    assert bench.run("3.1", "true") == "0"
    assert next(told).startswith("3.1 ")  # the first may have come before anybody listened


def test_while_it_waits_for_the_word_it_begins_no_process(bench: Workbench) -> None:
    bench.start("1.1", "echo ran", gang=True)
    bench.wait("1.1", "ready")
    seen: list[set[int]] = []

    def nothing_new() -> bool:
        seen.append(of_its_session(bench, "1.1"))
        return len(seen) > 20 and all(one == seen[-1] for one in seen[-20:])

    wait_until(nothing_new)
    bench.runner.go("1.1", "run")
    assert bench.exit_of("1.1") == "0"


@pytest.mark.parametrize("address", ["127.0.0.1", "::"])
def test_where_somebody_listens_already_nothing_starts(bench: Workbench, address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as other:
        other.bind((address, 0))
        port = other.getsockname()[1]
        assert bench.run("1.1", "echo ran", port=port) == "0"  # it is bound, and nobody listens
        other.listen()
        text = f"fail:port:port {port}, where its ranks were to meet, is in use here"
        assert bench.run("2.1", "echo ran", port=port) == text
    bench.start("3.1", "echo ran", gang=True, port=port)
    bench.wait("3.1", "ready")


@pytest.mark.parametrize(
    ("words", "stop"),
    [
        ("[Errno 98] EADDRINUSE at port {port}.", "PORT"),
        ("failed to bind to [::]:{port} (errno: 98 - Address already in use)", "PORT"),
        ("failed to bind to [::]:1{port} (errno: 98 - Address already in use)", None),  # another port
        ("cannot reach port {port} of the others", None),
    ],
)
def test_a_command_that_finds_its_port_in_use(bench: Workbench, words: str, stop: str | None) -> None:
    said = words.format(port=23456)
    assert bench.run("1.1", f"echo '{said}' >&2; exit 3", port=23456) == "3"
    assert bench.record("1.1", "stop") == stop
    news = news_of(part_of("1.1"), bench.tokens["1.1"], bench.answer("1.1"))[-1]
    assert (news.exit_code, news.ended_by) == (3, stop or "")
    assert bench.run("2.1", f"echo '{said}' >&2", port=23456) == "0"
    assert bench.record("2.1", "stop") is None


@pytest.mark.parametrize("locale", [{}, {"LANG": "C.UTF-8"}, {"LANG": "C", "LC_ALL": "C.UTF-8"}])
def test_the_jobs_environment_is_the_logins(bench: Workbench, locale: dict[str, str]) -> None:
    """Also for names that a program as long as the node's half might have taken for itself."""
    own = locale | dict.fromkeys(("TOKEN", "HOSTNAME", "OUT", "D", "V", "P", "NAME", "STATUS", "ID", "UUIDS"), "mine")
    bench.environ |= own
    bench.runner.reset()
    assert bench.run("1.1", "env", bench.devices(2), output="out") == "0"
    env = dict(line.split("=", 1) for line in (bench.home / "out").read_text().splitlines())
    for made_by_shells in ("PWD", "OLDPWD", "_", "SHLVL"):
        env.pop(made_by_shells, None)
    path = env.pop("PATH").split(":")
    assert env == own | {"HOME": str(bench.home), "MGPU_TOKEN": bench.tokens["1.1"]}
    wanted = bench.environ["PATH"].split(":")
    assert path[: len(wanted)] == wanted
    assert set(path[len(wanted) :]) <= {f"{up}/{name}" for up in ("", "/usr", "/usr/local") for name in ("bin", "sbin")}
    assert len(path) - len(set(path)) == len(wanted) - len(set(wanted))


WHAT_A_PROGRAM_SEES = """
import os, re
print(os.readlink("/proc/self/fd/0"))
print(oct(os.umask(0)))
print(re.search(r"SigIgn:.(.*)", open("/proc/self/status").read())[1])
print(*(os.readlink(f"/proc/self/fd/{number}") for number in range(1, 5) if os.path.exists(f"/proc/self/fd/{number}")))
"""


def test_the_jobs_descriptors_and_signals(bench: Workbench) -> None:
    script = f"exec {sys.executable} -c '{WHAT_A_PROGRAM_SEES}'"
    assert bench.run("1.1", script, bench.devices(3)) == "0"
    stdin, mask, ignored, files = bench.output("1.1").decode().splitlines()
    assert stdin == "/dev/null"
    assert mask == "0o22"
    interrupt_and_quit = 1 << 1 | 1 << 2
    assert int(ignored, 16) & interrupt_and_quit == 0
    place = bench.place("1.1")
    assert files.split()[:2] == [f"{place}/stdout", f"{place}/stderr"]
    assert "lease" not in files


def test_a_megabyte_of_script(bench: Workbench) -> None:
    text = "v'x\\ y\n" * 150_000
    assert bench.run("1.1", f"cat <<'END'\n{text}END", job_file=text) == "0"
    assert bench.output("1.1").decode() == text
    assert (bench.place("1.1") / "job").read_text() == text


@pytest.mark.parametrize("run_dir", ["/proc/nowhere", "/dev/null/below"])
def test_a_run_directory_that_cannot_be_made(bench: Workbench, run_dir: str) -> None:
    runner = ShellRunner(bench.login(run_dir))
    refused = bench.start("1.1", "echo", runner=runner)
    assert isinstance(refused, Refusal)
    assert run_dir in refused.text
    bench.tokens.clear()


# --- leases -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 8])
def test_a_second_job_on_a_device_is_a_newcomer(bench: Workbench, count: int) -> None:
    uuids = bench.devices(count)
    bench.start("1.1", "sleep 1000", uuids)
    bench.wait("1.1", "started")
    for number, uuid in enumerate(uuids):
        said = bench.run(f"2.{number}", "echo", [uuid])
        assert said.startswith(f"fail:newcomer:the lease of {uuid} is held by pid "), said
        holder = int(said.split(" pid ")[1].split()[0])
        assert f"lease.{uuid}" in " ".join(open_files(holder))
    bench.stop("1.1")
    assert bench.exit_of("1.1") == "143"
    assert bench.run("3.1", "echo", uuids) == "0"


def open_files(pid: int) -> list[str]:
    return [str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()]


def test_a_device_is_free_when_it_is_clean(bench: Workbench) -> None:
    """As soon as the record says so, and without a single round in which it is not."""
    uuids = bench.devices(2)
    for number in range(4):
        assert bench.run(f"{number}.1", "sleep 0.01 & true", uuids) == "0"


@pytest.mark.parametrize("kind", ["link", "file"])
def test_an_obstructed_lease_is_the_nodes_trouble(bench: Workbench, kind: str) -> None:
    (uuid,) = bench.devices(1)
    lease = bench.lease(uuid)
    if kind == "link":
        lease.symlink_to(bench.home)
    else:
        lease.touch()
    assert bench.run("1.1", "echo", [uuid]) == f"fail:node:lock path {lease} is obstructed"


def test_several_devices_are_asked_for_in_one_order(bench: Workbench) -> None:
    """Two masters that want the same two devices: exactly one of them gets both."""
    uuids = bench.devices(2)
    runners = [ShellRunner(bench.login()) for _ in range(2)]
    for number in range(3):
        keys = [f"{number}.1", f"{number}.2"]
        wanted: list[tuple[str, ShellRunner, list[DeviceUuid]]] = [
            (keys[0], runners[0], uuids),
            (keys[1], runners[1], uuids[::-1]),
        ]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda one: bench.start(one[0], "sleep 1000", one[2], runner=one[1]), wanted))
        outcomes = [bench.wait(key, "started") if not _failed(bench, key) else "newcomer" for key in keys]
        assert outcomes.count("newcomer") == 1
        for key in keys:
            bench.stop(key)
            bench.exit_of(key)


def _failed(bench: Workbench, key: str) -> bool:
    wait_until(lambda: bool(bench.look(key).records.keys() & {"exit", "started"}), f"outcome of {key}")
    return "started" not in bench.look(key).records
