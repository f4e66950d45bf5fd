"""Bars and single letters for how much of a GPU is in use."""

from __future__ import annotations

FULL, EMPTY = "█", "░"
SEEN = 0.01  # a GPU that nobody uses has some MiB for itself
EIGHTHS = " ▏▎▍▌▋▊▉"
HEIGHTS = "▁▂▃▄▅▆▇█"
FREE, PLAIN_FREE = "·", "."
# A GPU that no job of ours has, in a letter, where there is no room for more.
LETTERS = {"external": "X", "unhealthy": "!", "unknown": "?", "unused": "-"}


def bar(part: float, width: int, plain: bool = False) -> str:
    """`part` 0 to 1. Who has a hundredth has a bit of a bar. `plain`: of letters that every terminal has."""
    part = 0.0 if part < SEEN else min(part, 1.0)
    if plain:
        full = max(round(part * width), 1 if part else 0)
        return "#" * full + "." * (width - full)
    eighths = max(round(part * width * 8), 1 if part else 0)
    full, rest = divmod(eighths, 8)
    begun = EIGHTHS[rest] if rest else ""
    return FULL * full + begun + EMPTY * (width - full - len(begun))


def letter(state: str, busy: float | None, plain: bool = False) -> str:
    if state == "allocated":
        return height(busy, plain)
    if state == "free":
        return PLAIN_FREE if plain else FREE
    return LETTERS.get(state, "?")


def height(percent: float | None, plain: bool = False) -> str:
    """How busy it is, in one letter: a bar that stands, or 0 to 9."""
    if percent is None:
        return "="
    if plain:
        return str(max(0, min(int(percent / 10), 9)))
    return HEIGHTS[max(0, min(int(percent / 12.6), 7))]
