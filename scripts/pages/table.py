"""Tables of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [_line(headers), _line(["---"] * len(headers)), *map(_line, rows)]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def code(text: str) -> str:
    """As it is typed; "" stays that."""
    if not text:
        return ""
    return f"`` {text} ``" if "`" in text else f"`{text}`"
