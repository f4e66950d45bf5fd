"""Boxes and arrows as an SVG, with no more than that needs: no script, no font, nothing from outside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

WIDTH, HEIGHT = 120, 36  # of a box
COLUMN, ROW = 220, 76  # from one to the next
MARGIN = 24
STYLE = (
    "rect{fill:#e0f2f1;stroke:#00695c;stroke-width:1.5;rx:6}text{font:14px sans-serif;fill:#102a27;text-anchor:middle}"
    "path{fill:none;stroke:#455a64;stroke-width:1.5}"
)
HEAD = (
    '<marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0,0L8,4L0,8z" style="fill:#455a64;stroke:none"/></marker>'
)


class Arrow(NamedTuple):
    at: str
    to: str


def draw(places: Mapping[str, tuple[int, int]], arrows: Iterable[Arrow]) -> str:
    """`places`: (column, row) of each box. Arrows there and back stand beside each other."""
    wanted = list(dict.fromkeys(arrows))
    columns, rows = (max(place[axis] for place in places.values()) for axis in (0, 1))
    width, height = 2 * MARGIN + columns * COLUMN + WIDTH, 2 * MARGIN + rows * ROW + HEIGHT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f"<style>{STYLE}</style><defs>{HEAD}</defs>",
        f'<rect width="{width}" height="{height}" style="fill:#ffffff;stroke:none"/>',
        *(_arrow(places[each.at], places[each.to], Arrow(each.to, each.at) in wanted) for each in wanted),
        *(_box(name, place) for name, place in places.items()),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _centre(place: tuple[int, int]) -> tuple[float, float]:
    return MARGIN + place[0] * COLUMN + WIDTH / 2, MARGIN + place[1] * ROW + HEIGHT / 2


def _box(name: str, place: tuple[int, int]) -> str:
    x, y = _centre(place)
    box = f'<rect x="{x - WIDTH / 2:g}" y="{y - HEIGHT / 2:g}" width="{WIDTH}" height="{HEIGHT}"/>'
    return f'{box}<text x="{x:g}" y="{y + 5:g}">{name}</text>'


def _arrow(at: tuple[int, int], to: tuple[int, int], both: bool) -> str:
    (x1, y1), (x2, y2) = _centre(at), _centre(to)
    long = max(abs(at[0] - to[0]), abs(at[1] - to[1]) if at[0] == to[0] else 0) > 1
    if at[0] == to[0]:  # up or down
        side = 12.0 if both and y2 < y1 else -12.0 if both else 0.0
        y1, y2 = (y1 + HEIGHT / 2, y2 - HEIGHT / 2) if y2 > y1 else (y1 - HEIGHT / 2, y2 + HEIGHT / 2)
        bend = 90.0 if long else 0.0
        middle = x1 + side + (bend if y2 > y1 else -bend)
        return _path(x1 + side, y1, middle, (y1 + y2) / 2, x2 + side, y2)
    side = (7.0 if x2 < x1 else -7.0) if both else 0.0
    x1, x2 = (x1 + WIDTH / 2, x2 - WIDTH / 2) if x2 > x1 else (x1 - WIDTH / 2, x2 + WIDTH / 2)
    bend = (ROW if x2 < x1 else -ROW) * 0.9 if long and at[1] == to[1] else 0.0
    return _path(x1, y1 + side, (x1 + x2) / 2, (y1 + y2) / 2 + side + bend, x2, y2 + side)


def _path(*points: float) -> str:
    x1, y1, x, y, x2, y2 = points
    return f'<path d="M{x1:g},{y1:g}Q{x:g},{y:g} {x2:g},{y2:g}" marker-end="url(#tip)"/>'
