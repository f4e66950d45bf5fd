"""A part of a document against its schema: pydantic's errors in our words, at their line and column."""

from __future__ import annotations

from typing import Any, TypeVar, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from mgpu.config.document import Document, Raw
from mgpu.config.faults import KeyPath, did_you_mean
from mgpu.config.schema import Section

S = TypeVar("S", bound=Section)

_WORDS = {
    "missing": "is missing",
    "model_type": "must be a mapping (key: value)",
    "dict_type": "must be a mapping (key: value)",
    "list_type": "must be a list",
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "float_type": "must be a time",
    "too_short": "must not be empty: leave it out instead",
}


def validate(document: Document, model: type[S], data: Raw, path: KeyPath = ()) -> S | None:
    """The part `data` that stands at `path`; None if it has faults, which are then the document's."""
    try:
        return model.model_validate(data, context={"folder": document.folder})
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            unknown = detail["type"] == "extra_forbidden"
            location = tuple(part for part in detail["loc"] if part != "[key]")
            document.blame((*path, *location), _what(detail, model), of_key=unknown or "[key]" in detail["loc"])
        return None


def _what(detail: ErrorDetails, model: type[Section]) -> str:
    kind, given, limits = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        word = str(detail["loc"][-1])
        return f"unknown key {word!r}{did_you_mean(word, _known(model, detail['loc'][:-1]))}"
    if kind == "literal_error":
        expected = str(limits["expected"])
        return f"must be {expected}, not {given!r}{did_you_mean(str(given), expected.split(chr(39))[1::2])}"
    if kind == "value_error":
        return str(limits["error"])
    if kind in ("greater_than_equal", "greater_than", "less_than_equal"):
        bound = {"greater_than_equal": "at least", "greater_than": "more than", "less_than_equal": "at most"}[kind]
        return f"must be {bound} {next(iter(limits.values())):g}, not {given}"
    return _WORDS.get(kind, detail["msg"])


def _known(model: type[Section], location: tuple[int | str, ...]) -> list[str]:
    """The keys that are known in the section at `location`."""
    for part in location:
        if isinstance(part, str) and part in model.model_fields:
            model = _section(model.model_fields[part].annotation) or model
    return [*model.model_fields]


def _section(annotation: Any) -> type[Section] | None:
    """The section that an annotation such as `dict[str, Section] | None` speaks of."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next((found for part in get_args(annotation) if (found := _section(part))), None)
