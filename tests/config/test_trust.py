"""Trust in files: owners and modes, of the file, its folder, and where a link leads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mgpu.config import trusted


@pytest.fixture
def file(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "a b"
    folder.mkdir(mode=0o755)
    path = folder / "c.yaml"
    path.touch(mode=0o644)
    return path


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o444, 0o755])
def test_what_only_the_owner_can_write_is_trusted(file: Path, mode: int) -> None:
    file.chmod(mode)
    assert trusted(file) == ""


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666, 0o664])
def test_what_others_can_write_is_not(file: Path, mode: int) -> None:
    file.chmod(mode)
    assert trusted(file) == f"others can write {file}: chmod go-w '{file}'"


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1777])
def test_nor_is_what_others_can_replace(file: Path, mode: int) -> None:
    file.parent.chmod(mode)
    assert trusted(file) == f"others can write {file.parent}: chmod go-w '{file.parent}'"


def test_a_relative_path_is_judged_by_the_folder_it_lies_in(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    assert trusted(Path("c.yaml")) == ""
    file.parent.chmod(0o777)
    assert trusted(Path("c.yaml")) != ""


def test_both_ends_of_a_link_count(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "links" / "c.yaml"
    link.parent.mkdir(mode=0o755)
    link.symlink_to(file)
    assert trusted(link) == ""
    link.parent.chmod(0o777)
    assert str(link.parent) in trusted(link)
    link.parent.chmod(0o755)
    file.parent.chmod(0o777)
    assert str(file.parent) in trusted(link)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_another_owner_is_not_trusted(file: Path) -> None:
    os.chown(file, 12345, -1)
    assert trusted(file) == (f"{file} belongs to uid 12345, neither to you nor to root: copy it to a place of your own")


def test_a_missing_file_is_no_answer(file: Path) -> None:
    with pytest.raises(FileNotFoundError):
        trusted(file.parent / "none")
