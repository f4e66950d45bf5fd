"""What one user's requests may have done at the same time, so that those of others get their turn: of a pool of threads
so many, of large bodies fewer. What comes on top waits. Root and who runs the master are not counted.

A turn is held while a thread works, and never while somebody is sent an answer: who is slow to read keeps none.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from contextvars import ContextVar
from weakref import WeakValueDictionary

from aiohttp import web

IN_HAND = 4  # in each pool
LARGE_B = 256 << 10
LARGE_AT_ONCE = 2


class Share:
    """Of one user."""

    def __init__(self) -> None:
        self.quick, self.wide = asyncio.Semaphore(IN_HAND), asyncio.Semaphore(IN_HAND)
        self.large = asyncio.Semaphore(LARGE_AT_ONCE)


SHARE: ContextVar[Share | None] = ContextVar("share", default=None)  # of who asks in the request at hand


class Turns:
    """`free` are the users who are not counted."""

    def __init__(self, free: frozenset[int]) -> None:
        self._free = free
        self._of: WeakValueDictionary[int, Share] = WeakValueDictionary()

    def begin(self, uid: int) -> Share | None:
        """The share of whoever asks now; what goes on in this task has it."""
        share = None
        if uid not in self._free:
            share = self._of.get(uid)
            if share is None:
                share = self._of[uid] = Share()
        SHARE.set(share)
        return share


def of_thread(wide: bool) -> AbstractAsyncContextManager[None]:
    share = SHARE.get()
    return nullcontext() if share is None else share.wide if wide else share.quick


def of_body(request: web.Request, share: Share | None) -> AbstractAsyncContextManager[None]:
    """To be held until the request is answered."""
    small = not request.body_exists or (request.content_length or LARGE_B + 1) <= LARGE_B
    return nullcontext() if share is None or small else share.large
