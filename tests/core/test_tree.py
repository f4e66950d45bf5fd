"""The tar of a shipped tree: what is taken of it, and what a hostile one could try."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgpu.core.errors import RequestError
from mgpu.core.tree import TarReader, parse_tree

DIGEST = "0" * 64


def member(
    name: str, kind: bytes = tarfile.REGTYPE, data: bytes = b"", target: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    made = tarfile.TarInfo(name)
    made.type, made.size, made.linkname, made.mtime = kind, len(data), target, 946684800
    made.mode = 0o755 if kind == tarfile.DIRTYPE else 0o644
    return made, data


def folder(name: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, tarfile.DIRTYPE)


def link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return member(name, tarfile.SYMTYPE, target=target)


def tar_of(*members: tuple[tarfile.TarInfo, bytes], form: int = tarfile.GNU_FORMAT) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=form) as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    return made.getvalue()


def read(data: bytes, pieces: Iterable[int] = (), limit: int = 0) -> TarReader:
    reader, at = TarReader(limit), 0
    for size in (*pieces, len(data)):
        reader.feed(data[at : at + size])
        at += size
    reader.finish()
    return reader


GOOD = tar_of(
    folder("src"),
    member("src/run.py", data=b"print(1)\n" * 100),
    folder("src/" + "long" * 30),
    member("src/" + "long" * 30 + "/" + "name" * 20, data=b"x"),
    link("src/here", "run.py"),
    link("up", "src/../src/run.py"),
    member("täst \n", data=b""),
)


@given(st.lists(st.integers(0, 700), max_size=60))
def test_a_tree_of_ours_is_taken_however_it_comes(pieces: list[int]) -> None:
    reader = read(GOOD, pieces)
    assert reader.digest == hashlib.sha256(GOOD).hexdigest()
    assert (reader.files, reader.size) == (5, 901)


HOSTILE = {
    "absolute": [member("/etc/passwd")],
    "up": [member("../x")],
    "up inside": [folder("a"), member("a/../../x")],
    "dot": [member("./x")],
    "doubled slash": [folder("a"), member("a//x")],
    "the top itself": [folder(".")],
    "hard link": [member("a"), member("b", tarfile.LNKTYPE, target="a")],
    "character device": [member("a", tarfile.CHRTYPE)],
    "block device": [member("a", tarfile.BLKTYPE)],
    "pipe": [member("a", tarfile.FIFOTYPE)],
    "sparse": [member("a", tarfile.GNUTYPE_SPARSE)],
    "contiguous": [member("a", tarfile.CONTTYPE)],
    "link to an absolute place": [link("a", "/etc")],
    "link up": [link("a", "..")],
    "link up from below": [folder("a"), link("a/b", "../../x")],
    "link to nothing": [link("a", "")],
    "link out through a link": [folder("s"), folder("s/d"), link("s/d/l", ".."), link("x", "s/d/l/../../y")],
    "links in a circle": [link("a", "b"), link("b", "a")],
    "through a link": [link("a", "b"), folder("b"), member("a/x")],
    "folder on a link": [folder("b"), link("a", "b"), folder("a")],
    "below a file": [member("a"), member("a/x")],
    "twice": [member("a"), member("a")],
    "link in place of a folder": [folder("a"), link("a", "b")],
    "folder that never came": [member("a/x")],
    "long name up": [member("../" + "x" * 200)],
}


@pytest.mark.parametrize("members", HOSTILE.values(), ids=HOSTILE)
def test_what_could_be_unpacked_elsewhere_is_refused(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    with pytest.raises(RequestError):
        read(tar_of(*members))


def test_modes_that_give_rights_are_refused() -> None:
    info, data = member("a")
    info.mode = 0o4755
    with pytest.raises(RequestError, match="mode"):
        read(tar_of((info, data)))


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_other_forms_of_tar_are_refused(form: int) -> None:
    with pytest.raises(RequestError, match="form"):
        read(tar_of(member("a"), form=form))


def test_what_is_cut_or_goes_on_is_refused() -> None:
    whole = tar_of(member("a", data=b"x" * 600))
    for damaged in (whole[:700], whole[:1536], whole + member("b")[0].tobuf(tarfile.GNU_FORMAT), b"\0" * 512):
        with pytest.raises(RequestError):
            read(damaged)
    with pytest.raises(RequestError, match="end"):
        read(whole + bytes(512 * 1000))
    changed = bytearray(whole)
    changed[0] ^= 1
    with pytest.raises(RequestError, match="checksum"):
        read(bytes(changed))


def test_the_size_of_all_files_has_a_limit() -> None:
    data = tar_of(member("a", data=b"x" * 600), member("b", data=b"x" * 600))
    assert read(data, limit=1200).size == 1200
    with pytest.raises(RequestError, match="larger than 1199 bytes"):
        read(data, limit=1199)


@given(st.binary(max_size=2048), st.integers(0, len(GOOD)))
def test_any_bytes_are_read_or_refused(noise: bytes, at: int) -> None:
    with pytest.raises(RequestError):
        read(GOOD[:at] + noise + b"x" + GOOD[at + 1 + len(noise) :] + b"\0x")


def test_what_a_submission_says_of_its_tree() -> None:
    tree = parse_tree({"digest": DIGEST, "place": "a/b", "commit": "f" * 40, "dirty": True, "size": 7, "files": 2})
    assert tree is not None
    assert (tree.digest, tree.place, tree.commit, tree.dirty, tree.size, tree.files) == (
        (DIGEST, "a/b", "f" * 40, True, 7, 2)
    )
    assert parse_tree({}) is None
    for wrong in (
        {"digest": "x"},
        {"digest": DIGEST, "place": "/a"},
        {"digest": DIGEST, "place": "../a"},
        {"digest": DIGEST, "place": "./a"},
        {"digest": DIGEST, "commit": "HEAD"},
        {"digest": DIGEST, "size": "7"},
        {"digest": DIGEST, "files": -1},
        {"digest": DIGEST, "more": 1},
        {"place": "a"},
    ):
        with pytest.raises(RequestError):
            parse_tree(wrong)
