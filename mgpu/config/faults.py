"""A fault of a configuration: where, which key, what, and perhaps what was meant."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mgpu.core.hostlist import nearest

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, order=True)
class Place:
    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """Prints as `file:line:column: key.path: what`; a fault of the YAML itself has no key."""

    place: Place
    key: str
    what: str

    def __str__(self) -> str:
        return f"{self.place}: {self.key}: {self.what}" if self.key else f"{self.place}: {self.what}"


def dotted(path: KeyPath) -> str:
    return ".".join(map(str, path))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A tail for a message, "" if nothing is close."""
    near = nearest(word, known)
    return f" - did you mean {near!r}?" if near else ""
