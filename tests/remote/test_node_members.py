"""The node's half: which processes are a job's: all that came from it, and no others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mgpu.remote import wire
from tests.remote.conftest import Workbench, living


def replace_in_program(monkeypatch: pytest.MonkeyPatch, place: str, ours: Path) -> None:
    *parts, quick = (part.replace(place.encode(), str(ours).encode()) for part in (*wire.parts(), wire.quick()))
    monkeypatch.setattr(wire, "parts", lambda: tuple(parts))
    monkeypatch.setattr(wire, "quick", lambda: quick)


ESCAPES = {
    "own session": "setsid sleep MARK &",
    "no hangup": "nohup sleep MARK >/dev/null 2>&1 &",
    "twice forked": "sh -c 'sleep MARK & exit' &",
    "no environment": "env -i setsid $(command -v sleep) MARK &",
    "ignores all": "setsid sh -c 'trap \"\" TERM HUP INT; sleep MARK; sleep MARK' &",
    "closed everything": "exec 9<&-; sleep MARK </dev/null >/dev/null 2>&1 &",
}


@pytest.fixture(params=[1, 4_194_304], ids=["searched", "looked at"])
def either_search(request: pytest.FixtureRequest, bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether all processes are searched or only those that began since: how many numbers the kernel has says which."""
    (bench.folder / "pid_max").write_text(f"{request.param}\n")
    replace_in_program(monkeypatch, "/proc/sys/kernel/pid_max", bench.folder / "pid_max")
    bench.runner.reset()


@pytest.mark.usefixtures("either_search")
def test_who_leaves_the_job_is_ended_with_it(bench: Workbench, mark: str) -> None:
    uuids = bench.devices(2)
    script = "\n".join(ESCAPES.values()).replace("MARK", mark)
    assert bench.run("1.1", f"{script}\nexit 3", uuids) == "3"
    assert bench.run("2.1", f"{script}\nsleep 0.2\nexit 3", uuids) == "3"
    assert living(mark) == []
    assert bench.run("3.1", "echo", uuids) == "0"


LOOKS = """
import os, sys, time
os.dup2(os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY), 9, inheritable=False)
print("looks", flush=True)
time.sleep(60)
"""


@pytest.mark.usefixtures("either_search")
def test_who_looks_into_the_run_directory_is_none_of_its_processes(bench: Workbench, mark: str) -> None:
    """As rm, du and backups do."""
    bench.start("1.1", f"until [ -e {bench.folder}/go ]; do sleep 0.05; done; setsid sleep {mark} &")
    bench.wait("1.1", "started")
    with subprocess.Popen([sys.executable, "-c", LOOKS, bench.place("1.1")], stdout=subprocess.PIPE) as looker:
        try:
            assert looker.stdout is not None and looker.stdout.readline() == b"looks\n"
            (bench.folder / "go").touch()
            assert bench.exit_of("1.1") == "0"
            assert living(mark) == []
            assert looker.poll() is None
        finally:
            looker.kill()


def test_how_many_numbers_there_are_is_read_whole(shell_bench: Workbench, mark: str) -> None:
    """Who reads that file byte by byte, as a shell does, is told its first digit alone."""
    shell_bench.start("1.1", f"exec sleep {mark}")
    supervisor = shell_bench.wait("1.1", "pid").split(":")[0]
    given = Path(f"/proc/{supervisor}/environ").read_bytes().split(b"\0")
    assert b"MGPU_MOST=" + Path("/proc/sys/kernel/pid_max").read_bytes().strip() in given
