"""mgpu db where there is nothing yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from mgpu.cli.main import run
from mgpu.store.store import Store


@pytest.fixture
def none(tmp_path: Path) -> Path:
    """A state directory that is not there."""
    return tmp_path / "none" / "mgpu"


@pytest.mark.parametrize(
    "words", [["backup"], ["check"], ["vacuum"], ["migrate"], ["migrate", "--dry-run"]], ids=" ".join
)
def test_where_no_master_ever_was_the_folder_is_named(
    none: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--state-dir", str(none), "db", *words]) == 1
    assert f"{none}: No such file or directory" in capsys.readouterr().err
    assert not none.exists()


def test_a_backup_makes_a_state_directory(tmp_path: Path, none: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As on a machine that takes the place of another."""
    Store.open(tmp_path / "mgpu.db").close()
    assert run(["--state-dir", str(tmp_path), "db", "backup", str(tmp_path / "copy")]) == 0
    assert run(["--state-dir", str(none), "db", "restore", str(tmp_path / "copy")]) == 0
    assert capsys.readouterr().out.splitlines()[-3] == f"{tmp_path / 'copy'} is in place"
    assert none.stat().st_mode & 0o777 == 0o700
    assert run(["--state-dir", str(none), "db", "check"]) == 0


def test_a_file_that_is_no_backup_leaves_none_behind(
    tmp_path: Path, none: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other").write_text("no database")
    for file in (tmp_path / "other", tmp_path / "missing"):
        assert run(["--state-dir", str(none), "db", "restore", str(file)]) != 0
        assert str(file) in capsys.readouterr().err
        assert not none.exists()
