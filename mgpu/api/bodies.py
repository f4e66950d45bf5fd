"""What is sent along with a request: bounded in what it costs, whoever sends it.

JSON is read in the loop's thread and nothing interrupts that, so it is not to take long: it is containers that do.
Large bodies of one user, and those that do not say how large they are, come a few at a time.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any
from weakref import WeakValueDictionary

from aiohttp import web

from mgpu.core.errors import RequestError

LIMIT_B = 8 << 20
LARGE_B = 256 << 10
LARGE_AT_ONCE = 4  # of one user
MOST_CONTAINERS = 500_000  # 0.1 s; brackets in a script count too


class Turns:
    def __init__(self) -> None:
        self._of: WeakValueDictionary[int, asyncio.Semaphore] = WeakValueDictionary()

    def take(self, request: web.Request, uid: int) -> AbstractAsyncContextManager[None]:
        """To be held until the request is answered."""
        if not request.body_exists or (request.content_length or LARGE_B + 1) <= LARGE_B:
            return nullcontext()
        turn = self._of.get(uid)
        if turn is None:
            turn = self._of[uid] = asyncio.Semaphore(LARGE_AT_ONCE)
        return turn


async def read_object(request: web.Request) -> dict[str, Any]:
    """Raises RequestError."""
    text = await request.read()
    if text.count(b"[") + text.count(b"{") > MOST_CONTAINERS:
        raise RequestError("the body has too many parts")
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise RequestError("the body must be a JSON object")
    return body
