"""Values of the core to rows of `tables` and back, by their annotations: one field, one column.

Words and numbers go as they are, enums as their word, everything else as JSON text. SQLite takes no lone surrogates: in
a column of its own, a byte that was not UTF-8 is stored as `\\udcXX` written out. What must come back byte for byte
stands in JSON.
"""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import fields
from enum import Enum
from functools import cache, lru_cache
from typing import Any, TypeVar

from sqlalchemy import Column, Table

from mgpu.core import codec
from mgpu.core.model import JobSpec
from mgpu.store.tables import written_out

T = TypeVar("T")
_Read = Callable[[Any], Any]


def to_row(value: Any) -> dict[str, Any]:
    kind: Any = type(value)
    return {name: write(getattr(value, name)) for name, write, _ in _fields(kind)}


def changes(value: Any, before: Any) -> dict[str, Any]:
    """Of the row of `value`, the columns that differ from the row of `before`."""
    kind: Any = type(value)
    return {
        name: write(new)
        for name, write, _ in _fields(kind)
        if (new := getattr(value, name)) is not (old := getattr(before, name)) and new != old
    }


def columns(kind: Any, table: Table) -> list[Column[Any]]:
    """In the order that `from_row` takes them."""
    return [table.c[name] for name, _, _ in _fields(kind)]


def from_row(kind: Callable[..., T], row: Sequence[Any]) -> T:
    """`kind` is the dataclass, `row` its `columns`."""
    return kind(*[cell if read is None else read(cell) for read, cell in zip(_readers(kind), row, strict=True)])


@cache
def _readers(kind: Any) -> tuple[_Read | None, ...]:
    return tuple(read for _, _, read in _fields(kind))


@cache
def _fields(kind: Any) -> tuple[tuple[str, Callable[[Any], Any], _Read | None], ...]:
    """Per field: its name, how to write its column and how to read it, None = as it is."""
    hints = typing.get_type_hints(kind)
    return tuple((field.name, *_how(hints[field.name])) for field in fields(kind))


def _how(hint: Any) -> tuple[Callable[[Any], Any], _Read | None]:
    if not _plain(hint):
        return _write_json, _spec if hint is JobSpec else lambda text: None if text is None else codec.loads(hint, text)
    one = [kind for kind in typing.get_args(hint) or (hint,) if kind is not type(None)]
    kind = getattr(one[0], "__supertype__", one[0])
    if issubclass(kind, Enum):
        return _write_enum, kind
    if kind is bool:
        return _as_it_is, bool
    if kind is str:  # names of users and nodes stand in thousands of rows
        return _write_text, sys.intern if not typing.get_args(hint) else None
    return _as_it_is, None


def _plain(hint: Any) -> bool:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return all(_plain(kind) for kind in typing.get_args(hint) if kind is not type(None))
    hint = getattr(hint, "__supertype__", hint)
    return isinstance(hint, type) and issubclass(hint, (str, int, float))


def _as_it_is(value: Any) -> Any:
    return value


def _write_json(value: Any) -> str | None:
    return None if value is None else codec.dumps(value)


def _write_enum(value: Enum) -> Any:
    return value.value


def _write_text(value: str | None) -> str | None:
    return None if value is None else written_out(value)


def _spec(text: str) -> JobSpec:
    """Many jobs have the same: small ones are kept decoded."""
    return _small_spec(text) if len(text) < 16_384 else codec.loads(JobSpec, text)


@lru_cache(maxsize=256)
def _small_spec(text: str) -> JobSpec:
    return codec.loads(JobSpec, text)
