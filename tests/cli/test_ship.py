"""What --ship makes of a command line, and the line that says how far the tree is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mgpu import clock
from mgpu.cli import ship
from mgpu.cli.submission import prepare
from mgpu.cli.syntax import Words
from mgpu.client.http import MasterError


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    folder = tmp_path / "tree"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub/a").write_text("a")
    monkeypatch.chdir(folder)
    return folder


def test_the_master_is_told_no_directory_but_the_place(tree: Path) -> None:
    prepared = prepare({"ship": "auto", "chdir": "sub", "gpus": "1"}, Words(["true"], False), "srun")
    assert prepared.body["options"] == {"gpus": "1"}
    assert (prepared.shipment.root, prepared.shipment.place) == (os.fsencode(tree), "sub")
    assert prepare({"chdir": "sub"}, Words(["true"], False), "srun").body["options"] == {"chdir": "sub"}


def test_variables_and_a_folder_of_that_name(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MGPU_SHIP", "sub")
    assert prepare({"ship": None}, Words(["true"], False), "srun").shipment.root == os.fsencode(tree / "sub")
    (tree / "auto").mkdir()
    (tree / "auto/b").write_text("b")
    assert prepare({"ship": "./auto"}, Words(["true"], False), "srun").shipment.root == os.fsencode(tree / "auto")


@pytest.mark.usefixtures("tree")
def test_an_empty_one_is_an_unset_variable() -> None:
    with pytest.raises(MasterError, match="--ship= is empty"):
        prepare({"ship": ""}, Words(["true"], False), "srun")


def test_what_stays_here_is_said_in_few_lines(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(9):
        (tree / f"out{number}").symlink_to("/nowhere")
    prepare({"ship": "auto"}, Words(["true"], False), "srun")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == ship.SAID + 1
    assert all(line.startswith("mgpu: not shipped: out") for line in lines[:-1])
    assert lines[-1] == "mgpu: not shipped: 4 more such"
    prepare({"ship": "auto", "quiet": True}, Words(["true"], False), "srun")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("on", [True, False])
def test_a_long_way_is_shown_on_a_terminal(
    on: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    progress = ship._Progress(on)
    for part in range(8):
        progress.told(part << 20, 8 << 20)
        now[0] += 0.3
    progress.over()
    shown = capfd.readouterr().err
    assert shown.count("shipping:") == (4 if on else 0)
    assert shown.endswith("7.0 MiB of 8.0 MiB\r\033[K") is on
