"""What stands where on a terminal of that size: decided in one place, by size and by what is open."""

from __future__ import annotations

from typing import NamedTuple

LOW = 16  # lines, below which there are no borders, and one list at a time
TINY = 4  # lines, below which there is nothing but the list
TWO_LINES = 20  # lines, from which on the totals may take two
ONE_LINE_COLUMNS = 150  # from which on all totals stand in one
BESIDE = 140  # columns, from which on details stand beside the lists
BELOW = 34  # lines, from which on they stand below them
BORDERS = 2
DETAILS_SHARE = 45  # percent of the columns, as monitor.tcss has it


class Layout(NamedTuple):
    """`compact`: a line per node; `nodes_height` of that pane with its borders, 0 = as much as there is."""

    classes: frozenset[str]
    compact: bool
    nodes_height: int
    details_hide_lists: bool


CLASSES = frozenset({"-low", "-tiny", "-one-pane", "-two-lines", "-details-beside", "-details-below", "-details-alone"})


def arrange(width: int, height: int, bars: int, nodes: int, wish: bool | None, details: bool) -> Layout:
    """`bars`: lines that all nodes take with a bar per GPU; `nodes`: without. `wish`: bars or not, as somebody said."""
    low, tiny = height < LOW, height < TINY
    two_lines = height >= TWO_LINES and width < ONE_LINE_COLUMNS
    room = height - 1 - two_lines - 1
    beside, below = details and width >= BESIDE and not low, details and height >= BELOW
    alone = details and not beside and not below
    if below and not beside:
        room //= 2
    most = max(room * (6 if wish else 1) // (10 if wish else 2), 3)
    fits = bars + BORDERS <= most
    compact = not wish if wish is not None else not fits or low
    wanted = (nodes if compact else bars) + BORDERS
    placed = "-details-beside" if beside else "-details-below" if below else "-details-alone"
    classes = {
        "-low": low, "-tiny": tiny, "-one-pane": low, "-two-lines": two_lines and not low, placed: details,
    }  # fmt: skip
    shown = frozenset(name for name, there in classes.items() if there)
    return Layout(shown, compact, 0 if low else max(min(wanted, most), 3), alone)
