"""`master:` in the user's own file."""

from __future__ import annotations

from pathlib import Path

import pytest

from mgpu.client.http import MasterError
from mgpu.client.own_master import own_master


def written(folder: Path, text: str, mode: int = 0o600) -> str:
    path = folder / "config.yaml"
    path.write_text(text)
    path.chmod(mode)
    return str(folder)


@pytest.mark.parametrize(
    ("text", "master"),
    [
        ("", None),
        ("gpus: 2\n", None),
        ("# master: ssh://a\nenv:\n  master: x\n", None),
        ("master: ssh://user@head\n", "ssh://user@head"),
        ("gpus: 2\nmaster:   ssh://head?mgpu=~/bin/mgpu   # ours", "ssh://head?mgpu=~/bin/mgpu"),
        ('master: "ssh://head?mgpu=/my tools/mgpu"\n', "ssh://head?mgpu=/my tools/mgpu"),
        ("master: '/run/mgpu.sock'\n", "/run/mgpu.sock"),
    ],
)
def test_what_it_says(tmp_path: Path, text: str, master: str | None) -> None:
    assert own_master(written(tmp_path, text)) == master


def test_no_file(tmp_path: Path) -> None:
    assert own_master(str(tmp_path)) is None


@pytest.mark.parametrize(
    "text", ["master: {a: b}\n", "master:\n  ssh://head\n", "master: &x ssh://head\n", "master:\n"]
)
def test_what_only_a_parser_could_read(tmp_path: Path, text: str) -> None:
    with pytest.raises(MasterError, match="not plain"):
        own_master(written(tmp_path, text))


def test_a_file_that_others_could_have_written(tmp_path: Path) -> None:
    with pytest.raises(MasterError, match="others could have written it"):
        own_master(written(tmp_path, "master: ssh://head\n", 0o620))
    assert own_master(written(tmp_path, "gpus: 2\n", 0o620)) is None
