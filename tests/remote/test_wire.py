"""The node's half as it travels: all of its files, each in the part of those who need it."""

from __future__ import annotations

from pathlib import Path

from mgpu.remote import wire

FOLDER = Path(wire.__file__).parent / "node"


def test_every_file_travels() -> None:
    there = {path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.sh")}
    assert sorted(name for names in wire.PARTS for name in names) == sorted(there)
    assert {name.split("/")[0] for name in there} == {"job", "watch", "serve"}


def test_nothing_travels_that_only_we_read() -> None:
    lines = wire.program().decode("ascii").splitlines()
    assert [line for line in lines if line.startswith("# ") or line != line.strip()] == []
