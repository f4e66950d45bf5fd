"""Lists of jobs. The queue, which many ask for again and again, is made once for all who ask at the same time."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Any, Generic, TypeVar

from aiohttp import web

from mgpu import clock
from mgpu.ops import jobs
from mgpu.ops.context import Caller, Context
from mgpu.ops.listing import Asked, Listing
from mgpu.ops.outlook import Prospects
from mgpu.ops.window import Windows, parse_view

PIECE_B = 1 << 18

Key = TypeVar("Key", bound=Hashable)
Made = TypeVar("Made")


class Together(Generic[Key, Made]):
    """What is being made had begun before one who asks now came: it may be out of date for them. So they wait for the
    next, together with all who come before that begins."""

    def __init__(self, make: Callable[[Key], Awaitable[Made]]) -> None:
        self._make = make
        self._running: dict[Key, asyncio.Task[Made]] = {}
        self._next: dict[Key, asyncio.Task[Made]] = {}

    async def join(self, key: Key) -> Made:
        """Any number, in the loop's thread."""
        task = self._next.get(key)
        if task is None:
            before = self._running.get(key)
            task = self._next[key] = asyncio.create_task(self._after(before, key))
        return await asyncio.shield(task)  # one who leaves takes it away from nobody

    async def _after(self, before: asyncio.Task[Made] | None, key: Key) -> Made:
        if before is not None:
            await asyncio.wait([before])
        task = self._running[key] = self._next.pop(key)
        try:
            return await self._make(key)
        finally:
            if self._running.get(key) is task:
                del self._running[key]


class Listed:
    """`run` runs what blocks in a thread, as one of the things that are done for who asks; `run_for_all` what is made
    once for several, and keeps none of them waiting for what another one has asked besides."""

    def __init__(
        self,
        context: Context,
        run: Callable[..., Awaitable[Any]],
        run_for_all: Callable[..., Awaitable[Any]],
        prospects: Prospects,
    ) -> None:
        self._context = context
        self._run = run
        self._listing = Listing(context)
        self._windows = Windows(context, self._listing, prospects)
        self._making: Together[Asked, bytes] = Together(partial(run_for_all, self._listing.answer))

    async def serve(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        wanted, also = jobs.parse_filter(request.query, caller), jobs.parse_also(request.query)
        brief = request.query.get("brief") == "1"
        packed = "deflate" in request.headers.get("Accept-Encoding", "")
        asked = None if any(also) else self._listing.asked(caller, wanted, packed, brief)
        if asked is not None:
            kept = self._listing.kept(asked) or await self._making.join(asked)
            return await _in_pieces(request, kept, {"Content-Encoding": "deflate"} if packed else {})
        # made into text in the thread too: a long list would hold up everybody else here
        body = await self._run(jobs.list_as_text, self._context, caller, wanted, also)
        return await _in_pieces(request, body, {})

    async def window(self, request: web.Request, caller: Caller) -> web.Response:
        view = parse_view(request.query, caller)
        self._context.control.meters.looked_at = clock.monotonic()
        packed = "deflate" in request.headers.get("Accept-Encoding", "")
        body = await self._run(lambda: _made(self._windows.look(caller, view), packed))
        headers = {"Content-Encoding": "deflate"} if packed else {}
        return web.Response(body=body, headers=headers, content_type="application/json")


def _made(body: bytes, packed: bool) -> bytes:
    return zlib.compress(body, 1) if packed else body


async def _in_pieces(request: web.Request, body: bytes | bytearray, headers: dict[str, str]) -> web.StreamResponse:
    """JSON that many may share: of what a client is slow to take no more than a piece waits in memory for it alone."""
    answer = web.StreamResponse(headers=headers)
    answer.content_type, answer.charset, answer.content_length = "application/json", "utf-8", len(body)
    await answer.prepare(request)
    view = memoryview(body)
    for start in range(0, len(body), PIECE_B):
        await answer.write(view[start : start + PIECE_B])
    await answer.write_eof()
    return answer
