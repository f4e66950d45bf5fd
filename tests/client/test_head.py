"""What ssh:// means, and the word that goes through a login shell."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from mgpu.client.head import LAUNCHER, Head, begin_word, parse_head, remote_command
from mgpu.client.http import MasterError
from mgpu.client.launcher import launcher, leave_launcher


@pytest.mark.parametrize(
    ("url", "head"),
    [
        ("ssh://head", Head("head")),
        ("ssh://head/", Head("head")),
        ("ssh://alice@head.example.org:2222", Head("head.example.org", "alice", 2222)),
        ("ssh://alice@lab@head", Head("head", "alice@lab")),
        ("ssh://[fe80::1%eth0]:22", Head("fe80::1%eth0", "", 22)),
        ("ssh://head?mgpu=~/venv/bin/mgpu", Head("head", mgpu="~/venv/bin/mgpu")),
        ("ssh://head:22/?mgpu=/opt/my tools/mgpu", Head("head", "", 22, "/opt/my tools/mgpu")),
    ],
)
def test_addresses(url: str, head: Head) -> None:
    assert parse_head(url) == head


@pytest.mark.parametrize(
    "url",
    [
        "ssh://", "ssh://-oProxyCommand=x", "ssh://-l@head", "ssh://a b", "ssh://alice:secret@head", "ssh://head:0",
        "ssh://head:70000", "ssh://head/socket", "ssh://head?mgpu=", "ssh://head?config=x", "ssh://head?mgpu=-x",
        "ssh://head?mgpu=$(id)", "ssh://head?mgpu=a'b", 'ssh://head?mgpu=a"b', "ssh://head?mgpu=`id`", "ssh://he\nad",
    ],
)  # fmt: skip
def test_what_is_none_is_refused(url: str) -> None:
    with pytest.raises(MasterError) as caught:
        parse_head(url)
    assert caught.value.exit_code == 2


def test_ssh_never_takes_the_host_for_an_option() -> None:
    assert parse_head("ssh://me@head:23").login == ["-p", "23", "-l", "me", "--", "head"]


SHELLS = [path for name in ("sh", "bash", "tcsh", "fish") if (path := shutil.which(name))]


def run(shell: str, head: Head, home: Path, start: bool = True) -> list[str]:
    """As sshd does it."""
    done = subprocess.run(
        [shell, "-c", remote_command(head, "abc", start)],
        env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.split("\n")


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("shell", SHELLS)
def test_the_recorded_program_is_found_whatever_the_login_shell(shell: str, clean_home: Path) -> None:
    assert run(shell, Head("h"), clean_home) == ["", f"{begin_word('abc')} missing", ""]
    program(clean_home / LAUNCHER, 'echo ran "$@"')
    assert run(shell, Head("h"), clean_home) == ["ran dial-stdio abc", ""]
    assert run(shell, Head("h"), clean_home, start=False) == ["ran dial-stdio --no-start abc", ""]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_path_that_was_named_is_the_only_one(shell: str, clean_home: Path) -> None:
    program(clean_home / LAUNCHER, "echo wrong")
    program(clean_home / "my tools" / "mgpu", 'echo mine "$@"')
    assert run(shell, Head("h", mgpu="~/my tools/mgpu"), clean_home) == ["mine dial-stdio abc", ""]
    assert run(shell, Head("h", mgpu=f"{clean_home}/my tools/mgpu"), clean_home) == ["mine dial-stdio abc", ""]
    assert run(shell, Head("h", mgpu="/no/mgpu"), clean_home) == ["", f"{begin_word('abc')} missing", ""]


def test_a_record_of_what_was_removed_is_passed_over(clean_home: Path) -> None:
    program(clean_home / LAUNCHER, "exec /no/python -m mgpu")
    assert run("/bin/sh", Head("h"), clean_home)[-2:] == [f"{begin_word('abc')} missing", ""]


def test_the_master_leaves_a_program_that_works(clean_home: Path) -> None:
    leave_launcher()
    path = clean_home / LAUNCHER
    assert path.read_text() == launcher()
    assert path.stat().st_mode & 0o777 == 0o700
    said = subprocess.run([path, "--version"], env={"PATH": "/bin"}, capture_output=True, text=True, check=True).stdout
    assert said.startswith("mgpu ")
    path.write_text("old")
    leave_launcher()
    assert path.read_text() == launcher()
    assert list(path.parent.iterdir()) == [path]
