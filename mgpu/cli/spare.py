"""Spares every command what click imports and we have no use for: a third of a command's whole CPU time.

While click is imported, a stand-in sits in the place of `inspect` (with ast, dis, tokenize: of it click wants the three
small functions below) and of `uuid` (with platform: a type of option that we have none of). What else may be asked of a
stand-in comes from the real module, then imported, so another version of click costs time and breaks nothing. Nobody
but click ever sees them: they leave sys.modules as soon as it is imported.
"""

from __future__ import annotations

import importlib
import sys
from types import FunctionType, ModuleType
from typing import Any


class StandIn(ModuleType):
    """Has what it is given; the rest is the real module's."""

    def __init__(self, name: str, has: dict[str, Any]) -> None:
        super().__init__(name)
        self.__dict__.update(has)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system asks for a few
            raise AttributeError(name)
        here = sys.modules.get(self.__name__)
        if here is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


def import_click() -> None:
    """Nothing is put in the place of a module that is there already."""
    stand_ins: dict[str, dict[str, Any]] = {
        "inspect": {"cleandoc": cleandoc, "isfunction": isfunction, "currentframe": sys._getframe},
        "uuid": {"UUID": type("UUID", (), {})},
    }
    placed = [StandIn(name, has) for name, has in stand_ins.items() if name not in sys.modules]
    for stand_in in placed:
        sys.modules[stand_in.__name__] = stand_in
    try:
        import click  # noqa: F401
    finally:
        for stand_in in placed:
            if sys.modules.get(stand_in.__name__) is stand_in:
                del sys.modules[stand_in.__name__]


def isfunction(value: object) -> bool:
    return isinstance(value, FunctionType)


def cleandoc(text: str) -> str:
    """As inspect.cleandoc: without the indentation that all lines but the first share, and empty lines at the ends."""
    first, *others = text.expandtabs().split("\n")
    margin = min((len(line) - len(line.lstrip(" ")) for line in others if line.strip(" ")), default=0)
    lines = [first.lstrip(" "), *(line[margin:] for line in others)]
    while lines and not lines[-1]:
        lines.pop()
    while lines and not lines[0]:
        lines.pop(0)
    return "\n".join(lines)
