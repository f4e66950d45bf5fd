"""The classes that `mgpu` offers to Python, with what their docstrings say."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import mgpu
from scripts.pages.commands import safe

HEAD = """\
# Python: every class

What `from mgpu import ...` offers, as the docstrings tell it. Where to begin: [from Python](python.md).
"""
FIRST = ("Client", "AsyncClient")
MARKS: Mapping[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def page() -> str:
    offered = {name: getattr(mgpu, name) for name in (*FIRST, *mgpu.__all__)}
    classes = {name: found for name, found in offered.items() if isinstance(found, type)}
    return "\n".join([HEAD, *(line for name, found in classes.items() for line in _class(name, found))])


def _class(name: str, found: type) -> Iterator[str]:
    yield f"## {name}\n"
    parents = [each.__name__ for each in found.__bases__ if each not in (object, tuple)]
    if issubclass(found, BaseException):
        yield f"An exception; `{parents[0]}` is above it.\n"
    yield from _said(found.__doc__)
    init = vars(found).get("__init__")
    fields = _fields(found)
    if fields:
        yield "\n".join(f"- `{field}: {kind}`" for field, kind in fields.items()) + "\n"
    elif inspect.isfunction(init):
        yield f"    {name}{_signature(init)}\n"
        yield from _said(init.__doc__)
    for method, value in vars(found).items():
        if not method.startswith("_"):
            yield from _method(method, value)


def _fields(found: type) -> Mapping[str, str]:
    """Of a value."""
    if not (hasattr(found, "_fields") or hasattr(found, "__dataclass_fields__")):
        return {}
    kinds: Mapping[str, Any] = inspect.get_annotations(found)
    return {name: _shown(kind) for name, kind in kinds.items() if not name.startswith("_")}


def _method(name: str, value: object) -> Iterator[str]:
    if isinstance(value, property):
        kind = _shown(inspect.get_annotations(value.fget).get("return", "")) if value.fget else ""
        heading, doc = f"{name}: {kind}", value.__doc__
    elif isinstance(value, staticmethod | classmethod):
        return  # how the values are made of answers
    elif inspect.isfunction(value):
        prefix = "async " if inspect.iscoroutinefunction(value) else ""
        heading, doc = f"{prefix}{name}{_signature(value)}", value.__doc__
    else:
        return
    yield f"### {name}\n"
    yield f"    {heading}\n"
    yield from _said(doc)


def _signature(function: Any) -> str:
    parameters = []
    star = False
    for each in list(inspect.signature(function).parameters.values())[1:]:
        if each.kind is each.KEYWORD_ONLY and not star:
            parameters.append("*")
        star = star or each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        default = "" if each.default is each.empty else f" = {each.default!r}"
        parameters.append(f"{MARKS.get(each.kind, '')}{each.name}: {_shown(each.annotation)}{default}")
    returned = inspect.get_annotations(function).get("return", "")
    return f"({', '.join(parameters)})" + (f" -> {_shown(returned)}" if returned not in ("", "None") else "")


def _shown(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def _said(doc: str | None) -> Iterator[str]:
    paragraphs = textwrap.dedent("    " * (not (doc or "").startswith(" ")) + (doc or "")).strip().split("\n\n")
    for paragraph in paragraphs:
        if paragraph.strip():
            yield safe(" ".join(paragraph.split())) + "\n"
