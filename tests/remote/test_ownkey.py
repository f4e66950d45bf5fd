"""The key by which the master logs in as those who have enrolled."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mgpu.remote.errors import RemoteError, Trouble
from mgpu.remote.ownkey import OwnKey


def test_it_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    key = OwnKey(tmp_path)
    assert key.there() == ()
    path = key.file()
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in tmp_path.glob("*ed25519*")] == [path.name]
    assert OwnKey(tmp_path).public() == key.public()
    assert key.there() == (path,)
    by_openssh = subprocess.run(["ssh-keygen", "-y", "-f", path], capture_output=True, text=True, check=True).stdout
    assert by_openssh.split()[:2] == key.public().split()


def test_what_cannot_be_used_is_told_with_its_place(tmp_path: Path) -> None:
    key = OwnKey(tmp_path)
    key.file().write_text("no key")
    with pytest.raises(RemoteError, match=f"the master's own key {tmp_path}/enrolled_ed25519 cannot be used") as found:
        key.public()
    assert found.value.trouble is Trouble.UNPREPARED
    with pytest.raises(RemoteError, match="cannot be used: No such file"):
        OwnKey(tmp_path / "nowhere").file()


def test_nobody_slips_in_another_file(tmp_path: Path) -> None:
    """A link at the place of the draft is not written through."""
    target = tmp_path / "target"
    (tmp_path / ".enrolled_ed25519.new").symlink_to(target)
    assert OwnKey(tmp_path).file().is_file()
    assert not target.exists()
