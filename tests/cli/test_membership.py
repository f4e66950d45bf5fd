"""mgpu node add and remove without a master: what is said of the file and of the options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "c"
    (folder / "inventory").mkdir(parents=True, mode=0o755)
    folder.chmod(0o755)
    for name, text in (
        ("cluster_config.yaml", "inventory: inventory/"),
        ("inventory/n.yaml", "nodes: [{node_id: g1}]"),
    ):
        (folder / name).write_text(text + "\n")
        (folder / name).chmod(0o644)
    monkeypatch.setenv("MGPU_CONFIG", str(folder / "cluster_config.yaml"))
    monkeypatch.setenv("MGPU_STATE_DIR", str(tmp_path / "state"))
    return folder / "inventory"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["g2", "--ip", "gpu.example.org"], "--ip 'gpu.example.org' is no IP address: a name belongs into hostname"),
        (["g2", "--port", "70000"], "node add: invalid value for '--port': '70000' is no whole number"),
        (["g2", "--hostname", "h[1-3]"], "--hostname 'h[1-3]' stands for 3 names, the node_id beside it for 1 name"),
        (["g2", "--ip", ""], "--ip is empty"),
        (["g[2"], "NODE hostlist"),
        ([""], "a node's name is missing"),
        (["g1"], "there is already a node g1: "),
        (["g[0-3]"], "there is already a node g1: "),
    ],
)
def test_a_bad_option_is_named(inventory: Path, mgpu: Callable, words: list[str], said: str) -> None:
    ran = mgpu("node", "add", *words)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith(f"mgpu: {said}")
    assert "added.yaml" not in ran.err
    assert not (inventory / "added.yaml").exists()


def test_a_name_that_nobody_knows_is_told_and_taken(inventory: Path, mgpu: Callable) -> None:
    ran = mgpu("node", "add", "g2", "--hostname", "no-such-host.invalid")
    assert ran.status == 0
    assert "g2: no-such-host.invalid has no address: " in ran.err or "no name server answers" in ran.err
    assert "node_id: g2" in (inventory / "added.yaml").read_text()


def test_one_of_a_range_is_not_taken_out_of_it(inventory: Path, mgpu: Callable) -> None:
    assert mgpu("node", "add", "g[05-08]", "--ip", "10.0.0.[5-8]").status == 0
    ran = mgpu("node", "remove", "g06")
    assert ran.status == 2
    assert ran.err.startswith("mgpu: g06 was added with others as g[05-08]: remove that, or edit ")
    assert "does not stand in" in mgpu("node", "remove", "g1").err
    ran = mgpu("node", "remove", "G05")
    assert (ran.status, ran.err) == (1, "mgpu: there is no node 'G05': did you mean 'g05'? mgpu nodes lists them\n")
    assert mgpu("node", "remove", "g[05-08]").status == 0
    assert not (inventory / "added.yaml").exists()


def test_one_machine_twice_is_told_without_a_master_too(inventory: Path, mgpu: Callable) -> None:
    assert mgpu("node", "add", "g2", "--ip", "10.0.0.1").err == ""
    assert "g3 and g2 are both 10.0.0.1" in mgpu("node", "add", "g3", "--ip", "10.0.0.1").err


@pytest.mark.parametrize(
    "line", [["node", "probe"], ["node", "clean"], ["node", "down", "--yes"], ["show", "node"], ["node", "trust"]]
)
def test_an_empty_name_is_missing(mgpu: Callable, line: list[str]) -> None:
    ran = mgpu(*line, "")
    assert (ran.status, ran.err) == (2, "mgpu: a node's name is missing: mgpu nodes lists them\n")
    ran = mgpu(*line, "x" * 100_000)
    assert ran.status == 1
    assert "there is no node 'xxx" in ran.err
