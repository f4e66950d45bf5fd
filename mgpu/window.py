"""The part of a long stream of bytes that may still be wanted, by its place in the whole."""

from __future__ import annotations

from mgpu.lean.typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections import deque
else:
    from _collections import deque  # all that is wanted of `collections`, and itself in C


class Window:
    """Bytes from `base` to `end`, in the pieces in which they came: adding and forgetting moves none of them."""

    def __init__(self, base: int = 0) -> None:
        self.base = self.end = base
        self._pieces: deque[bytes] = deque()
        self._first = base  # where the first piece begins

    def __len__(self) -> int:
        return self.end - self.base

    def add(self, data: bytes) -> None:
        if data:
            self._pieces.append(data)
            self.end += len(data)

    def forget(self, before: int) -> None:
        """All that is before that place; of what has not come yet nothing is forgotten."""
        self.base = max(self.base, min(before, self.end))
        while self._pieces and self._first + len(self._pieces[0]) <= self.base:
            self._first += len(self._pieces.popleft())

    def read(self, at: int, most: int) -> bytes:
        """At most so many bytes from that place on; what is forgotten is left out."""
        begin, stop = max(at, self.base), min(at + most, self.end)
        found, place = [], self._first
        for piece in self._pieces:
            if place >= stop:
                break
            if place + len(piece) > begin:
                found.append(memoryview(piece)[max(0, begin - place) : stop - place])
            place += len(piece)
        return b"".join(found)
