"""Pieces of a line: text that is safe to show, of exactly the width that it is given, and what it means.

Widths are counted as Textual counts them when it puts a line on the screen: with any other count, a name with wide
letters would shift what stands behind it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from rich.cells import cell_len, set_cell_size

from mgpu.wording.letters import clean

# What a piece means. Each stands in monitor.tcss as `tone--NAME`; none says anything that words do not say too.
TONES = ("", "strong", "dim", "head", "ok", "wait", "ours", "others", "bad", "mark", "ended", "stale")

SELECTORS = dict.fromkeys(range(0xFE00, 0xFE10))  # terminals do not agree on how wide they make a letter


class Cell(NamedTuple):
    text: str
    tone: str = ""


def shown(value: Any) -> str:
    """The value as text that steers no terminal."""
    text = clean(value)
    return text if text.isascii() else text.translate(SELECTORS)


def width_of(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)


def fit(value: Any, width: int, right: bool = False) -> str:
    """Exactly so wide; what is left out is marked with `…`."""
    if width <= 0:
        return ""
    text = shown(str(value)[: 8 * width] if isinstance(value, str) else value)  # more never fits
    room = width - width_of(text)
    if room < 0:
        return set_cell_size(text, width - 1) + "…"
    return " " * room + text if right else text + " " * room


def fitted(cell: Cell, width: int, right: bool = False) -> Cell:
    return Cell(fit(cell.text, width, right), cell.tone)


def line_of(cells: Iterable[Cell], width: int) -> list[Cell]:
    """One after the other, cut or filled up to that width."""
    line, room = [], width
    for said, tone in cells:
        text = shown(said)
        needed = width_of(text)
        if needed > room:
            if room > 0:
                line.append(Cell(fit(text, room), tone))
            return line
        line.append(Cell(text, tone))
        room -= needed
    if room > 0:
        line.append(Cell(" " * room))
    return line


def total_width(cells: Iterable[Cell]) -> int:
    return sum(width_of(text) for text, _ in cells)
