"""No row of the page without a test, and no test of a row that is gone."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tests.compat.rows import TESTED, rows


def test_each_row_has_a_test() -> None:
    for path in Path(__file__).parent.glob("test_*.py"):
        import_module(f"tests.compat.{path.stem}")
    there = rows()
    assert len(there) == len(set(there)) > 75
    assert [old for old in there if old not in TESTED] == []
    assert [old for old in TESTED if old not in there] == []
