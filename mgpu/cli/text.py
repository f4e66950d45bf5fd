"""Text for people: tables that fit the terminal, times, colour; nothing that came from data can steer the terminal."""

from __future__ import annotations

import os
import sys

from mgpu.lean.context import suppress
from mgpu.lean.typing import Any, Sequence
from mgpu.wording.figures import in_local_time
from mgpu.wording.letters import clean, cut, width_of

COLOURS = {
    "RUNNING": "32", "COMPLETED": "32", "UP": "32", "free": "32",
    "PENDING": "33", "UNKNOWN": "33", "DRAINING": "33", "DRAINED": "33", "unknown": "33", "external": "35",
    "FAILED": "31", "TIMEOUT": "31", "NODE_FAIL": "31", "DOWN": "31", "unhealthy": "31",
    "CANCELLED": "2", "allocated": "36",
    "ok": "32", "warning": "33", "failure": "31", "skipped": "2",
}  # fmt: skip


LEAST_COLUMNS = 4  # of a column on the narrowest terminal


def terminal_columns(descriptor: int = 1) -> int:
    """Width to fit, 0 = no limit (not a terminal, so nothing is cut)."""
    if os.environ.get("COLUMNS", "").isdigit():
        return int(os.environ["COLUMNS"])
    try:
        return os.get_terminal_size(descriptor).columns
    except OSError:
        return 0


def colourful(descriptor: int = 1) -> bool:
    return os.isatty(descriptor) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painted(text: str, word: str) -> str:
    """`text` in the colour of the state `word`."""
    code = COLOURS.get(word)
    return f"\x1b[{code}m{text}\x1b[0m" if code else text


def table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[int] = (),
    shrink: Sequence[tuple[int, int]] = (),
    indent: str = "",
) -> list[str]:
    """Lines of a table. `right`: columns aligned to the right. `shrink`: (column, least width), in the order in which
    they give way when the terminal is too narrow."""
    columns = [_cleaned(column) for column in zip(headers, *rows, strict=True)]
    narrow = [_narrow(column) for column in columns]
    widths = [max(map(len if letters else width_of, column)) for letters, column in zip(narrow, columns, strict=True)]
    room = terminal_columns()
    excess = len(indent) + sum(widths) + 2 * (len(widths) - 1) - room if room else 0
    if excess <= 0 and all(narrow) and not colourful():
        line = indent + "  ".join(f"%{'' if number in right else '-'}{width}s" for number, width in enumerate(widths))
        return [(line % cells).rstrip() for cells in zip(*columns, strict=True)]
    # where that is not enough, all give way, the last columns first: a line that wraps is harder to read than one cut
    for number, least in [*shrink, *((number, LEAST_COLUMNS) for number in reversed(range(1, len(widths))))]:
        given = max(0, min(excess, widths[number] - least))
        widths[number] -= given
        excess -= given
    # what the first one names is what the others are told of: rather than cut it, the last are left out
    while excess > 0 and len(widths) > 2:
        columns.pop()
        excess -= widths.pop() + 2
    widths[0] -= max(0, min(excess, widths[0] - LEAST_COLUMNS))
    colour = colourful()
    padded = [
        _padded(column, width, number in right, colour)
        for number, (column, width) in enumerate(zip(columns, widths, strict=True))
    ]
    return [(indent + "  ".join(cells)).rstrip() for cells in zip(*padded, strict=True)]


def _cleaned(column: Sequence[Any]) -> list[str]:
    """Looked at as one text: a queue has thousands of cells, and hardly one with something to clean."""
    cells = [cell if type(cell) is str else clean(cell) for cell in column]
    return cells if "".join(cells).isprintable() else list(map(clean, cells))


def _narrow(column: Sequence[str]) -> bool:
    """Whether each letter takes one column of the terminal."""
    return "".join(column).isascii()


def _padded(column: Sequence[str], width: int, right: bool, colour: bool) -> list[str]:
    """The first cell is the header, which has no colour."""
    if not colour and _narrow(column) and max(map(len, column)) <= width:
        return [cell.rjust(width) if right else cell.ljust(width) for cell in column]
    cells = []
    for number, cell in enumerate(column):
        shown = cut(cell, width)
        gap = " " * (width - width_of(shown))
        if colour and number:
            shown = painted(shown, cell)
        cells.append(gap + shown if right else shown + gap)
    return cells


def say(text: str) -> None:
    """One line of ours on stderr. A stderr that is gone is no reason to fail."""
    with suppress(OSError, ValueError):
        print(f"mgpu: {clean(in_local_time(text))}", file=sys.stderr, flush=True)
