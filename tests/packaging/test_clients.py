"""The clients in single files: with nothing but a bare Python, against a real master."""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path

import pytest

from scripts.packing import clients, master
from tests.end_to_end.cluster import Cluster
from tests.end_to_end.conftest import ClusterMaker
from tests.lab import Lab
from tests.packaging.built import Bare


@pytest.fixture
def served(lab: Lab, make_cluster: ClusterMaker) -> Cluster:
    made = make_cluster(lab)
    made("nodes")
    return made


@pytest.mark.parametrize("name", clients.NAMES)
def test_each_name_is_its_own_command(bare: Bare, name: str) -> None:
    assert bare.run(name, "--version").stdout.startswith("mgpu ")
    told = bare.run(name, "--help")
    shown = {"mgpu_queue": "mgpu queue", "mgpu_cancel": "mgpu cancel", "mgpu_srun": "mgpu srun"}.get(name, name)
    assert (told.returncode, told.stdout.startswith(f"Usage: {shown} ")) == (0, True)


def test_a_job_from_beginning_to_end(bare: Bare, served: Cluster) -> None:
    master = {"MGPU_MASTER": str(served.state_dir / "mgpu.sock")}
    done = bare.run("mgpu_client", "submit", "--gpus", 1, "--interactive", "-Q", "echo one; exit 3", **master)
    assert (done.returncode, done.stdout) == (3, "one\n")
    said = bare.run("mgpu_client", "submit", "--gpus", 1, "sleep 300", **master).stdout
    number = said.split()[-1]
    assert number in bare.run("mgpu_queue", **master).stdout
    assert bare.run("mgpu_cancel", number, **master).returncode == 0
    assert served.await_job(int(number))["state"] == "CANCELLED"
    assert bare.run("mgpu_srun", "-Q", "--", "echo", "on", **master).stdout == "on\n"


def test_without_a_master_it_starts_none_unless_mgpu_is_there(bare: Bare) -> None:
    alone = bare.run("mgpu_client", "queue")
    assert alone.returncode == 69
    assert alone.stderr.startswith(
        "mgpu: no master runs here, and this file is a client alone, which cannot start one: mgpu_master is one; or "
    )
    assert not (bare.home / ".local").exists()
    program = bare.home / "bin/mgpu"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "began: $*" >&2; exit 69\n')
    program.chmod(0o755)
    begun = bare.run("mgpu_client", "queue", PATH=f"{program.parent}:/usr/bin:/bin")
    assert "the master did not start: began: daemon --personal --state-dir" in begun.stderr


@pytest.mark.parametrize("words", [["daemon"], ["config", "check"], ["node", "add", "x"], ["doctor"]])
def test_what_is_not_in_it_is_said_in_a_line(bare: Bare, words: list[str]) -> None:
    done = bare.run("mgpu_client", *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("mgpu: this file is a client alone: ") and done.stderr.count("\n") == 1


def test_the_users_own_file_is_read(bare: Bare, served: Cluster) -> None:
    folder = bare.home / ".config/mgpu"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("env: {GREETING: hello}\n")
    master = {"MGPU_MASTER": str(served.state_dir / "mgpu.sock")}
    assert bare.run("mgpu_srun", "-Q", "sh", "-c", "echo $GREETING", **master).stdout == "hello\n"


def test_an_old_python_is_told_so(client_files: Path) -> None:
    """What it reads first is understood by any Python; here it runs with another version said to be its own."""
    before = beginning_of((client_files / "mgpu_client").read_bytes(), "from mgpu")
    line = told_by(before, (3, 6, 8))
    assert line.startswith("x: it needs Python 3.10 or newer, and this is 3.6.8 (/usr/bin/python3): run it by another")


def test_the_master_is_for_one_python_alone() -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("site-packages/x.py", "pass")
        archive.writestr("__main__.py", "import _bootstrap")
    before = beginning_of(master.told_apart(b"#!/usr/bin/env python3\n" + packed.getvalue()), "import os")
    major, minor = sys.version_info[:2]
    for other in ((2, 7, 18), (major, minor - 1, 9), (major, minor + 1, 0)):
        assert told_by(before, other).startswith(f"x: it needs Python {major}.{minor}, and this is {other[0]}.")
    assert told_by(before, (major, minor, 99)) == ""


def beginning_of(packed: bytes, until: str) -> str:
    assert packed.startswith(b"#!/usr/bin/env python3\n")
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        return archive.read("__main__.py").decode().partition(until)[0]


def told_by(before: str, version: tuple[int, int, int]) -> str:
    """What it says to a Python of that version; "" = nothing, it goes on."""
    assert not any(word in before for word in ('f"', "annotations", ":="))
    old = type("sys", (), {"version_info": version, "argv": ["/y/x"], "executable": "/usr/bin/python3"})
    told: list[str] = []
    old.exit = staticmethod(told.append)
    exec(compile(before.replace("import sys", ""), "__main__", "exec"), {"sys": old})
    return "".join(told)


def test_the_same_tree_makes_the_same_files(client_files: Path, tmp_path: Path) -> None:
    again = clients.build(tmp_path)
    assert {path.read_bytes() for path in again} == {(client_files / "mgpu_client").read_bytes()}
