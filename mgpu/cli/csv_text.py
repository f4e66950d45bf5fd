"""Rows for a spreadsheet."""

from __future__ import annotations

from mgpu.lean.typing import Iterable, Sequence

FORMULA = "=+-@＝＋－＠"


def csv_text(rows: Iterable[Sequence[str]]) -> str:
    """RFC 4180. What others called their jobs may be opened by a spreadsheet, to which a cell that begins so is a
    formula: such a one gets a `'` before it."""
    return "".join(",".join(map(_quoted, row)) + "\r\n" for row in rows)


def _quoted(cell: str) -> str:
    if cell.lstrip()[:1] in FORMULA and cell.strip():
        cell = f"'{cell}"
    return f'"{cell.replace(chr(34), chr(34) * 2)}"' if any(sign in cell for sign in ',"\r\n') else cell
