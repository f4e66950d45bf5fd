"""A YAML file as plain mappings, lists and *text*, with the place of every key and value.

YAML's own guesses (1:30:00 is 5400, 010 is 8, `no` is false, 1.10 is 1.1) never happen, since nothing is resolved: each
scalar stays the text that was written, and the schema, which knows what is wanted, reads it. Only an empty value, `~`
and `null` are None. A key given twice is a fault; what it holds the second time is read too, since its faults count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from mgpu.config.faults import Fault, KeyPath, Place, dotted

Raw: TypeAlias = "str | list[Raw] | dict[str, Raw] | None"

MAX_VALUES = 100_000  # aliases of aliases can grow without bound
MAX_CUTS = 20  # tries to find the part of a broken file that is YAML

_NULLS = ("", "~", "null", "Null", "NULL")
_TAGS = {"tag:yaml.org,2002:" + kind for kind in ("str", "map", "seq")}
_LOADER: Any = type("_Loader", (getattr(yaml, "CSafeLoader", yaml.SafeLoader),), {"yaml_implicit_resolvers": {}})


@dataclass
class Document:
    """`file` is the name used in messages, `folder` what relative paths in it start from.

    `unread` holds the places whose value nobody can be sure of: a fault was told there. Checks that need such a value
    leave it at that, or one fault would be told as two.
    """

    file: str
    folder: Path
    data: dict[str, Raw] = field(default_factory=dict)
    keys: dict[KeyPath, Place] = field(default_factory=dict)
    values: dict[KeyPath, Place] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    unread: set[KeyPath] = field(default_factory=set)

    def place(self, path: KeyPath, of_key: bool = False) -> Place:
        """Of the value (or the key) at `path`, else of the nearest thing that holds it."""
        if of_key and path in self.keys:
            return self.keys[path]
        while path and path not in self.values:
            path = path[:-1]
        return self.values.get(path, Place(self.file, 1, 1))

    def blame(self, path: KeyPath, what: str, of_key: bool = False) -> None:
        self.faults.append(Fault(self.place(path, of_key), dotted(path), what))

    def rename(self, path: KeyPath, holder: dict[str, Raw], new: str) -> None:
        """The last key of `path` becomes `new`. Places move along: a fault in the value is shown where it stands."""
        value = holder[new] = holder.pop(str(path[-1]))
        self._move(path, (*path[:-1], new), value)

    def _move(self, path: KeyPath, new: KeyPath, value: Raw) -> None:
        for places in (self.keys, self.values):
            if path in places:
                places[new] = places[path]
        for part, item in _parts(value):
            self._move((*path, part), (*new, part), item)


def read(path: Path) -> Document:
    """The file's content; what is wrong with it is in `faults`. Raises OSError."""
    document = Document(str(path), path.absolute().parent)
    try:
        node = _compose(path.read_bytes().decode("utf-8-sig"), document)
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        document.faults.append(Fault(Place(document.file, line, 1), "", "not UTF-8 text"))
    except yaml.YAMLError as error:
        document.faults.append(Fault(document.place(()), "", f"not YAML: {' '.join(str(error).split())}"))
    else:
        if node is not None:
            data = _Walk(document).value(node, (), ())
            if isinstance(data, dict):
                document.data = data
            elif data is not None:
                document.blame((), "must be a mapping (key: value)")
    return document


def _compose(text: str, document: Document) -> Any:
    """The nodes of the text; where it is no YAML, of what stands above the piece that breaks it."""
    try:
        return yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        marks = [mark for mark in (error.problem_mark, error.context_mark) if mark]
        place = Place(document.file, marks[0].line + 1, marks[0].column + 1) if marks else document.place(())
        lines = text.splitlines(keepends=True)
        document.faults.append(Fault(place, "", f"not YAML: {_what(error, lines)}"))
        starts = _starts(lines[: 1 + min([mark.line for mark in marks], default=0)])
    for start in starts[: -MAX_CUTS - 1 : -1]:
        with suppress(yaml.YAMLError):
            return yaml.compose("".join(lines[:start]), Loader=_LOADER)
    return None


def _what(error: yaml.MarkedYAMLError, lines: Sequence[str]) -> str:
    """In the parser's words, with the line where what is not complete began."""
    mark, began = error.problem_mark, error.context_mark
    if mark and mark.line < len(lines) and lines[mark.line][mark.column : mark.column + 1] == "\t":
        return "a tab cannot indent: take blanks"
    context = error.context
    if context and mark and began and began.line != mark.line:
        context += f" (line {began.line + 1})"
    return ": ".join(part for part in (context, error.problem) if part)


def _starts(lines: list[str]) -> list[int]:
    """Where the pieces begin that say something by themselves: keys at the margin, and the entries of their lists."""
    starts = []
    entries = None
    for number, line in enumerate(lines):
        bare = line.lstrip(" ")
        indentation = len(line) - len(bare)
        if bare.startswith("- ") and entries in (None, indentation):
            entries = indentation
            starts.append(number)
        elif line[0].isalpha():
            entries = None
            starts.append(number)
    return starts


def _parts(value: Raw) -> Iterable[tuple[str | int, Raw]]:
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, list) else ()


class _Walk:
    def __init__(self, document: Document) -> None:
        self.document = document
        self.count = 0

    def value(self, node: Any, path: KeyPath, above: tuple[int, ...]) -> Raw:
        self.document.values[path] = self._place(node)
        self.count += 1
        if self.count == MAX_VALUES:
            self.document.blame(path, f"more than {MAX_VALUES} values: too many aliases?")
        if self.count >= MAX_VALUES:
            return None
        if id(node) in above:
            self.document.blame(path, "an alias inside of what it stands for")
            return None
        if node.tag not in _TAGS:
            self.document.blame(
                path, f"a tag ({node.tag.replace('tag:yaml.org,2002:', '!!')}) has no use here: remove it"
            )
        if isinstance(node, yaml.ScalarNode):
            return None if not node.style and node.value in _NULLS else str(node.value)
        data: Raw = [] if isinstance(node, yaml.SequenceNode) else {}
        self._fill(data, node, path, above, again=False)
        return data

    def _fill(self, data: Raw, node: Any, path: KeyPath, above: tuple[int, ...], again: bool) -> None:
        """The content of a list or mapping goes into `data`; `again`: into that of the same key, given before."""
        above = (*above, id(node))
        if isinstance(data, list) and isinstance(node, yaml.SequenceNode):
            data += [self.value(item, (*path, index), above) for index, item in enumerate(node.value, len(data))]
        if isinstance(data, dict) and isinstance(node, yaml.MappingNode):
            self._mapping(data, node, path, above, again)

    def _mapping(self, data: dict[str, Raw], node: Any, path: KeyPath, above: tuple[int, ...], again: bool) -> None:
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.document.faults.append(Fault(self._place(key), dotted(path), "a key must be a single word"))
                continue
            name = str(key.value)
            here = (*path, name)
            if name in data:
                if not again:
                    what = f"given twice, first in line {self.document.keys[here].line}"
                    self.document.faults.append(Fault(self._place(key), dotted(here), what))
                self._more(data, name, value, here, above)
                continue
            self.document.keys[here] = self._place(key)
            data[name] = self.value(value, here, above)

    def _more(self, data: dict[str, Raw], name: str, node: Any, path: KeyPath, above: tuple[int, ...]) -> None:
        """The value of a key given again: two mappings or lists are read as one, so that both are checked."""
        if not (isinstance(data[name], dict) and isinstance(node, yaml.MappingNode)):
            self.document.unread.add(path)
        if data[name] is None:
            data[name] = self.value(node, path, above)
        elif id(node) not in above:
            self._fill(data[name], node, path, above, again=True)

    def _place(self, node: Any) -> Place:
        return Place(self.document.file, node.start_mark.line + 1, node.start_mark.column + 1)
