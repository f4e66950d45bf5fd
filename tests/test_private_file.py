from __future__ import annotations

import os
from pathlib import Path

import pytest

from mgpu import private_file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "state"
    made.mkdir()
    return made


@pytest.mark.parametrize("umask", [0o000, 0o777])
@pytest.mark.parametrize("mode", [0o600, 0o700])
def test_it_is_for_us_alone_under_any_umask(folder: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        private_file.write(folder / "key", b"secret", mode)
    finally:
        os.umask(before)
    assert (folder / "key").stat().st_mode & 0o777 == mode
    assert (folder / "key").read_bytes() == b"secret"
    assert [path.name for path in folder.iterdir()] == ["key"]


def test_what_was_there_gives_way_whole(folder: Path) -> None:
    """Also one that others could read, and a link, which is not followed."""
    (folder / "elsewhere").write_bytes(b"of somebody")
    (folder / "key").symlink_to("elsewhere")
    private_file.write(folder / "key", b"secret")
    assert (folder / "elsewhere").read_bytes() == b"of somebody"
    assert not (folder / "key").is_symlink()
    assert (folder / "key").stat().st_mode & 0o777 == 0o600


def test_where_it_cannot_take_its_place_nothing_is_left(folder: Path) -> None:
    (folder / "key").mkdir()
    with pytest.raises(OSError):
        private_file.write(folder / "key", b"secret")
    assert [path.name for path in folder.iterdir()] == ["key"]
    with pytest.raises(FileNotFoundError):
        private_file.write(folder / "none" / "key", b"secret")
