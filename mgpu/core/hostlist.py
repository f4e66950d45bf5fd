"""Hostlists in Slurm's form: `gpu[001-004,007],login1` stands for many names, in order.

`fold` is the way back: `expand(fold(names)) == names`, for any names without brackets, commas and blanks. The order is
kept and never sorted, since it is the order of the ranks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import groupby, product
from math import prod

from mgpu.core.errors import RequestError

MAX_NAMES = 100_000
_MAX_DIGITS = 18
_LONGEST = 200  # of a word that a near one is sought for: the search takes the square of it

_TOKEN = re.compile(r"\[(?P<ranges>[^\[\]]*)\]|(?P<text>[^\[\],\s]+)")
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")
_NUMBER = re.compile(r"0*([0-9]+)")
_NUMBERED = re.compile(rf"(?P<prefix>.*?)(?P<number>[0-9]{{1,{_MAX_DIGITS}}})(?P<suffix>[^0-9]*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Range:
    low: int
    high: int
    width: int

    def __len__(self) -> int:
        return self.high - self.low + 1

    def numbers(self) -> Iterable[str]:
        return (str(number).zfill(self.width) for number in range(self.low, self.high + 1))


def expand(text: str) -> list[str]:
    """The names that a hostlist stands for. Raises RequestError for bad syntax and above MAX_NAMES names."""
    names: list[str] = []
    for word in _words(text):
        parts = [_part(match, word) for match in _tokens(word)]
        count = prod(sum(map(len, part)) for part in parts if not isinstance(part, str))
        if len(names) + count > MAX_NAMES:
            raise RequestError(f"hostlist {text!r} stands for more than {MAX_NAMES} names")
        choices = [[part] if isinstance(part, str) else [n for r in part for n in r.numbers()] for part in parts]
        names += ["".join(choice) for choice in product(*choices)]
    return names


def in_step(text: str, count: int) -> list[str]:
    """The `count` names of a field that runs in step with a range of `count` others.

    So node_id `gpu[1-4]` goes with hostname `gpu[1-4].example.org` and ip `10.0.0.[11-14]`. RequestError if the
    numbers differ.
    """
    names = expand(text)
    if len(names) != count:
        raise RequestError(f"{text!r} stands for {_names(len(names))}, the node_id beside it for {_names(count)}")
    return names


def fold(names: Iterable[str]) -> str:
    """The names as one hostlist: neighbours that differ in their last number alone share a pair of brackets."""
    words: list[str] = []
    splits = (_split(name) for name in names)
    for (prefix, suffix, numbered), group in groupby(splits, key=lambda split: (split[0], split[2], split[1] != "")):
        numbers = [number for _, number, _ in group]
        if len(numbers) > 1 and numbered:
            words.append(f"{prefix}[{','.join(_runs(numbers))}]{suffix}")
        else:
            words += [f"{prefix}{number}{suffix}" for number in numbers]
    return ",".join(words)


def nearest(word: str, known: Iterable[str], least: float = 0.6) -> str:
    """The one among `known` that was probably meant by `word`; "" = none is near. `least` is a share of the letters.

    Only letters are ever mistyped: `gpu017` beside gpu016 and gpu018 is another machine, and as near to one as to the
    other. But `gpu17` and `GPU-017` may well be gpu017.
    """
    word = word[:_LONGEST]
    numbers = _NUMBER.findall(word)
    alike = {_plain(name): name for name in known if _NUMBER.findall(name) == numbers}
    close = get_close_matches(_plain(word), alike, n=1, cutoff=least)
    return alike[close[0]] if close else ""


def _plain(name: str) -> str:
    return _NUMBER.sub(r"\1", name.lower())


def _words(text: str) -> list[str]:
    """Cut at the commas that stand outside brackets."""
    words = re.split(r",(?![^\[]*\])", text.strip())
    if words == [""]:
        return []
    if not all(word.strip() for word in words):
        raise RequestError(f"hostlist {text!r}: an empty name between commas")
    return [word.strip() for word in words]


def _tokens(word: str) -> list[re.Match[str]]:
    matches, position = [], 0
    while position < len(word):
        match = _TOKEN.match(word, position)
        if match is None:
            raise RequestError(f"hostlist {word!r}: {_complaint(word[position])}; write it like gpu[001-004,007]")
        matches.append(match)
        position = match.end()
    return matches


def _complaint(character: str) -> str:
    if character in "[]":
        return "a bracket without its partner"
    return "a comma at the wrong place" if character == "," else "a blank inside a name"


def _part(match: re.Match[str], word: str) -> str | list[_Range]:
    if match["ranges"] is None:
        return match["text"]
    return [_range(item, word) for item in match["ranges"].split(",")]


def _range(item: str, word: str) -> _Range:
    match = _RANGE.fullmatch(item.strip())
    if match is None:
        raise RequestError(f"hostlist {word!r}: {item!r} is no number and no range like 001-004")
    low, high = match[1], match[2] or match[1]
    if max(len(low), len(high)) > _MAX_DIGITS:
        raise RequestError(f"hostlist {word!r}: the numbers in {item!r} are too long")
    if int(high) < int(low):
        raise RequestError(f"hostlist {word!r}: the range {item!r} runs backwards")
    padded = low.startswith("0") and len(low) > 1
    if high.startswith("0") and len(high) != len(low):
        raise RequestError(f"hostlist {word!r}: both ends of {item!r} need the same number of digits")
    return _Range(int(low), int(high), len(low) if padded else 1)


def _split(name: str) -> tuple[str, str, str]:
    """Prefix, last number ("" = none), suffix."""
    match = _NUMBERED.fullmatch(name)
    return (match["prefix"], match["number"], match["suffix"]) if match else (name, "", "")


def _runs(numbers: list[str]) -> Iterable[str]:
    """Inside of the brackets: `001-003`, `007`, ... A run keeps the width of its first number."""
    first = last = numbers[0]
    for number in [*numbers[1:], ""]:
        if number == str(int(last) + 1).zfill(len(last)):
            last = number
            continue
        yield first if first == last else f"{first}-{last}"
        first = last = number


def _names(count: int) -> str:
    return "1 name" if count == 1 else f"{count} names"
