"""The master's environment against the shell's, and who holds its lock."""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path

import pytest

from mgpu.core.finding import Finding
from mgpu.doctor.master import _flock_of, compare, holder_of

OURS = {"HOME": "/home/ann", "PATH": "/usr/bin:/bin", "SSH_AUTH_SOCK": ""}


def differs(**theirs: str) -> list[Finding]:
    return list(compare({**OURS, **theirs}, OURS))


def test_what_matters_for_a_login() -> None:
    assert differs() == []
    (home,) = differs(HOME="/")
    assert (home.status, home.text) == ("warning", "HOME of the master is /, here /home/ann")
    (no_ssh,) = differs(PATH="/nonexistent")
    assert no_ssh.status == "failure"
    assert no_ssh.text.startswith("the master finds no ssh in PATH=/nonexistent")
    assert differs(PATH="/nonexistent:/usr/bin") == []
    (gone,) = differs(SSH_AUTH_SOCK="/nonexistent/agent.1")
    assert "the ssh-agent of the master is gone: /nonexistent/agent.1" in gone.text


def test_another_ssh_agent(tmp_path: Path) -> None:
    ours = {**OURS, "SSH_AUTH_SOCK": str(tmp_path / "ours")}
    (none,) = compare(OURS, ours)
    assert none.text == "this shell has an ssh-agent, the master has none"
    assert "mgpu stop" in none.hint
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(tmp_path / "theirs"))
        (other,) = compare({**OURS, "SSH_AUTH_SOCK": str(tmp_path / "theirs")}, ours)
    assert other.text.startswith(f"the ssh-agent of the master is {tmp_path}/theirs, here ")


def test_who_holds_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert holder_of(str(path)) is None
    with path.open("w") as file:
        assert holder_of(str(path)) is None
        fcntl.flock(file, fcntl.LOCK_EX)
        assert holder_of(str(path)) == os.getpid()


@pytest.mark.parametrize(
    ("line", "pid"),
    [
        ("1: FLOCK  ADVISORY  WRITE 4242 fe:01:77 0 EOF", 4242),
        ("1: FLOCK  ADVISORY  WRITE 4242 fe:01:177 0 EOF", None),
        ("1: POSIX  ADVISORY  WRITE 4242 fe:01:77 0 EOF", None),
        ("2: -> FLOCK ADVISORY WRITE 4243 fe:01:77 0 EOF", None),
        ("", None),
    ],
)
def test_the_kernels_list_of_locks(line: str, pid: int | None) -> None:
    assert _flock_of(line, 77) == pid
