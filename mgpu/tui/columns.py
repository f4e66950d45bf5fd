"""Which columns a table has room for, and how wide each is: decided by the room alone, so that nothing jumps about when
rows come and go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

GAP = 1


class Column(NamedTuple):
    """`least` to `most` wide; `most` 0 = it takes all that is left. `yields`: those with the highest number are left
    out first where there is no room, 0 = never. `sort`: the word of `GET /v1/window` for it, "" = it does not sort."""

    key: str
    title: str
    least: int
    most: int
    right: bool = False
    yields: int = 0
    sort: str = ""


def shares(columns: Sequence[Column], room: int) -> list[tuple[Column, int]]:
    """Those that are shown, each with its width; together, with a gap between, they fit into `room`."""
    kept = list(columns)
    while len(kept) > 1 and _least(kept) > room:
        victim = max(kept, key=lambda column: column.yields)
        if not victim.yields:
            break
        kept.remove(victim)
    widths = {column.key: column.least for column in kept}
    left = room - _least(kept)
    for column in kept:
        if column.most and left > 0:
            more = min(column.most - column.least, left)
            widths[column.key] += more
            left -= more
    takers = [column for column in kept if not column.most]
    if takers and left > 0:
        widths[takers[-1].key] += left
    return _squeezed([(column, widths[column.key]) for column in kept], room)


def _least(columns: Sequence[Column]) -> int:
    return sum(column.least for column in columns) + GAP * (len(columns) - 1)


def _squeezed(shown: list[tuple[Column, int]], room: int) -> list[tuple[Column, int]]:
    """On a terminal of a few columns the first ones are shown as far as they go."""
    kept: list[tuple[Column, int]] = []
    for column, width in shown:
        if room <= 0:
            break
        kept.append((column, min(width, room)))
        room -= width + GAP
    return kept
