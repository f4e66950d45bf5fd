"""A configuration that was edited under a running master is noticed."""

from __future__ import annotations

from pathlib import Path
from time import sleep

import pytest

from mgpu.config import apart
from mgpu.config.load import load
from mgpu.master.edited import AGAIN_S, PERIOD_S, Edited

NODE = "nodes: [{node_id: a, connection: local}]\n"


def test_another_meaning_is_told_until_it_is_taken_back(tmp_path: Path) -> None:
    main, more = tmp_path / "cluster_config.yaml", tmp_path / "inventory"
    more.mkdir(mode=0o755)
    (more / "a.yaml").write_text(NODE)
    main.write_text("inventory: inventory/\n")
    edited = Edited(load(main))
    now = 0.0

    def look() -> str:
        nonlocal now
        now += PERIOD_S
        edited.look(now)
        while edited.is_reading:
            sleep(0.01)
            edited.look(now)
        return edited.notice

    assert not look()
    main.write_text("# a comment changes nothing\ninventory: inventory/\n")
    assert not look()
    (more / "b.yaml").write_text(NODE.replace("a,", "b,"))
    assert f"{main} or its inventory was changed since the master read it" in look()
    (more / "b.yaml").write_text("nodes: [")
    assert "has faults" in look()
    (more / "b.yaml").unlink()
    assert not look()
    main.unlink()
    assert "has faults" in look()


def test_no_file_is_never_edited() -> None:
    edited = Edited(load(None))
    edited.look(PERIOD_S)
    assert not edited.notice


def test_what_could_not_be_read_is_no_fault_and_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main = tmp_path / "cluster_config.yaml"
    main.write_text(NODE)
    edited = Edited(load(main))
    main.write_text(NODE.replace("a,", "b,"))

    def look(monotonic: float) -> str:
        edited.look(monotonic)
        while edited.is_reading:
            sleep(0.01)
            edited.look(monotonic)
        return edited.notice

    with monkeypatch.context() as broken:
        for program in ("/bin/false", "/nonexistent"):
            broken.setattr(apart.sys, "executable", program)
            assert not look(100.0 if program == "/bin/false" else 200.0)
    assert not look(200.0 + AGAIN_S - 1), "not at once"
    assert "was changed since" in look(200.0 + AGAIN_S)
