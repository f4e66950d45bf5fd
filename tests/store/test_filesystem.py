"""Which file system holds a folder."""

from pathlib import Path

import pytest

from mgpu.core.errors import StoreError
from mgpu.store import store
from mgpu.store.filesystem import network_type, type_of

MOUNTS = """\
/dev/vda / ext4 rw 0 0
proc /proc proc rw 0 0
head:/export /home nfs4 rw,vers=4.2 0 0
/dev/vdb /home/local xfs rw 0 0
tmpfs /srv tmpfs rw 0 0
//box/share /srv cifs rw 0 0
head:/x /mnt/with\\040blank nfs rw 0 0
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
def test_the_deepest_and_last_mount_decides(path, kind):
    assert type_of(Path(path), MOUNTS) == kind


def test_a_local_folder_is_fine(tmp_path):
    assert network_type(tmp_path / "not" / "there" / "yet") == ""


def test_a_store_on_a_network_file_system_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "network_type", lambda path: "nfs4")
    with pytest.raises(StoreError, match=r"network file system \(nfs4\)"):
        store.Store.open(tmp_path / "state" / "mgpu.db")
    assert not (tmp_path / "state").exists()
