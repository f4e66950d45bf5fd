"""What rows mean that are read again and again, mostly unchanged."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

Row = TypeVar("Row", bound=Hashable)
T = TypeVar("T")


class Kept(Generic[Row, T]):
    """`decode` must follow from what stands in a row alone. Kept is what the last reading was of, and no more: it is
    as much as is open, however much has been. Any thread."""

    def __init__(self, decode: Callable[[Row], T]) -> None:
        self._decode = decode
        self._last: dict[Row, T] = {}

    def read(self, rows: Iterable[Row]) -> list[T]:
        last, now = self._last, {}
        for row in rows:
            value = last.get(row)
            now[row] = self._decode(row) if value is None else value
        self._last = now
        return list(now.values())
