"""`typing`, which takes a tenth of a short command's whole CPU time, and what annotations have from `collections.abc`.

To the type checker these are the real ones. Annotations are never evaluated (`from __future__ import annotations`).
"""

from __future__ import annotations

from _operator import itemgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any, NamedTuple, NoReturn, Protocol
else:
    Any = Callable = Collection = Iterable = Iterator = Mapping = NoReturn = Sequence = None
    Protocol = object

    class NamedTuple(tuple):
        """The annotated fields, by place or by name, some with a default."""

        __slots__ = ()

        def __init_subclass__(cls) -> None:
            cls._fields = tuple(cls.__annotations__)
            cls._defaults = {field: vars(cls)[field] for field in cls._fields if field in vars(cls)}
            for place, field in enumerate(cls._fields):
                setattr(cls, field, property(itemgetter(place)))

        def __new__(cls, *values: Any, **named: Any) -> NamedTuple:
            given = {**cls._defaults, **dict(zip(cls._fields, values, strict=False)), **named}
            if len(values) > len(cls._fields) or given.keys() != set(cls._fields):
                raise TypeError(f"{cls.__name__} takes {', '.join(cls._fields)}")
            return tuple.__new__(cls, [given[field] for field in cls._fields])

        def _replace(self, **named: Any) -> NamedTuple:
            return type(self)(*(named.get(field, value) for field, value in zip(self._fields, self, strict=True)))


__all__ = [
    "Any",
    "Callable",
    "Collection",
    "Iterable",
    "Iterator",
    "Mapping",
    "NamedTuple",
    "NoReturn",
    "Protocol",
    "Sequence",
]
