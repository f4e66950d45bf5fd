"""Reading values out of JSON that anybody may have written: types, sizes, characters are checked, nothing is coerced.

Texts may hold surrogate escapes (bytes that are not UTF-8); sizes are in bytes as the node will see them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mgpu.core.errors import RequestError
from mgpu.core.hostlist import nearest

MAX_WORD = 128 << 10  # what Linux takes as one argument
MAX_WORDS = 1 << 20
MAX_SCRIPT = 4 << 20
MAX_ENV = 1 << 20
MAX_OPTION = 64 << 10

_NUMBER = re.compile(r"[+-]?\d{1,9}", re.ASCII)


def mapping(source: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = source.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise RequestError(f"'{key}' must be an object")
    return value


def only_keys(source: Mapping[str, Any], known: Iterable[str], what: str) -> None:
    """A key that is passed over could change what the user meant: refused instead."""
    known = list(known)
    for key in source:
        if key not in known:
            raise RequestError(
                f"{what} '{shown(key)}' is not known to this master{did_you_mean(key, known)}",
                "is the master older than the client? `mgpu status` shows its version",
            )


def not_empty(source: Mapping[str, Any], keys: Iterable[str]) -> None:
    """Those of these that are given."""
    for key in keys:
        value = source.get(key)
        if isinstance(value, str) and not value.strip():
            told = f"{spoken(source, key)} is empty: give it a value or leave it out"
            raise RequestError(told, "is a variable unset?")


class Options(dict[str, Any]):
    """Those of a job: in what is said of one it has the name under which it was typed."""


def spoken(source: Mapping[str, Any], key: str) -> str:
    return f"--{key.replace('_', '-')}" if isinstance(source, Options) else key


def _named(what: str) -> str:
    return what if what.startswith("--") else f"'{what}'"


def text(source: Mapping[str, Any], key: str, most: int = MAX_OPTION) -> str:
    """The text at `key`, "" if it is absent or null."""
    value = source.get(key)
    return "" if value is None else checked_text(value, spoken(source, key), most)


def checked_text(value: Any, what: str, most: int) -> str:
    if not isinstance(value, str):
        raise RequestError(f"{_named(what)} must be a text, not {type(value).__name__}")
    if "\0" in value:
        raise RequestError(f"{_named(what)} must not hold a NUL character")
    if size_of(value, what) > most:
        raise RequestError(f"{_named(what)} is longer than {most} bytes")
    return value


def size_of(value: str, what: str) -> int:
    try:
        return len(value.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError as error:
        raise RequestError(f"{_named(what)} is not a valid text: it holds half a character") from error


def line(source: Mapping[str, Any], key: str, most: int = 4096) -> str:
    """A text without control characters."""
    value = text(source, key, most)
    if any(letter < " " or letter == "\x7f" for letter in value):
        raise RequestError(f"{_named(spoken(source, key))} must not hold control characters")
    return value


def flag(source: Mapping[str, Any], key: str) -> bool:
    value = source.get(key)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise RequestError(f"{_named(spoken(source, key))} must be true or false")
    return value


def whole(source: Mapping[str, Any], key: str, option: str, least: int, most: int) -> int | None:
    """The number that a text spells, None if absent."""
    value = text(source, key, 64).strip()
    if not value:
        if source.get(key) is None:
            return None
        raise RequestError(f"{option} needs a number")
    if not _NUMBER.fullmatch(value):
        raise RequestError(f"{option} '{shown(value)}' is not a whole number")
    number = int(value)
    if not least <= number <= most:
        raise RequestError(f"{option} {number} is out of range: {least} to {most}")
    return number


def words(source: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """A list of arguments."""
    value = source.get(key)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise RequestError(f"'{key}' must be a list of texts")
    if len(value) > MAX_WORDS // 2:
        raise RequestError(f"'{key}' holds too many words")
    found = tuple(checked_text(word, key, MAX_WORD - 1) for word in value)
    if sum(size_of(word, key) + 1 for word in found) > MAX_WORDS:
        raise RequestError("the command is longer than 1 MiB: put its input into a file")
    return found


def did_you_mean(word: str, known: Sequence[str]) -> str:
    near = nearest(word[:200], known)
    return f": did you mean '{near}'?" if near else ""


def shown(value: str, most: int = 60) -> str:
    """A piece of what was sent, safe to print."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in value[: most + 1])
    return plain if len(plain) <= most else plain[: most - 1] + "…"
