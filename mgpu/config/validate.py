"""A part of a document against its schema: pydantic's errors in our words, at their line and column.

What can be read of it is read: a wrong value is told, taken out, and the rest is looked at again. So one fault hides no
other, neither here nor in what is checked afterwards.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from mgpu.config.document import Document, Raw
from mgpu.config.faults import KeyPath, did_you_mean
from mgpu.config.keys import check_keys
from mgpu.config.section import Section
from mgpu.config.values import parts

S = TypeVar("S", bound=Section)

_WORDS = {
    "model_type": "must be a mapping (key: value)",
    "dict_type": "must be a mapping (key: value)",
    "list_type": "must be a list",
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "float_type": "must be a time",
    "too_short": "must not be empty: leave it out instead",
}


def validate(document: Document, model: type[S], data: Raw, path: KeyPath = ()) -> S | None:
    """What can be read of the part `data` that stands at `path`; None if that is no mapping. Its faults are told."""
    check_keys(document, model, data, path)
    readable = data
    while True:
        try:
            return model.model_validate(readable, context={"folder": document.folder})
        except ValidationError as error:
            details = error.errors(include_url=False)
        locations: list[KeyPath] = []
        for detail in details:
            location = tuple(part for part in detail["loc"] if part != "[key]")
            document.blame((*path, *location), _what(detail), of_key="[key]" in detail["loc"])
            locations += [location] if location not in locations else []
        if () in locations:
            document.unread.add(path)
            return None
        readable = deepcopy(data) if readable is data else readable
        # The deepest and the last first: what is taken out must not move or hold what is still to be taken out.
        for _, location in sorted(enumerate(locations), key=lambda item: (len(item[1]), item[0]), reverse=True):
            document.unread.update((*path, *gone) for gone in _take_out(readable, location))


def _take_out(data: Any, location: KeyPath) -> list[KeyPath]:
    """What has gone: also a list that is empty then, for that it holds nothing is no fault of its own."""
    *above, last = location
    holder = data
    for key in above:
        if isinstance(holder[key], str):
            holder[key] = parts(holder[key])
        holder = holder[key]
    del holder[last]
    return [location, *(_take_out(data, tuple(above)) if holder == [] else ())]


def _what(detail: ErrorDetails) -> str:
    kind, given, limits = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "literal_error":
        expected = str(limits["expected"])
        return f"must be {expected}, not {given!r}{did_you_mean(str(given), expected.split(chr(39))[1::2])}"
    if kind == "value_error":
        return str(limits["error"])
    if kind in ("greater_than_equal", "greater_than", "less_than_equal"):
        bound = {"greater_than_equal": "at least", "greater_than": "more than", "less_than_equal": "at most"}[kind]
        return f"must be {bound} {next(iter(limits.values())):g}, not {given}"
    return _WORDS.get(kind, detail["msg"])
