"""Which columns a table has room for, and how wide each is: decided by the room alone, so that nothing jumps about when
rows come and go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

GAP = 1
FIRST = 12  # columns that the others get before the one that takes what is left: of more than that it gets half


class Column(NamedTuple):
    """`least` to `most` wide; `most` 0 = it takes all that is left. `yields`: those with the highest number are left
    out first where there is no room, 0 = never; `room`: it is worth its place only where a table has so much. `sort`:
    the word of `GET /v1/window` for it, "" = it does not sort."""

    key: str
    title: str
    least: int
    most: int
    right: bool = False
    yields: int = 0
    sort: str = ""
    room: int = 0


def shares(columns: Sequence[Column], room: int) -> list[tuple[Column, int]]:
    """Those that are shown, each with its width; together, with a gap between, they fit into `room`."""
    kept = [column for column in columns if column.room <= room]
    while len(kept) > 1 and _least(kept) > room:
        victim = max(kept, key=lambda column: column.yields)
        if not victim.yields:
            break
        kept.remove(victim)
    widths = {column.key: column.least for column in kept}
    left = room - _least(kept)
    taker = next((column for column in reversed(kept) if not column.most), None)
    spare = left - max(left - FIRST, 0) // 2 if taker else left  # for the others
    for column in kept:
        if column.most and spare > 0:
            more = min(column.most - column.least, spare)
            widths[column.key] += more
            spare -= more
            left -= more
    if taker and left > 0:
        widths[taker.key] += left
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
