"""A job's output and states as they come, over a WebSocket.

Each round looks at the stored state and the spool together and sends what is new; then it waits for a wake-up of the
spool. Nothing is kept in between but offsets, so a slow reader costs nothing: sending waits for it, and what comes
meanwhile waits in the spool. The state is looked at before the bytes: once it says that everything is collected, the
bytes read after that are all there are.
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from aiohttp import WSCloseCode, web

from mgpu.api.stdin import Feeding
from mgpu.core.array import Reference
from mgpu.core.model import JobId, JobState, Part
from mgpu.ops import output
from mgpu.ops.context import Caller, Context
from mgpu.ops.outlook import Prospects
from mgpu.ops.output import Chunk, Look, Position
from mgpu.ops.tail import ALL

Run = Callable[..., Awaitable[Any]]
HEAD = struct.Struct(">BHQ")  # kind, rank, offset
KIND = {"stdout": 1, "stderr": 2}
LOOK_AGAIN_S = 5.0  # should a wake-up ever be missed
FIRST_LOOK_S = 0.5  # at a job that waits: by then the master has planned, and it is known why
CLOSE_S = 2.0
BURST = 32  # rounds of output between two looks at the state


class Streams:
    """All that are open now."""

    def __init__(self, context: Context, run: Run, prospects: Prospects) -> None:
        self._context = context
        self._run = run
        self._open: dict[web.WebSocketResponse, asyncio.Transport | None] = {}
        self._prospects = prospects
        context.control.meters.streams = self._open.__len__

    async def serve(self, request: web.Request, caller: Caller, named: Reference) -> web.WebSocketResponse:
        """Refusals come as ordinary answers, before the connection becomes a WebSocket."""
        position = output.parse_position(request.query)
        job_id, given = await self._run(output.begin_to_follow, self._context, caller, named, position.rank)
        if not position.beginning.of_all:
            await self._run(output.bring, self._context, job_id)
        socket = web.WebSocketResponse(timeout=CLOSE_S, compress=False)
        await socket.prepare(request)
        self._open[socket] = request.transport
        try:
            follower = _Follower(self._context, self._run, socket, job_id, position, self._wishes(request))
            await follower.follow(given)
        finally:
            self._open.pop(socket, None)
        return socket

    def _wishes(self, request: web.Request) -> _Wishes:
        asks = {name for name in ("session", "prospects") if request.query.get(name) == "1"}
        return _Wishes("session" in asks, self._prospects if "prospects" in asks else None)

    async def close_all(self, _app: web.Application) -> None:
        """The clients come back by themselves, to the next master, at the offsets that they have."""
        closing = [socket.close(code=WSCloseCode.GOING_AWAY, message=b"the master ends") for socket in self._open]
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.gather(*closing, return_exceptions=True), CLOSE_S)
        for transport in self._open.values():
            # who does not read cannot be told: what is still to be sent would keep the connection open for ever
            if transport is not None:
                transport.abort()


@dataclass(frozen=True, slots=True)
class _Wishes:
    """`stays`: it is a session of the job, and not somebody who only looks on. `prospects`: told while the job waits;
    None = they are not wanted."""

    stays: bool
    prospects: Prospects | None


class _Follower:
    def __init__(
        self,
        context: Context,
        run: Run,
        socket: web.WebSocketResponse,
        job_id: JobId,
        position: Position,
        wishes: _Wishes,
    ) -> None:
        self._context = context
        self._run = run
        self._socket = socket
        self._job_id = job_id
        self._position = position
        self._wishes = wishes
        self._told_prospects: dict[str, Any] = {}
        self._waited = False  # it was there before the first attempt
        self._told: tuple[object, ...] = ()
        self._told_attempt = position.attempt  # what the client takes the next bytes for
        self._told_notices = 0
        self._news = asyncio.Event()
        self._changed = False  # more than output has come

    async def follow(self, given: bool) -> None:
        """Until everything is sent or the client goes. `given`: the job has a stdin."""
        loop = asyncio.get_running_loop()

        def wake(changed: bool) -> None:
            with suppress(RuntimeError):  # the loop has just ended
                loop.call_soon_threadsafe(self._look_again if changed else self._news.set)

        feeding = Feeding(self._socket)
        stdins = self._context.control.stdins if given else None
        await self._run(self._come_or_go, True)
        tasks = [asyncio.create_task(self._listen(feeding))]
        if stdins:
            feeding.begin(await self._run(stdins.open, self._job_id, feeding.news))
            tasks.append(asyncio.create_task(feeding.tell()))
        self._context.spool.subscribe(self._job_id, wake)
        try:
            await self._send_all()
        except ConnectionError:
            pass  # the client has gone
        finally:
            self._context.spool.unsubscribe(self._job_id, wake)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if stdins:
                await asyncio.shield(self._run(stdins.close, self._job_id, feeding.news))
            await asyncio.shield(self._run(self._come_or_go, False))

    def _come_or_go(self, on: bool) -> None:
        self._context.control.watch(self._job_id, on)
        if self._wishes.stays:
            self._context.control.attendance.attend(self._job_id, on)

    async def _listen(self, feeding: Feeding) -> None:
        """Its going has to be noticed, whether or not it has something to say."""
        await feeding.listen()
        self._look_again()

    def _look_again(self) -> None:
        self._changed = True
        self._news.set()

    async def _send_all(self) -> None:
        position = self._position
        while not self._socket.closed:
            self._news.clear()
            self._changed = False
            look: Look = await self._run(output.look, self._context, self._job_id, position)
            await self._tell_state(look)
            if look.begun:
                await self._event("begin", offsets=[(KIND[stream], rank, at) for stream, rank, at in look.begun])
            if position.attempt == 0 and look.job.attempt > 0:
                position.attempt = 1 if self._waited else look.job.attempt
                if self._waited:
                    position.beginning = ALL
                await self._tell_attempt()
            elif look.chunks:
                await self._send_burst(look.parts, look.chunks)
            elif look.complete and look.job.attempt > position.attempt > 0:
                position.next_attempt()
                await self._tell_attempt()
            elif look.job.state.final and (look.complete or look.job.attempt < position.attempt):
                await self._event("end", job=look.job_json)
                await self._socket.close()
            else:
                pending = look.job.state is JobState.PENDING
                if self._waited and pending:
                    await self._tell_prospects()
                pause = LOOK_AGAIN_S if self._waited or not pending else FIRST_LOOK_S
                self._waited = True
                await self._pass_on(look.parts, pause)

    async def _pass_on(self, parts: Sequence[Part], pause_s: float) -> None:
        """What is written meanwhile, until something has changed: to look for that takes far longer, and a key on a
        terminal is to be seen at once."""
        timer = asyncio.get_running_loop().call_later(pause_s, self._look_again)
        try:
            while not self._changed:
                await self._news.wait()
                self._news.clear()
                chunks = await self._run(output.next_chunks, self._context, parts, self._position)
                await self._send_burst(parts, chunks)
        finally:
            timer.cancel()

    async def _tell_state(self, look: Look) -> None:
        if look.signature != self._told:
            self._told = look.signature
            self._told_attempt = self._told_attempt or look.job.attempt
            await self._event("state", job=look.job_json)
        for text in look.notices[self._told_notices :]:
            await self._event("notice", text=text)
        self._told_notices = len(look.notices)

    async def _tell_prospects(self) -> None:
        if self._wishes.prospects is None:
            return
        told = await self._run(self._wishes.prospects.of, self._job_id)
        if told != self._told_prospects:
            self._told_prospects = told
            await self._event("prospects", **told)

    async def _tell_attempt(self) -> None:
        """Only if the client would take the bytes for those of another one."""
        if self._position.attempt != self._told_attempt:
            self._told_attempt = self._position.attempt
            await self._event("attempt", attempt=self._told_attempt)

    async def _send_burst(self, parts: Sequence[Part], chunks: Sequence[Chunk]) -> None:
        """All that is there, or much of it: then the state is looked at again."""
        for _ in range(BURST):
            if not chunks:
                return
            await self._send(chunks)
            chunks = await self._run(output.next_chunks, self._context, parts, self._position)
        await self._send(chunks)

    async def _send(self, chunks: Sequence[Chunk]) -> None:
        for chunk in chunks:
            head = HEAD.pack(KIND[chunk.stream], chunk.rank, chunk.offset)
            await self._socket.send_bytes(head + chunk.data)
            self._position.advance(chunk)

    async def _event(self, name: str, **values: Any) -> None:
        await self._socket.send_str(json.dumps({"event": name, **values}))
