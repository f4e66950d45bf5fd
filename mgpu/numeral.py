"""Numbers as somebody else wrote them. `isdigit` takes ² and ٣ too, of which `int` refuses some, as it refuses what has
thousands of digits: whoever reads what a node or a client says takes them from here."""

from __future__ import annotations

LONGEST = 18  # digits: what a database's whole numbers hold


def numeral(text: str) -> int | None:
    """A whole number that is not negative; None = it is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= LONGEST else None
