"""Commands that belong to the master's own machine, asked on another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    "words",
    [
        ["node", "remove", "gpu07"],
        ["node", "remove", "gpu07"],
        ["config", "check"],
        ["daemon"],
        ["tick"],
        ["daemon", "--ensure"],
    ],
    ids=" ".join,
)
def test_what_is_done_on_the_masters_machine_alone(tmp_path: Path, mgpu: Callable, words: list[str]) -> None:
    ran = mgpu("--master", "ssh://me@head", *words)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.count("\n") == 1
    assert "log in there" in ran.err


def test_a_file_that_lies_here_can_be_checked(tmp_path: Path, mgpu: Callable) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("nodes: [{node_id: n1}]\n")
    assert mgpu("--master", "ssh://me@head", "config", "check", str(path)).status == 0


def test_a_patience_that_is_no_number(monkeypatch: pytest.MonkeyPatch, mgpu: Callable) -> None:
    monkeypatch.setenv("MGPU_CONNECTION_TIMEOUT", "soon")
    ran = mgpu("queue")
    assert (ran.status, ran.err) == (2, "mgpu: MGPU_CONNECTION_TIMEOUT is 'soon': not a number: give seconds\n")
