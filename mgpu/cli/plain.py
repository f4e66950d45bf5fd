"""Reads the command lines that hold nothing but known options with sound values: nearly all of them.

Whatever else there may be (--help, a mistake, switches in one word) is left to click, which knows what to say. So both
must read a plain line alike; tests/cli/test_readers.py compares them.
"""

from __future__ import annotations

from mgpu.cli.syntax import GLOBAL_OPTIONS, Argument, Command, Group, Option, Reading, by_flag, split
from mgpu.lean.typing import Any, Mapping, Sequence
from mgpu.numeral import numeral


class NotPlain(Exception):
    """Somebody who can explain has to read it."""


def read(root: Group | Command, args: Sequence[str]) -> Reading | None:
    """None if the line is not plain."""
    try:
        return _read(root, list(args))
    except NotPlain:
        return None


def _read(root: Group | Command, rest: list[str]) -> Reading:
    before: dict[str, Any] = {}
    everywhere = by_flag(GLOBAL_OPTIONS)
    found: Any = root
    while isinstance(found, Group):
        while rest and rest[0].startswith("-"):
            _take_option(rest, everywhere, before)
        if not rest:
            raise NotPlain
        found = found.get(rest.pop(0))
    if found is None:
        raise NotPlain
    options = {**everywhere, **by_flag(found.options)}  # node add has a --port of its own
    given: dict[str, Any] = {option.key: option.absent for option in found.options}
    if found.words:
        rest, given["words"] = split(rest, options)
    positional: list[str] = []
    told: dict[str, Any] = {}
    while rest:
        if rest[0] == "--":
            positional += rest[1:]
            break
        if rest[0].startswith("-") and rest[0] != "-":
            _take_option(rest, options, told)
        else:
            positional.append(rest.pop(0))
    given.update({key: value for key, value in told.items() if key in given})
    given.update(_arguments(found.arguments, positional))
    common = {key: value for key, value in before.items() if value}
    common.update({key: value for key, value in told.items() if key not in given and value})
    return Reading(found, given, common)


def _take_option(rest: list[str], options: Mapping[str, Option], told: dict[str, Any]) -> None:
    """Moves the first word of `rest`, and its value, to `told`. Raises NotPlain."""
    word = rest.pop(0)
    if word.startswith("--"):
        flag, attached, value = word.partition("=")
    else:
        flag, value = word[:2], word[2:]
        attached = value
    option = options.get(flag)
    if option is None or (not option.metavar and attached) or (option.metavar and not attached and not rest):
        raise NotPlain
    if not option.metavar:
        told[option.key] = True
        return
    text = value if attached else rest.pop(0)
    if option.repeated:
        told[option.key] = (*told.get(option.key, ()), text)
    else:
        told[option.key] = text if option.whole is None else _whole_number(text, option.whole)


def _whole_number(text: str, whole: range) -> int:
    number = numeral(text)
    if number is None or number not in whole:
        raise NotPlain
    return number


def _arguments(arguments: Sequence[Argument], words: list[str]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for argument in arguments:
        if argument.nargs == "*":
            given[argument.key], words = tuple(words), []
        elif words:
            given[argument.key], words = words[0], words[1:]
        elif argument.nargs == "?":
            given[argument.key] = None
        else:
            raise NotPlain
    if words:
        raise NotPlain
    return given
