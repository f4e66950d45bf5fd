"""The node's half as it travels: all of its files, each in the part of those who need it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mgpu.remote import wire
from tests.remote.conftest import SHELLS

FOLDER = Path(wire.__file__).parent / "node"


def test_every_file_travels() -> None:
    there = {path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.sh")}
    assert sorted(name for names in wire.PARTS for name in names) == sorted(there)
    assert {name.split("/")[0] for name in there} == {"job", "watch", "serve"}
    assert {f"serve/{name}" for name in wire.TEXTS} | {f"quick/{name}.pl" for name in wire.QUICK} == {
        path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.p[ly]")
    }


def test_nothing_travels_that_only_we_read() -> None:
    lines = wire.program().replace(wire.texts(), b"").decode("ascii").splitlines()
    assert [line for line in lines if line.startswith("# ") or line != line.strip()] == []
    texts = wire.texts() + wire.quick()
    assert not any(line.lstrip().startswith(b"# ") for line in texts.splitlines())


WORDS = [bytes(range(1, 256)), b"@12", b"-", b"\\n\\0101", b"* ? [a-z] ~ $HOME `id` \"'", b"#", b"-n", b"7\n7\t7 7"]
READ = "IFS= read -r line; set -f; set -- $line; for word; do printf '%b\\0' \"$word\"; done"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_word_arrives_as_it_was(shell: str) -> None:
    line = " ".join(map(wire.encode, WORDS)) + "\n"
    command = ["busybox", "sh"] if shell == "busybox" else [shell]
    try:
        said = subprocess.run([*command, "-c", READ], input=line.encode("ascii"), capture_output=True, check=True)
    except FileNotFoundError:
        pytest.skip(f"no {shell} here")
    assert said.stdout.split(b"\0")[:-1] == WORDS


def test_no_word_looks_like_one_of_ours() -> None:
    assert wire.encode("") == "-"
    assert not any(wire.encode(word).startswith(("@", "-")) for word in (b"@12", b"-"))
