"""The configuration as another process reads it."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mgpu.config import apart
from mgpu.config.apart import NotRead
from mgpu.config.load import load
from mgpu.core import codec
from mgpu.core.errors import ConfigError
from mgpu.whereabouts import environment

FULL = """\
cluster: {name: lab}
inventory: inventory/
retention: {jobs: 30d}
partitions: {long: {max_time: 3-0}}
"""


@pytest.fixture
def main(tmp_path: Path) -> Path:
    path = tmp_path / "cluster_config.yaml"
    path.write_text(FULL)
    (tmp_path / "inventory").mkdir(mode=0o755)
    (tmp_path / "inventory/a.yaml").write_text("nodes: [{node_id: 'gpu[01-40]', gpu_count: 8, env: {A: 'ä b'}}]\n")
    return path


def test_it_is_the_same(main: Path) -> None:
    there, here = apart.load(main), load(main)
    assert there == here
    assert (there.files, there.implied) == (here.files, here.implied)
    assert apart.load(None) == load(None)


def test_faults_are_the_same(main: Path) -> None:
    main.write_text(FULL + "masster: {mode: personal}\nhealth: {unhealthy_after: x}\n")
    found = []
    for read in (apart.load, load):
        with pytest.raises(ConfigError) as caught:
            read(main)
        found.append(caught.value.faults)
    assert found[0] == found[1]
    assert len(found[0]) == 2


def test_from_a_folder_of_anybody_nothing_is_loaded(main: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (main.parent / "yaml.py").write_text("raise SystemExit(9)\n")
    monkeypatch.chdir(main.parent)
    assert apart.load(Path(main.name)) == load(main)


def test_what_the_python_of_a_site_says_is_none_of_it(
    main: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site").mkdir()
    says = "import atexit\nprint('hello', flush=True)\natexit.register(print, 'bye')\n"
    (tmp_path / "site/sitecustomize.py").write_text(says)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    assert apart.load(main) == load(main)


@pytest.mark.parametrize("program", ["/nonexistent/python", "/bin/false", "/bin/true"])
def test_a_python_that_is_of_no_use(main: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(sys, "executable", program)
    with pytest.raises(NotRead, match=r"cannot be read: (No such file|exit status 1|nothing was told)") as caught:
        apart.load(main)
    assert caught.value.exit_code == 69, "no fault of the file: a service is to try it again"


def test_without_room_for_what_is_told(main: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "memfd_create", full)
    with pytest.raises(NotRead, match="Too many open files"):
        apart.load(main)


def stands_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))


def test_one_that_hangs_is_given_up(main: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stands_in(tmp_path, monkeypatch, "exec sleep 1000")
    monkeypatch.setattr(apart, "LIMIT_S", 0.3)
    reading = apart.Reading(main)
    assert not reading.is_over
    with pytest.raises(NotRead, match="longer than"):
        reading.result()
    assert reading.process.returncode == -9


def test_what_it_leaves_behind_is_not_waited_for(main: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    python = sys.executable
    stands_in(tmp_path, monkeypatch, f'sleep 3 & exec {python} "$@"')
    monkeypatch.setattr(apart, "LIMIT_S", 2)
    assert apart.load(main) == load(main)


OTHERS = [
    {"cluster_name": "x", "of_a_later_one": 1},  # and what we know is missing
    {"nodes": [{"name": "a"}]},
    {"nodes": 7},
    "text",
]


@pytest.mark.parametrize("told", OTHERS)
def test_another_program_on_the_disk_is_told(
    main: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, told: object
) -> None:
    """An upgrade in the place of the one that runs."""
    (tmp_path / "told").write_text(json.dumps({"config": told}))
    stands_in(tmp_path, monkeypatch, f'printf %s "$3"; cat {tmp_path}/told; printf %s "$3"')
    with pytest.raises(NotRead, match="the program on the disk is another") as caught:
        apart.load(main)
    assert caught.value.hint == "mgpu restart"


def test_one_field_more_or_less_is_another_program(main: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    whole = codec.encode(load(main))
    stands_in(tmp_path, monkeypatch, f'printf %s "$3"; cat {tmp_path}/told; printf %s "$3"')
    for told in (whole, {**whole, "more": None}, {name: whole[name] for name in whole if name != "notify"}):
        (tmp_path / "told").write_text(json.dumps({"config": told}))
        if told is whole:
            assert apart.load(main) == load(main)
        else:
            with pytest.raises(NotRead):
                apart.load(main)


def test_a_relative_search_path_is_from_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    given = environment({"PYTHONPATH": "lib::/abs"})["PYTHONPATH"].split(os.pathsep)
    assert given[-2:] == [str(tmp_path / "lib"), "/abs"]


def test_a_master_is_without_what_reading_needs() -> None:
    line = "import mgpu.daemon, sys; sys.exit(int('pydantic' in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", line], capture_output=True, text=True, env=environment({}), check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
