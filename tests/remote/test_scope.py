"""A program of the test's own stands where systemd-run would: it says that it was asked, and runs what follows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mgpu.remote import scope
from mgpu.remote.channel import LocalConnection

RUN = """#!/bin/sh
echo "$*" >>"$HOME/asked"
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""
UNIT = "0::/system.slice/mgpu.service\n"


@pytest.fixture
def prepare(clean_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    def put(cgroup: str, program: str) -> None:
        (clean_home / "systemd-run").write_text(program)
        (clean_home / "systemd-run").chmod(0o755)
        (clean_home / "cgroup").write_text(cgroup)
        monkeypatch.setenv("PATH", f"{clean_home}:{os.environ['PATH']}")
        monkeypatch.setattr(scope, "CGROUPS", clean_home / "cgroup")
        scope.scope_words.cache_clear()

    yield put
    scope.scope_words.cache_clear()


def said_by(connection: LocalConnection) -> bytes:
    channel = connection.open_channel("cat; echo done")
    channel.send(b"given ", 5)
    found = channel.receive(5)
    channel.close()
    return found


def test_shells_of_a_service_get_scopes(prepare: Callable[[str, str], None], clean_home: Path) -> None:
    prepare(UNIT, RUN)
    assert said_by(LocalConnection()) == b"given "
    assert said_by(LocalConnection()) == b"given "
    probe, *shells = (clean_home / "asked").read_text().splitlines()
    assert probe.endswith(" -- true")
    assert "--scope" in probe
    assert ("--user" in probe) is (os.geteuid() != 0)
    assert [line.partition(" -- ")[2] for line in shells] == ["/bin/sh -c cat; echo done"] * 2


@pytest.mark.parametrize(
    "cgroup",
    ["0::/\n", "0::/user.slice/user-1000.slice/session-3.scope\n", "12:memory:/docker/abc\n", "nonsense\n", ""],
)
def test_elsewhere_there_is_no_need(prepare: Callable[[str, str], None], clean_home: Path, cgroup: str) -> None:
    prepare(cgroup, RUN)
    assert said_by(LocalConnection()) == b"given "
    assert not (clean_home / "asked").exists()


def test_where_it_is_refused_jobs_run_all_the_same(prepare: Callable[[str, str], None], clean_home: Path) -> None:
    prepare(UNIT, "#!/bin/sh\necho 'Interactive authentication required.' >&2; exit 1\n")
    assert said_by(LocalConnection()) == b"given "
    (clean_home / "systemd-run").unlink()
    scope.scope_words.cache_clear()
    assert scope.scope_words() == ()
