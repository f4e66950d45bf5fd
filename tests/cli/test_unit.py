"""The unit of systemd as text, read by systemd itself where it is here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mgpu.cli.service import unit
from mgpu.cli.service.master_line import MasterLine
from tests.cli.stand_ins import LINE, NASTY, settings


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("is_node", [False, True])
@pytest.mark.parametrize("place", ["/var/lib/mgpu", NASTY])
def test_systemd_finds_nothing_wrong_with_it(own: bool, is_node: bool, place: str, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze here")
    line = MasterLine(sys.executable, f"{NASTY}/lib", f"{NASTY}/c.yaml", place)
    path = tmp_path / "mgpu.service"
    path.write_text(unit.render(unit.Facts("mgpu", line, "root", own, is_node)))
    (tmp_path / "run").mkdir(mode=0o700)
    done = subprocess.run(
        ["systemd-analyze", *(["--user"] if own else []), "verify", path],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path / "run")},
        capture_output=True,
        text=True,
        check=False,
    )
    ours = [line for line in done.stderr.splitlines() if "mgpu" in line]
    assert (done.returncode, ours) == (0, [])


def as_systemd_reads(line: str) -> list[str]:
    """Words of a command line, as systemd.service(5) has them."""
    words, word, within, position = [], "", False, 0
    while position < len(line):
        letter = line[position]
        pair = line[position : position + 2]
        if pair in ("%%", "$$") or (letter == "\\" and within):
            word += pair[1]
            position += 1
        elif letter == '"':
            within = not within
        elif letter == " " and not within:
            words.append(word)
            word = ""
        else:
            assert letter not in "%$", line
            word += letter
        position += 1
    return [*words, word]


def test_its_command_line_is_what_was_meant() -> None:
    line = MasterLine("/usr/bin/python3", "", f"{NASTY}/c.yaml", f"{NASTY}/state")
    found = settings(unit.render(unit.Facts("mgpu", line, "gpuq", False, False)))["ExecStart"]
    assert as_systemd_reads(found) == line.words("daemon")


def test_stopping_it_ends_the_master_alone() -> None:
    for is_node in (False, True):
        found = settings(unit.render(unit.Facts("mgpu", LINE, "gpuq", False, is_node)))
        assert (found["Type"], found["KillMode"], found["OOMPolicy"]) == ("notify", "process", "continue")
        assert found["Restart"] == "on-failure"
        assert "WatchdogSec" in found
        assert "PrivateTmp" not in found
        assert (found["User"], found["WantedBy"]) == ("gpuq", "multi-user.target")
        assert (found["StateDirectory"], found["StateDirectoryMode"]) == ("mgpu", "0700")
    for_all = settings(unit.render(unit.Facts("mgpu", LINE, "gpuq", False, False, True)))
    assert for_all["StateDirectoryMode"] == "0711"


def test_there_is_room_for_many_nodes() -> None:
    """Of threads; descriptors are the master's own care."""
    for own in (False, True):
        for is_node in (False, True):
            found = settings(unit.render(unit.Facts("mgpu", LINE, "gpuq", own, is_node)))
            assert found["TasksMax"] == "infinity"


def test_jobs_of_this_machine_are_not_confined() -> None:
    for own in (False, True):
        node = settings(unit.render(unit.Facts("mgpu", LINE, "gpuq", own, True)))
        confining = ("Protect", "Private", "NoNew", "Lock", "RestrictS", "RestrictN", "RestrictA", "SystemCall")
        assert [name for name in node if name.startswith(confining)] == []
        head = settings(unit.render(unit.Facts("mgpu", LINE, "gpuq", own, False)))
        assert head["NoNewPrivileges"] == "yes"
        assert ("ProtectSystem" in head) is not own  # a user's systemd may not do that everywhere
        assert ("User" in head) is not own
