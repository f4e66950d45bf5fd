"""Strangers come in by a line: so many at once, of one address fewer, so that none keeps the others out; whoever comes
meanwhile waits for a turn. Who has shown a token is out of it."""

from __future__ import annotations

import asyncio
from collections import Counter

INSIDE = 64
INSIDE_OF_ONE = 16  # address
WAITING = 128
WAITING_OF_ONE = 96
WAIT_S = 10.0


class Line:
    """Of the loop's thread alone."""

    def __init__(self) -> None:
        self._inside: Counter[str] = Counter()
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []

    def __len__(self) -> int:
        return self._inside.total() + len(self._waiting)

    async def enter(self, address: str) -> bool:
        """False: there are too many, or it took too long. Else `leave` is to be called once."""
        others = sum(waiting == address for waiting, _ in self._waiting)
        if not others and self._has_room(address):
            self._inside[address] += 1
            return True
        if others >= WAITING_OF_ONE or len(self._waiting) >= WAITING:
            return False
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((address, turn))
        await asyncio.wait({turn}, timeout=WAIT_S)
        if turn.done():
            return True
        self._waiting.remove((address, turn))
        return False

    def leave(self, address: str) -> None:
        self._inside[address] -= 1
        if not self._inside[address]:
            del self._inside[address]
        for waiting, turn in list(self._waiting):
            if self._has_room(waiting):
                self._waiting.remove((waiting, turn))
                self._inside[waiting] += 1
                turn.set_result(None)

    def _has_room(self, address: str) -> bool:
        return self._inside.total() < INSIDE and self._inside[address] < INSIDE_OF_ONE
