from __future__ import annotations

import os
from pathlib import Path

import pytest

import mgpu
from mgpu.config.model import Config
from mgpu.master.links import Links
from mgpu.master.master import Master
from mgpu.master.outdated import FIRST_S, PERIOD_S, Outdated, Package
from mgpu.store.spool import Spool
from mgpu.store.store import Store
from tests.clocks import HandClock


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "mgpu"
    (made / "core").mkdir(parents=True)
    (made / "__init__.py").write_text(f'__version__ = "{mgpu.__version__}"\n')
    (made / "core" / "plan.py").write_text("x = 1\n")
    return made


def touch(path: Path, text: str) -> None:
    path.write_text(text)
    os.utime(path, ns=(1, path.stat().st_mtime_ns + 1))


def test_what_was_installed_since_is_told(folder: Path) -> None:
    outdated = Outdated(Package(folder))
    outdated.look(0)
    outdated.look(FIRST_S)
    assert outdated.notice == ""
    touch(folder / "__init__.py", '__version__ = "99.0"\n')
    outdated.look(FIRST_S + 1)
    assert outdated.notice == ""  # not looked at yet
    outdated.look(FIRST_S + PERIOD_S)
    assert "holds version 99.0 now" in outdated.notice
    assert "`mgpu restart`" in outdated.notice
    touch(folder / "__init__.py", f'__version__ = "{mgpu.__version__}"\n')
    outdated.look(FIRST_S + 2 * PERIOD_S)
    assert outdated.notice == ""  # the same again


def test_code_of_the_same_version_and_a_file_that_is_new(folder: Path) -> None:
    package = Package(folder)
    package.look()
    touch(folder / "core" / "plan.py", "x = 2\n")
    package.look()
    assert "holds other code now" in package.notice
    touch(folder / "core" / "plan.py", "x = 1\n")
    package.look()
    assert package.notice == ""
    (folder / "core" / "new.sh").write_text("true\n")
    package.look()
    assert package.notice != ""


def test_what_python_compiles_is_no_other_code(folder: Path) -> None:
    package = Package(folder)
    package.look()
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "x.pyc").write_text("x")
    package.look()
    assert package.notice == ""


def test_changed_before_it_was_ever_read(folder: Path) -> None:
    package = Package(folder)
    touch(folder / "core" / "plan.py", "x = 2\n")
    package.look()
    assert "holds other code now" in package.notice


def test_several_masters_of_one_process_know_what_it_began_as(folder: Path) -> None:
    package = Package(folder)
    package.look()
    touch(folder / "core" / "plan.py", "x = 2\n")
    later = Outdated(package)
    later.look(0)
    later.look(FIRST_S)
    assert later.notice != ""


def test_a_folder_that_is_gone(folder: Path) -> None:
    package = Package(folder)
    package.look()
    for path in (folder / "__init__.py", folder / "core" / "plan.py"):
        path.unlink()
    package.look()
    assert "holds version none now" in package.notice


def test_status_tells_it(folder: Path, tmp_path: Path) -> None:
    wall = HandClock(1000.0, 0.0)
    store = Store.open(tmp_path / "mgpu.db")
    master = Master(Config(None, ()), store, Spool(tmp_path / "spool"), lambda _inbox: Links({}), clock=wall)
    master._concerns.outdated = Outdated(Package(folder))
    master.tick()
    wall.passed = FIRST_S
    assert not master.errors()
    touch(folder / "core" / "plan.py", "x = 2\n")
    wall.passed += PERIOD_S
    master.tick()
    (line,) = master.errors()
    assert "`mgpu restart` takes it up" in line
    store.close()
