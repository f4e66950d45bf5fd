"""What stands on the screen, letter for letter; and in which colours, where these matter.

The pictures are `snapshots/*.txt`. After a change that is meant: `SNAPSHOTS=write pytest tests/tui/test_snapshots.py`,
and a look at what git says has changed.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.tui.screen import opened, press, styles_of, text_of
from tests.tui.stand_in import StandIn

FOLDER = Path(__file__).parent / "snapshots"
PICTURES: dict[str, tuple[tuple[int, int], str, list[str]]] = {
    "80x24": ((80, 24), "dark", []),
    "160x48": ((160, 48), "dark", []),
    "20x5": ((20, 5), "dark", []),
    "40x12": ((40, 12), "dark", []),
    "40x12-nodes": ((40, 12), "dark", ["tab"]),
    "80x24-plain": ((80, 24), "plain", ["tab", "b"]),
    "80x24-ended": ((80, 24), "dark", ["e"]),
    "80x24-search": ((80, 24), "dark", ["slash", *"train-1"]),
    "80x24-cancel": ((80, 24), "dark", ["j", "c"]),
    "80x24-drain": ((80, 24), "dark", ["tab", "d"]),
    "80x24-help": ((80, 24), "dark", ["question_mark"]),
}
COLOURS = {"80x24-colours-dark": "dark", "80x24-colours-colour-blind": "colour-blind"}


def compare(name: str, found: str) -> None:
    path = FOLDER / f"{name}.txt"
    if os.environ.get("SNAPSHOTS") == "write":
        path.write_text(found, encoding="utf-8")
    assert found == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PICTURES)
def test_the_screen(master: StandIn, name: str) -> None:
    size, theme, keys = PICTURES[name]

    async def run() -> str:
        async with opened(master, size, theme) as pilot:
            await press(pilot, *keys)
            await pilot.pause(0.3)  # an answer may be under way
            return text_of(pilot)

    compare(name, asyncio.run(run()))


@pytest.mark.parametrize("name", COLOURS)
def test_the_colours(master: StandIn, name: str) -> None:
    async def run() -> str:
        async with opened(master, (80, 24), COLOURS[name]) as pilot:
            return styles_of(pilot)

    compare(name, asyncio.run(run()))
