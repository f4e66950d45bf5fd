"""The configuration as another process reads it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mgpu.config import apart
from mgpu.config.load import load
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
    with pytest.raises(ConfigError, match=r"cannot be read: (No such file|exit status 1|nothing was told)"):
        apart.load(main)


def test_one_that_hangs_is_given_up(main: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hangs = tmp_path / "python"
    hangs.write_text("#!/bin/sh\nexec sleep 1000\n")
    hangs.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(hangs))
    monkeypatch.setattr(apart, "LIMIT_S", 0.3)
    reading = apart.Reading(main)
    with pytest.raises(ConfigError, match="longer than"):
        reading.result()
    assert reading.process.returncode == -9


def test_a_master_is_without_what_reading_needs() -> None:
    line = "import mgpu.daemon, sys; sys.exit(int('pydantic' in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", line], capture_output=True, text=True, env=environment({}), check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
