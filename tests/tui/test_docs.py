"""docs/monitor.md lists each key. `DOCS=write pytest tests/tui/test_docs.py` puts the table there."""

from __future__ import annotations

import os
from pathlib import Path

from mgpu.tui.keys import KEYS, PLACES

PAGE = Path(__file__).parents[2] / "docs" / "monitor.md"
BEGIN, END = "<!-- keys: made of mgpu/tui/keys.py, see tests/tui/test_docs.py -->\n", "<!-- end of keys -->\n"


def table() -> str:
    lines = ["| | key | |", "| --- | --- | --- |"]
    for place, title in PLACES.items():
        for number, key in enumerate(key for key in KEYS if key.where == place):
            keys = " ".join(f"`{word}`" for word in key.shown.split())
            lines.append(f"| {'' if number else title} | {keys} | {key.help} |")
    return "\n" + "\n".join(lines) + "\n\n"


def test_the_page_lists_each_key_as_the_help_does() -> None:
    page = PAGE.read_text(encoding="utf-8")
    before, begin, rest = page.partition(BEGIN)
    _, end, behind = rest.partition(END)
    assert begin and end
    right = before + BEGIN + table() + END + behind
    if os.environ.get("DOCS") == "write":
        PAGE.write_text(right, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == right


def test_no_two_keys_of_a_place_are_one() -> None:
    """What holds everywhere is no key of any list, and what holds in a list none of the queue."""
    for place in ("queue", "nodes"):
        names = [name for key in KEYS if key.where in (place, "rows", "app") for name in key.keys.split(",")]
        assert sorted(names) == sorted(set(names))
