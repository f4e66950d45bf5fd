"""Text for people: tables that fit the terminal, times, colour; nothing that came from data can steer the terminal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from mgpu.lean_typing import Any

COLOURS = {
    "RUNNING": "32", "COMPLETED": "32", "UP": "32", "free": "32",
    "PENDING": "33", "UNKNOWN": "33", "DRAINING": "33", "DRAINED": "33", "unknown": "33", "external": "35",
    "FAILED": "31", "TIMEOUT": "31", "NODE_FAIL": "31", "DOWN": "31", "unhealthy": "31",
    "CANCELLED": "2", "allocated": "36",
    "ok": "32", "warning": "33", "failure": "31", "skipped": "2",
}  # fmt: skip


def clean(value: Any) -> str:
    """The value as text without control characters, lone surrogates or marks of writing direction: those are shown
    as escapes."""
    text = "" if value is None else str(value)
    return (
        text if text.isprintable() else "".join(letter if letter.isprintable() else escape(letter) for letter in text)
    )


def escape(letter: str) -> str:
    code = ord(letter)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8
        code -= 0xDC00
    if code < 0x100:
        return {9: "\\t", 10: "\\n", 13: "\\r", 27: "\\e"}.get(code, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def width_of(text: str) -> int:
    """Columns on a terminal."""
    if text.isascii():
        return len(text)
    import unicodedata

    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(unicodedata.combining(letter) > 0 for letter in text)


def cut(text: str, columns: int) -> str:
    """At most `columns` wide; what is left out is marked with `…`."""
    if width_of(text) <= columns:
        return text
    kept = text[: max(columns - 1, 0)]
    while kept and width_of(kept) > columns - 1:
        kept = kept[:-1]
    return kept + "…"


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
    widths = [max(map(len if _narrow(column) else width_of, column)) for column in columns]
    room = terminal_columns()
    excess = len(indent) + sum(widths) + 2 * (len(widths) - 1) - room if room else 0
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


def epoch(text: str | None) -> float | None:
    """Seconds since the epoch of an ISO 8601 time."""
    if not text:
        return None
    from datetime import datetime

    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def duration(seconds: float) -> str:
    """As Slurm writes it: M:SS, H:MM:SS, D-HH:MM:SS."""
    if not seconds:
        return "0:00"
    minutes, second = divmod(max(int(seconds), 0), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}-{hour:02}:{minute:02}:{second:02}"
    return f"{hour}:{minute:02}:{second:02}" if hour else f"{minute}:{second:02}"


def local_time(text: str | None) -> str:
    """An ISO 8601 time in the reader's own zone, to the second."""
    when = epoch(text)
    return "-" if when is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when))


def gib(mib: int | None) -> str:
    return "?" if mib is None else f"{mib / 1024:.1f}"


def count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def gpu_label(index: int | None) -> str:
    """3, or 0.2 for MIG instance 2 of GPU 0, which has the index 1002."""
    return "?" if index is None else str(index) if index < 1000 else f"{(index - 1000) // 100}.{index % 100}"


def ranges(indices: Sequence[int]) -> str:
    """0,1,2,5 -> 0-2,5"""
    runs: list[list[int]] = []
    for index in sorted(indices):
        if runs and index == runs[-1][1] + 1 < 1000:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    labels = [(gpu_label(first), gpu_label(last)) for first, last in runs]
    return ",".join(first if first == last else f"{first}-{last}" for first, last in labels)


def in_local_time(text: str) -> str:
    """The master writes `2026-12-01 08:00 UTC` into its reasons; people read one clock alone, their own."""
    if " UTC" not in text:
        return text
    import re

    return re.sub(r"\b(\d{4}-\d\d-\d\d) (\d\d:\d\d) UTC\b", _local_minute, text)


def _local_minute(found: Any) -> str:
    try:
        return local_time(f"{found[1]}T{found[2]}:00Z")[:16]
    except (ValueError, OverflowError):
        return str(found[0])


def say(text: str) -> None:
    """One line of ours on stderr. A stderr that is gone is no reason to fail."""
    with suppress(OSError, ValueError):
        print(f"mgpu: {clean(in_local_time(text))}", file=sys.stderr, flush=True)
