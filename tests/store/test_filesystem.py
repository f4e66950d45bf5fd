"""Which file system holds a folder, and on which a database cannot live."""

from __future__ import annotations

from pathlib import Path

import pytest

from mgpu.core.errors import StoreError
from mgpu.file_system import file_system_of, why_unfit
from mgpu.store import store

MOUNTS = """\
1 0 8:1 / / rw - ext4 /dev/vda rw
2 1 0:4 / /proc rw - proc proc rw
3 1 0:9 / /home rw shared:1 - nfs4 head:/export rw,vers=4.2
4 3 8:2 / /home/local rw - xfs /dev/vdb rw
5 1 0:7 / /srv rw - tmpfs tmpfs rw
6 1 0:8 / /srv rw - cifs //box/share rw
7 1 0:9 / /mnt/with\\040blank rw - nfs head:/x rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/mgpu", "ext4"),
        ("/home/alice/.local/state/mgpu", "nfs4"),
        ("/homework", "ext4"),
        ("/home/local/alice", "xfs"),
        ("/srv/mgpu", "cifs"),
        ("/mnt/with blank/x", "nfs"),
        ("/home", "nfs4"),
    ],
)
def test_the_deepest_and_last_mount_decides(tmp_path: Path, path: str, kind: str) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert file_system_of(path, str(mounts)) == kind


def test_nobody_says(tmp_path: Path) -> None:
    assert file_system_of("/", str(tmp_path / "none")) == ""
    (tmp_path / "odd").write_text("odd\n")
    assert file_system_of("/", str(tmp_path / "odd")) == ""


@pytest.mark.parametrize("kind", ["", "ext4", "xfs", "tmpfs", "btrfs", "zfs", "overlay", "fuseblk", "fuse.gocryptfs"])
def test_where_a_database_lives(kind: str) -> None:
    assert why_unfit(kind) == ""


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("nfs4", "network"),
        ("smb3", "network"),
        ("wekafs", "network"),
        ("fuse.ceph-fuse", "network"),
        ("fuse.sshfs", "network"),
        ("9p", "the machine that runs this one"),
        ("virtiofs", "the machine that runs this one"),
        ("fuse", "another program"),
        ("fuse.somebodys", "another program"),
    ],
)
def test_where_it_gets_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, words: str) -> None:
    monkeypatch.setattr(store, "file_system_of", lambda path: kind)
    with pytest.raises(StoreError, match=rf"{words}.*\({kind}\), where a database gets damaged"):
        store.Store.open(tmp_path / "state" / "mgpu.db")
    assert not (tmp_path / "state").exists()
