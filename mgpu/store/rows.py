"""Values of the core to rows of `tables` and back, by their annotations: one field, one column.

Words and numbers go as they are, enums as their word, everything else as JSON text.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from dataclasses import fields
from enum import Enum
from functools import cache, lru_cache
from typing import Any, TypeVar

from sqlalchemy import RowMapping

from mgpu.core import codec
from mgpu.core.model import JobSpec

T = TypeVar("T")


def to_row(value: Any) -> dict[str, Any]:
    kind: Any = type(value)
    return {name: _column(getattr(value, name), as_json) for name, as_json, _ in _columns(kind)}


def from_row(kind: Callable[..., T], row: RowMapping) -> T:
    """`kind` is the dataclass."""
    return kind(**{name: read(row[name]) for name, _, read in _columns(kind)})


def _column(value: Any, as_json: bool) -> Any:
    if value is None:
        return None
    if as_json:
        return codec.dumps(value)
    return value.value if isinstance(value, Enum) else value


@cache
def _columns(kind: Any) -> tuple[tuple[str, bool, Callable[[Any], Any]], ...]:
    """Per field: its name, whether its column is JSON text, and how to read that column."""
    hints = typing.get_type_hints(kind)
    rows = []
    for field in fields(kind):
        plain = _plain(hints[field.name])
        rows.append((field.name, not plain, codec.decoder(hints[field.name]) if plain else _json(hints[field.name])))
    return tuple(rows)


def _plain(hint: Any) -> bool:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return all(_plain(kind) for kind in typing.get_args(hint) if kind is not type(None))
    hint = getattr(hint, "__supertype__", hint)
    return isinstance(hint, type) and issubclass(hint, (str, int, float))


def _json(hint: Any) -> Callable[[Any], Any]:
    if hint is JobSpec:
        return _spec
    return lambda text: None if text is None else codec.loads(hint, text)


def _spec(text: str) -> JobSpec:
    """A spec never changes and is read at every plan: the small ones are kept decoded."""
    return _small_spec(text) if len(text) < 16_384 else codec.loads(JobSpec, text)


@lru_cache(maxsize=4096)
def _small_spec(text: str) -> JobSpec:
    return codec.loads(JobSpec, text)
