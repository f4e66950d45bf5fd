"""What is taken for a mistyped name, and what for another one."""

from __future__ import annotations

import pytest

from mgpu.config.faults import did_you_mean

NODES = ["gpu001", "gpu002", "gpu016", "gpu018", "login", "rack1-node04", "Big"]


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("gpu017", ""),
        ("gpu003", ""),
        ("gpu", ""),
        ("gpu0011", ""),
        ("rack1-node05", ""),
        ("rack2-node04", ""),
        ("login1", ""),
        ("gpu16", "gpu016"),
        ("gpu1", "gpu001"),
        ("gpo018", "gpu018"),
        ("GPU-0016", "gpu016"),
        ("rack01-noed4", "rack1-node04"),
        ("logni", "login"),
        ("bigg", "Big"),
        ("", ""),
        ("x" * 10_000, ""),
        ("1" * 10_000, ""),
    ],
)
def test_only_letters_are_mistyped(word: str, meant: str) -> None:
    """Another number is another machine: of many neighbours, none was meant."""
    assert did_you_mean(word, NODES) == (f" - did you mean {meant!r}?" if meant else "")
