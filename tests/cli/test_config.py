"""mgpu config where no master answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "c"
    folder.mkdir(mode=0o755)
    monkeypatch.setenv("MGPU_CONFIG", str(folder / "cluster_config.yaml"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("MGPU_STATE_DIR", "MGPU_MASTER"):
        monkeypatch.delenv(name, raising=False)
    return folder / "cluster_config.yaml"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", " says nothing: is that meant? no master runs for "),
        ("# master: {state_dir: /srv/mgpu}\n", " says nothing: is that meant? no master runs for "),
        ("nodes: [{node_id\n", ":2:1: not YAML: "),
        ("nodes: [{node_id: g1, hostnme: x}]\n", ": unknown key"),
        ("master: {state_dir: s}\nnodes: [{node_id\n", ":3:1: not YAML: "),
    ],
)
def test_a_file_that_cannot_say_where_its_master_is(config: Path, mgpu: Callable, text: str, said: str) -> None:
    config.write_text(text)
    ran = mgpu("config", "reload")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith(f"mgpu: {config}")
    assert said in ran.err
    assert "no master runs at" not in ran.err


def test_a_sound_file_is_not_blamed(config: Path, mgpu: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text("nodes: [{node_id: g1}]\n")
    assert mgpu("config", "reload").err.startswith("mgpu: no master runs at ")
    config.write_text("")
    monkeypatch.setenv("MGPU_STATE_DIR", str(config.parent / "s"))
    assert mgpu("config", "reload").err.startswith("mgpu: no master runs at ")
