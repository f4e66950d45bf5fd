"""`json`, by the half of it that is written in C: the other one loads a library of patterns.

Where that half is missing or not as it was, these are the real ones.
"""

from __future__ import annotations

from mgpu.lean.typing import Any

try:
    from _json import encode_basestring_ascii, make_encoder, make_scanner

    class _Context:
        """What the C half asks of a decoder, as json.JSONDecoder has it."""

        strict = True
        object_hook = object_pairs_hook = None
        parse_float, parse_int = float, int
        parse_constant = {"-Infinity": float("-inf"), "Infinity": float("inf"), "NaN": float("nan")}.__getitem__

    def _unknown(value: Any) -> Any:
        raise TypeError(f"an object of type {type(value).__name__} cannot be written as JSON")

    _scan = make_scanner(_Context)  # type: ignore[arg-type]
    _write = make_encoder(None, _unknown, encode_basestring_ascii, None, ": ", ", ", False, False, True)
except (ImportError, AttributeError, TypeError):
    from json import dumps, loads
else:
    _BLANKS = " \t\n\r"

    def loads(text: str | bytes) -> Any:  # type: ignore[misc]
        """Bytes are UTF-8. Raises ValueError, or RecursionError."""
        if not isinstance(text, str):
            text = text.decode()
        start = len(text) - len(text.lstrip(_BLANKS))
        try:
            value, end = _scan(text, start)
        except StopIteration as error:
            raise ValueError(f"JSON ends or goes wrong at letter {error.value}") from None
        if text[end:].strip(_BLANKS):
            raise ValueError(f"JSON goes on behind its end at letter {end}")
        return value

    def dumps(value: Any) -> str:  # type: ignore[misc]
        """On one line. Raises TypeError, ValueError or RecursionError."""
        return "".join(_write(value, 0))


def indented(value: Any) -> str:
    """For people to read."""
    import json

    return json.dumps(value, indent=2)


__all__ = ["dumps", "indented", "loads"]
