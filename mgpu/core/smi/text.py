"""Single values, in all the spellings of not having one."""

from __future__ import annotations

import re
from functools import lru_cache

SHOWN = 200  # characters of a node's own words in ours
WARNING = "WARNING:"  # how nvidia-smi begins what it adds about GPUs that work (an infoROM that is corrupted)

_BUS_ID = re.compile(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-9A-Fa-f])")
_NUMBER = re.compile(r"(\d{1,12})(?:\.\d+)?(?: ?(?:MiB|%|W|C))?", re.ASCII)
_NO_VALUE = frozenset({"", "n/a", "err!", "unknown error", "not supported", "none"})


def lines(text: str, shown: int | None = SHOWN) -> list[str]:
    """Without those that are empty, and printable: what is quoted from them goes to terminals."""
    stripped = (line.strip() for line in text.split("\n"))
    return [(line if line.isprintable() else printable(line.replace("\t", " ")))[:shown] for line in stripped if line]


def absent(text: str) -> bool:
    return text.startswith("[") or text.lower() in _NO_VALUE


def value(text: str) -> str:
    return "" if absent(text) else text


def number(text: str) -> int | None:
    """The whole part of a number that is not negative, with or without its unit."""
    found = _NUMBER.fullmatch(text)
    return int(found[1]) if found else None


def printable(text: str) -> str:
    """Without what could steer a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def bus_id(text: str) -> str:
    """The first one in it; "" = there is none."""
    found = _BUS_ID.search(text)
    return found.group() if found else ""


@lru_cache(maxsize=4096)  # the same few slots in every probe
def bus_number(text: str) -> tuple[int, ...] | None:
    """Domain, bus, device, function: the same slot is written 0000:0A:00.0 and 00000000:0a:00.0."""
    found = _BUS_ID.search(text)
    return tuple(int(part, 16) for part in found.groups()) if found else None
