"""Letters that are safe to show, and how many columns of a terminal they take."""

from __future__ import annotations

from mgpu.lean.typing import Any


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
    return len(text) + wide - sum(unicodedata.category(letter) in ("Mn", "Me") for letter in text)


def cut(text: str, columns: int) -> str:
    """At most `columns` wide; what is left out is marked with `…`."""
    if width_of(text) <= columns:
        return text
    kept = text[: max(columns - 1, 0)]
    while kept and width_of(kept) > columns - 1:
        kept = kept[:-1]
    return kept + "…"
