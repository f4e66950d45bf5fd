"""Which files go along, where the job runs among them, and that the same tree is the same tar."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from mgpu.client import ship
from mgpu.client.http import MasterError
from mgpu.core.tree import TarReader

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="no git here")


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "protocol.file.allow=always"]
    told = subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True, text=True)
    return told.stdout.strip()


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(os.fsencode(name))


def look(cwd: Path, given: str = "", chdir: str = "") -> ship.Shipment:
    return ship.look(given, str(cwd), chdir)


def names(found: ship.Shipment) -> list[str]:
    return [os.fsdecode(entry.name) for entry in found.entries if entry.kind != tarfile.DIRTYPE]


def packed(found: ship.Shipment) -> tuple[bytes, str]:
    file, digest = ship.pack(found)
    with file:
        return file.read(), digest


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    write(folder, "train.py", "src/model.py", "runs/one.log", "gone.py", "sub/deep/a")
    (folder / ".gitignore").write_text("*.log\n")
    git(tmp_path, "init", "-q", "repo")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    return folder


@needs_git
def test_a_repository(repository: Path) -> None:
    found = look(repository)
    assert names(found) == [".gitignore", "gone.py", "src/model.py", "sub/deep/a", "train.py"]
    assert (found.place, found.git, found.dirty) == ("", True, False)
    assert found.commit == git(repository, "rev-parse", "HEAD")
    (repository / "gone.py").unlink()
    write(repository, "new.py", "other.log")
    found = look(repository)
    assert names(found) == [".gitignore", "new.py", "src/model.py", "sub/deep/a", "train.py"]
    assert found.dirty


@needs_git
def test_from_a_folder_of_it_all_goes_and_the_job_runs_there(repository: Path) -> None:
    found = look(repository / "sub/deep")
    assert (found.root, found.place) == (os.fsencode(repository), "sub/deep")
    assert "train.py" in names(found)
    only = look(repository / "sub/deep", "..")
    assert (names(only), only.place, only.commit) == (["deep/a"], "deep", found.commit)
    (repository / "train.py").write_text("changed")
    assert (look(repository).dirty, look(repository, "sub").dirty) == (True, False)
    assert look(repository, "sub", "sub/deep").place == "deep"
    with pytest.raises(MasterError, match="-D src: no folder of the tree"):
        look(repository, "sub", "src")
    assert look(repository.parent, "repo/sub").place == ""


@needs_git
def test_an_empty_folder_that_the_job_runs_in_is_part_of_the_tree(repository: Path) -> None:
    (repository / "out").mkdir()
    found = look(repository / "out")
    assert found.place == "out"
    assert b"out" in [entry.name for entry in found.entries]


@needs_git
def test_repositories_in_it_go_along_by_their_own_rules(repository: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    write(other, "lib.c", "lib.o")
    (other / ".gitignore").write_text("*.o\n")
    git(tmp_path, "init", "-q", "other")
    git(other, "add", "-A")
    git(other, "commit", "-qm", "one")
    git(repository, "submodule", "--quiet", "add", str(other), "deps/other")
    write(repository, "deps/other/new.c", "deps/other/new.o")
    git(repository, "init", "-q", "nested")
    write(repository, "nested/x", "nested/x.log")
    there = [name for name in names(look(repository)) if name.startswith(("deps", "nested"))]
    theirs = ["deps/other/.gitignore", "deps/other/lib.c", "deps/other/new.c"]
    assert there == [*theirs, "nested/x", "nested/x.log"]


@needs_git
def test_nothing_of_the_repository_is_run(repository: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    trap.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(trap))
    git(repository, "config", "core.hooksPath", str(tmp_path))
    (tmp_path / "post-index-change").symlink_to(trap)
    os.utime(repository / "train.py", (1, 1))
    look(repository)
    assert not (tmp_path / "ran").exists()


@needs_git
def test_variables_of_another_repository_do_not_count(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = names(look(repository))
    git(tmp_path, "init", "-q", "elsewhere")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere/.git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert names(look(repository)) == expected


@needs_git
@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_repository_of_somebody_else_is_told_as_git_sees_it(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SUDO_UID", raising=False)
    for path in (repository, repository / ".git"):
        os.chown(path, 12345, 12345)
    with pytest.raises(MasterError, match="git does not trust the repository") as told:
        look(repository)
    assert told.value.hint.endswith(f"git config --global --add safe.directory {repository}")


def test_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a.py", "data/big.bin", "data/keep.txt", "out/1.pt", "deep/out/2.pt")
    (tmp_path / "empty").mkdir()
    (tmp_path / ".mgpuignore").write_text("# what is large\n*.bin\n/out/\n")
    found = look(tmp_path)
    assert names(found) == [".mgpuignore", "a.py", "data/keep.txt", "deep/out/2.pt"]
    assert b"empty" in [entry.name for entry in found.entries]
    assert (found.git, found.commit, found.dirty) == (False, "", False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert names(look(tmp_path)) == names(found)
    (tmp_path / ".git").mkdir()
    with pytest.raises(MasterError, match="there is no git here"):
        look(tmp_path)


@needs_git
def test_a_home_is_not_sent_by_accident(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "own"
    write(home, "work/a", ".ssh/id_ed25519")
    (tmp_path / "way").symlink_to(home)
    monkeypatch.setenv("HOME", str(tmp_path / "way"))
    with pytest.raises(MasterError, match="is your home: all of it would go along, your keys too"):
        look(home)
    assert names(look(home / "work")) == ["a"]
    assert "work/a" in names(look(home, given="~"))
    git(home, "init", "-q")
    assert "work/a" in names(look(home))


def test_links(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    write(tree, "src/a", "b")
    write(tmp_path, "outside/secret")
    for name, target in {
        "good": "src/a",
        "src/up": "../b",
        "folder": "src",
        "hanging": "nothing",
        "absolute": str(tree / "b"),
        "out": "../outside/secret",
        "round": "round",
        "through": "src/../../outside",
    }.items():
        (tree / name).symlink_to(target)
    os.mkfifo(tree / "pipe")
    found = look(tree)
    links = {os.fsdecode(entry.name): entry.target for entry in found.entries if entry.kind == tarfile.SYMTYPE}
    assert links == {"good": b"src/a", "src/up": b"../b", "folder": b"src", "hanging": b"nothing"}
    told = sorted(notice.split()[2] for notice in found.notices)
    assert told == ["absolute", "out", "pipe", "round", "through"]


@needs_git
def test_a_folder_that_became_a_link(repository: Path) -> None:
    shutil.move(repository / "src", repository / "moved")
    (repository / "src").symlink_to("moved")
    there = names(look(repository))
    assert {"src", "moved/model.py"} <= set(there)
    assert "src/model.py" not in there


def test_the_same_tree_is_the_same_tar(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    files = ["b/x", "a", "b-c", os.fsdecode(b"n\xff"), "long" * 30 + "/" + "name" * 30]
    for folder, order in ((first, files), (second, files[::-1])):
        write(folder, *order)
        (folder / "a").chmod(0o700 if folder == first else 0o755)
        (folder / "link").symlink_to("b/x")
    os.utime(second / "a", (5, 5))
    (data, digest), (same, same_digest) = packed(look(first)), packed(look(second))
    assert (data, digest) == (same, same_digest)
    tar = gzip.decompress(data)
    assert hashlib.sha256(tar).hexdigest() == digest
    with tarfile.open(fileobj=io.BytesIO(tar), errors="surrogateescape") as read:
        assert {(info.uid, info.gid, info.uname, info.gname, info.mtime) for info in read} == {
            (0, 0, "", "", ship.MTIME)
        }
    (second / "a").chmod(0o644)
    assert packed(look(second))[1] != digest
    reader = TarReader(0)
    reader.feed(tar)
    reader.finish()
    assert (reader.digest, reader.files) == (digest, 6)


def test_too_large_names_the_largest(tmp_path: Path) -> None:
    for name, size in (("weights.pt", 3 << 20), ("small", 10), ("data/set.bin", 2 << 20)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(bytes(size))
    found = look(tmp_path)
    ship.check_size(found, 6 << 20)
    ship.check_size(found, 0)
    with pytest.raises(MasterError) as told:
        ship.check_size(found, 1 << 20)
    assert "5.0 MiB in 3 files" in told.value.message
    assert told.value.message.endswith("largest: weights.pt (3.0 MiB), data/set.bin (2.0 MiB)")
    assert ".mgpuignore" in told.value.hint


def test_what_cannot_be_sent_is_said(tmp_path: Path) -> None:
    with pytest.raises(MasterError, match="no such folder"):
        look(tmp_path, "nowhere")
    with pytest.raises(MasterError, match="holds no file"):
        look(tmp_path)
    write(tmp_path, "a")
    found = look(tmp_path)
    (tmp_path / "a").unlink()
    with pytest.raises(MasterError, match="/a: No such file"):
        ship.pack(found)
