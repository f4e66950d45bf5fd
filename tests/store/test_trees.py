"""Shipped trees on the disk: whole and looked through before they have their name, and away when nobody needs them."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from mgpu.core.errors import RequestError, StoreError
from mgpu.store.trees import KEEP_S, LATE_S, TREES_OF_ONE, Trees

UID = 1000


def tar_of(name: str = "a", data: bytes = b"x") -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.GNU_FORMAT) as tar:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
    return made.getvalue()


def digest_of(tar: bytes) -> str:
    return hashlib.sha256(tar).hexdigest()


def put(trees: Trees, data: bytes, digest: str, pieces: Iterable[int] = ()) -> None:
    incoming, at = trees.receive(UID, digest), 0
    try:
        for size in (*pieces, len(data)):
            incoming.write(data[at : at + size])
            at += size
        incoming.keep()
    finally:
        incoming.close()


@pytest.fixture
def trees(tmp_path: Path) -> Trees:
    return Trees(tmp_path / "trees", 1 << 20)


def there(trees: Trees, tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "trees").rglob("*") if path.is_file())


def test_a_tree(trees: Trees, tmp_path: Path) -> None:
    tar = tar_of(data=os.urandom(300_000))
    digest, data = digest_of(tar), gzip.compress(tar)
    assert not trees.wanted(UID, digest)
    with pytest.raises(StoreError, match="is gone"):
        trees.open(UID, digest)
    put(trees, data, digest, [1, 2, 3, 100_000])
    assert trees.wanted(UID, digest)
    assert not trees.wanted(UID + 1, digest)  # what others have sent says nothing
    file, size = trees.open(UID, digest)
    with file:
        assert file.read() == data
    assert size == len(data) == trees.size_of(UID)
    kept = tmp_path / "trees" / str(UID) / f"{digest}.tar.gz"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("piece", [7, 1000, 1 << 20])
def test_what_packs_well_comes_whole(trees: Trees, piece: int) -> None:
    tar = tar_of(data=bytes(1 << 20))
    data = gzip.compress(tar)
    put(trees, data, digest_of(tar), [piece] * (len(data) // piece))
    assert trees.wanted(UID, digest_of(tar))


def test_what_is_not_the_tree_of_that_name_leaves_nothing(trees: Trees, tmp_path: Path) -> None:
    tar = tar_of()
    digest, data = digest_of(tar), gzip.compress(tar)
    damaged = bytearray(data)
    damaged[len(data) // 2] ^= 0xFF
    escaping = tar_of("../../evil")
    large = tar_of(data=bytes(2 << 20))
    for what, name in (
        (data, digest_of(b"")),
        (data[:-4], digest),
        (bytes(damaged), digest),
        (data + b"more", digest),
        (data + data, digest),
        (tar, digest),
        (b"", digest),
        (gzip.compress(escaping), digest_of(escaping)),
        (gzip.compress(large), digest_of(large)),
        (gzip.compress(tar + bytes(1 << 30)), digest),
    ):
        with pytest.raises(RequestError):
            put(trees, what, name)
    assert there(trees, tmp_path) == []


def test_one_that_sends_without_end_is_cut_off(trees: Trees) -> None:
    incoming = trees.receive(UID, digest_of(b""))
    stored = gzip.compress(b"", 0)[:10]
    with pytest.raises(RequestError):
        incoming.write(stored)
        for _ in range(1000):
            incoming.write(b"\x00\xff\xff\x00\x00" + bytes(65535))
    incoming.close()
    incoming.close()


def test_what_nobody_needs_goes(trees: Trees, tmp_path: Path) -> None:
    now, names = 1e9, []
    for number, age in enumerate((0, KEEP_S - 1, KEEP_S + 1, KEEP_S + 1, LATE_S - 1)):
        tar = tar_of(str(number))
        names.append(digest_of(tar))
        put(trees, gzip.compress(tar), names[-1])
        os.utime(tmp_path / "trees" / str(UID) / f"{names[-1]}.tar.gz", (0, now - age))
    trees.forget({(UID, names[2])}, now)
    assert [trees.wanted(UID, name) for name in names] == [True, True, True, False, True]


def test_of_who_has_too_much_the_oldest_goes(tmp_path: Path) -> None:
    trees = Trees(tmp_path / "trees", 1 << 20)
    folder = tmp_path / "trees" / str(UID)
    folder.mkdir(parents=True)
    now = 1e9
    for number in range(TREES_OF_ONE + 5):
        path = folder / f"{number:064x}.tar.gz"
        with path.open("wb") as file:
            file.truncate(1 << 20)
        os.utime(path, (0, now - LATE_S - number * 10))
    oldest = TREES_OF_ONE + 4
    trees.forget({(UID, f"{oldest:064x}")}, now)
    left = sorted(int(path.name.partition(".")[0], 16) for path in folder.iterdir())
    assert left == [0, *range(1, TREES_OF_ONE), oldest]


def test_what_a_master_that_was_killed_left_half_goes(tmp_path: Path) -> None:
    trees = Trees(tmp_path / "trees", 0)
    incoming = trees.receive(UID, digest_of(b""))
    [half] = (tmp_path / "trees" / str(UID)).iterdir()
    needed = {(UID, digest_of(b""))}
    trees.forget(needed, half.stat().st_mtime + LATE_S - 1)
    assert half.exists()
    trees.forget(needed, half.stat().st_mtime + LATE_S + 1)
    assert not half.exists()
    incoming.close()


def test_a_disk_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "trees").write_text("in the way")
    with pytest.raises(StoreError, match="trees"):
        Trees(tmp_path / "trees", 0).receive(UID, digest_of(b""))
