"""Values of `model` to JSON text and back.

The types are the schema: encoding follows the value, decoding the annotations. A field that the text lacks takes its
default and a key that the type lacks is passed over, so that text of an older or newer version can still be read.
Strings may hold surrogate escapes: the text is ASCII, each of them becomes `\\udcXX` and comes back as it was.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeVar, cast

T = TypeVar("T")
_Decode = Callable[[Any], Any]


def encode(value: Any) -> Any:
    """A dataclass, enum, tuple, set, mapping or path as objects that JSON knows; all else unchanged."""
    return _encoder(value.__class__)(value)


@cache
def _encoder(kind: Any) -> Callable[[Any], Any]:
    """Built once per type: every probe is written."""
    if issubclass(kind, Enum):
        return lambda value: value.value
    if issubclass(kind, (list, tuple)):
        return lambda value: [_encoder(item.__class__)(item) for item in value]
    if issubclass(kind, frozenset):
        return lambda value: sorted(_encoder(item.__class__)(item) for item in value)
    if issubclass(kind, Mapping):
        return lambda value: {key: _encoder(item.__class__)(item) for key, item in value.items()}
    if is_dataclass(kind):
        names = tuple(field.name for field in fields(kind))
        return lambda value: {name: _encoder((item := getattr(value, name)).__class__)(item) for name in names}
    if hasattr(kind, "__fspath__"):
        return str
    return _same


def decode(kind: type[T], data: Any) -> T:
    """The value of type `kind` that was encoded as `data`. Raises TypeError, ValueError or KeyError if it was not."""
    read: Callable[[Any], T] = decoder(cast(Any, kind))
    return read(data)


def dumps(value: Any) -> str:
    return json.dumps(encode(value), separators=(",", ":"))


def loads(kind: type[T], text: str) -> T:
    return decode(kind, json.loads(text))


@cache
def decoder(kind: Any) -> _Decode:
    """A function that decodes values annotated as `kind`: built once per type, since jobs are read by the thousand."""
    supertype = getattr(kind, "__supertype__", None)  # a NewType
    if supertype is not None:
        return decoder(supertype)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _optional_decoder(arguments)
    if origin is tuple:
        return _tuple_decoder(arguments)
    if origin is frozenset:
        inner = decoder(arguments[0])
        return lambda data: frozenset(inner(item) for item in data)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping_decoder(arguments[1])
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    if is_dataclass(kind):
        return _dataclass_decoder(kind)
    if hasattr(kind, "__fspath__"):
        return cast(_Decode, kind)
    if kind in (str, int, float, bool) or origin is typing.Literal:
        return _same
    raise TypeError(f"no JSON form for {kind!r}")


def _same(data: Any) -> Any:
    return data


def _optional_decoder(arguments: tuple[Any, ...]) -> _Decode:
    one = [kind for kind in arguments if kind is not type(None)]
    if len(one) != 1:
        raise TypeError(f"no JSON form for a union of {arguments}")
    inner = decoder(one[0])
    return lambda data: None if data is None else inner(data)


def _tuple_decoder(arguments: tuple[Any, ...]) -> _Decode:
    if arguments[-1] is not Ellipsis:
        inners = [decoder(kind) for kind in arguments]
        return lambda data: tuple(inner(item) for inner, item in zip(inners, data, strict=True))
    inner = decoder(arguments[0])
    if inner is _same:
        return tuple
    return lambda data: tuple(inner(item) for item in data)


def _mapping_decoder(value_kind: Any) -> _Decode:
    inner = decoder(value_kind)
    return lambda data: {key: inner(item) for key, item in data.items()}


def _dataclass_decoder(kind: Any) -> _Decode:
    hints = typing.get_type_hints(kind)
    inners = {field.name: decoder(hints[field.name]) for field in fields(kind)}

    def build(data: Any) -> Any:
        return kind(**{name: inner(data[name]) for name, inner in inners.items() if name in data})

    return build
