"""Colours and weights that a job's output asks for: what `ESC [ ... m` says, as a value.

Blinking and hidden text are not among them: the one disturbs, the other would keep from the reader what was written.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

TRUE_COLOUR = 1 << 24  # added to the three bytes of a colour that is not one of the 256


class Look(NamedTuple):
    """`colour`, `ground`: None = the reader's own, 0 to 255 of the palette, from TRUE_COLOUR on red, green and blue."""

    colour: int | None = None
    ground: int | None = None
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underline: bool = False
    reverse: bool = False
    strike: bool = False


PLAIN = Look()
SWITCHES = {
    1: {"bold": True},
    2: {"dim": True},
    3: {"italic": True},
    4: {"underline": True},
    7: {"reverse": True},
    9: {"strike": True},
    21: {"underline": True},
    22: {"bold": False, "dim": False},
    23: {"italic": False},
    24: {"underline": False},
    27: {"reverse": False},
    29: {"strike": False},
}


@lru_cache(1024)  # programs use a few, again and again
def changed(look: Look, parameters: str) -> Look:
    """`look` after ESC [ parameters m; what is not known is passed over."""
    if not parameters or parameters == "0":
        return PLAIN
    if parameters[0] in "<=>?":  # keys of the terminal, and no colours
        return look
    for group in _groups(parameters):
        look = _after(look, group)
    return look


def _groups(parameters: str) -> Iterator[list[int]]:
    """A number each, and those of an extended colour (58: of the underline) together, with `;` or `:` between them."""
    numbers = iter(parameters.split(";"))
    for word in numbers:
        group = [_number(piece) for piece in word.split(":")]
        if group in ([38], [48], [58]):
            kind = _number(next(numbers, ""))
            rest = {2: 3, 5: 1}.get(kind, 0)
            group += [kind, *(_number(next(numbers, "")) for _ in range(rest))]
        elif len(group) > 5 and group[0] in (38, 48, 58) and group[1] == 2:
            del group[2]  # 38:2:SPACE:R:G:B
        yield group


def _number(word: str) -> int:
    return int(word) if word.isascii() and word.isdigit() and len(word) < 6 else 0


def _after(look: Look, group: list[int]) -> Look:
    code = group[0]
    if code == 0:
        return PLAIN
    if code in (38, 48):
        return _coloured(look, code == 48, _extended(group[1:]))
    if code == 4 and group[1:2] == [0]:  # 4:0, as 24
        return look._replace(underline=False)
    if code in SWITCHES:
        return look._replace(**SWITCHES[code])
    for first, shift, ground in ((30, 0, False), (40, 0, True), (90, 8, False), (100, 8, True)):
        if first <= code < first + 8:
            return _coloured(look, ground, code - first + shift)
    if code in (39, 49):
        return _coloured(look, code == 49, None)
    return look


def _extended(numbers: list[int]) -> int | None:
    """Of 5;N or 2;R;G;B."""
    match numbers:
        case [5, number, *_] if number < 256:
            return number
        case [2, red, green, blue, *_] if max(red, green, blue) < 256:
            return TRUE_COLOUR | red << 16 | green << 8 | blue
    return None


def _coloured(look: Look, ground: bool, colour: int | None) -> Look:
    return look._replace(ground=colour) if ground else look._replace(colour=colour)
