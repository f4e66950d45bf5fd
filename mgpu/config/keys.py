"""Keys that a document may have. One that nobody knows is a fault, and its value is read on as what was clearly meant.

So a misspelt key hides nothing: what is wrong with its value, or between it and others, is told in the same round.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args, get_origin

from mgpu.config.document import Document, Raw
from mgpu.config.faults import KeyPath
from mgpu.config.section import Section
from mgpu.core.hostlist import nearest

SURE = 0.75  # as near as `prot` is to `port`: near enough to act on a guess, not only to name it


def check_keys(document: Document, model: type[Section], data: Raw, path: KeyPath = ()) -> None:
    """Blames the unknown keys of `data` and of the sections in it, and renames them there or takes them out."""
    if not isinstance(data, dict):
        return
    for key in [key for key in data if key not in model.model_fields]:
        _unknown(document, model, data, (*path, key))
    for key in data:
        for section, item, place in _sections(model.model_fields[key].annotation, data[key], (*path, key)):
            check_keys(document, section, item, place)


def _unknown(document: Document, model: type[Section], holder: dict[str, Raw], path: KeyPath) -> None:
    key = str(path[-1])
    meant = nearest(key, model.model_fields)
    hint = meant or _deeper(model, key)
    tail = f" - did you mean {hint!r}?" if hint else ""
    document.blame(path, f"unknown key {key!r}{tail}", of_key=True)
    if nearest(key, model.model_fields, SURE) and holder.get(meant) is None:
        document.rename(path, holder, meant)
        return
    if meant not in holder:
        document.unread.add((*path[:-1], meant))
    del holder[key]


def _deeper(model: type[Section], key: str) -> str:
    """Where the key stands in a section of `model`: `user` of a node is `ssh.user`."""
    for name, field in model.model_fields.items():
        for section, _, _ in _sections(field.annotation, {}, ()):
            if key in section.model_fields:
                return f"{name}.{key}"
    return ""


def _sections(annotation: Any, value: Raw, path: KeyPath) -> Iterator[tuple[type[Section], Raw, KeyPath]]:
    """The sections in a value of the type `annotation`, such as `dict[str, Section] | None`, each with its place."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation, value, path
    elif get_origin(annotation) is dict:
        for name, item in value.items() if isinstance(value, dict) else ():
            yield from _sections(get_args(annotation)[1], item, (*path, name))
    else:
        for part in get_args(annotation):
            yield from _sections(part, value, path)
