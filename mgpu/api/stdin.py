"""The other half of a job's WebSocket: what the client gives the job to read, and what it is told of that.

Towards us: a binary message is HEAD (0, the attempt) and bytes; a text one is `{"stdin": "end", "attempt": N}`
or `{"stdin": "size", "rows": R, "columns": C}`. From us: an event `stdin` whenever it says something else. Where the
master keeps enough already, no more is read from the client's socket, and so it stops to send.
"""

from __future__ import annotations

import asyncio
import json
import struct
from contextlib import suppress
from typing import Any

from aiohttp import WSMsgType, web

from mgpu.ops.context import Stdin

HEAD = struct.Struct(">BI")  # 0, attempt
MOST = 9999  # rows or columns


class Feeding:
    """Of one client. `news` may be called from any thread."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket
        self._loop = asyncio.get_running_loop()
        self._to_tell, self._to_take = asyncio.Event(), asyncio.Event()
        self._stdin: Stdin | None = None

    def news(self) -> None:
        with suppress(RuntimeError):  # the loop has just ended
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._to_tell.set()
        self._to_take.set()

    def begin(self, stdin: Stdin) -> None:
        self._stdin = stdin
        self._wake()

    async def listen(self) -> None:
        """Until the client goes. What it says for a job without a stdin is passed over."""
        async for message in self._socket:
            if self._stdin is None:
                continue
            if message.type is WSMsgType.BINARY and len(message.data) > HEAD.size:
                await self._room(self._stdin)
                self._stdin.give(HEAD.unpack_from(message.data)[1], message.data[HEAD.size :])
            elif message.type is WSMsgType.TEXT:
                self._say(self._stdin, message.data)

    async def _room(self, stdin: Stdin) -> None:
        while not stdin.taken().room:
            self._to_take.clear()
            if not stdin.taken().room:
                await self._to_take.wait()

    def _say(self, stdin: Stdin, text: str) -> None:
        """What cannot be read is passed over, as from a client of another version."""
        with suppress(ValueError, KeyError, TypeError, OverflowError, RecursionError):
            said: dict[str, Any] = json.loads(text)
            if said["stdin"] == "end":
                stdin.end(int(said["attempt"]))
            elif said["stdin"] == "size":
                rows, columns = int(said["rows"]), int(said["columns"])
                if 0 < rows <= MOST and 0 < columns <= MOST:
                    stdin.resize(rows, columns)

    async def tell(self) -> None:
        """Endless. Raises ConnectionError once the client has gone."""
        told: Any = None
        while True:
            await self._to_tell.wait()
            self._to_tell.clear()
            taken = self._stdin.taken() if self._stdin else None
            if taken and (taken.attempt, taken.fed, taken.over) != told:
                told = (taken.attempt, taken.fed, taken.over)
                event = {key: getattr(taken, key) for key in ("attempt", "fed", "here", "over")}
                await self._socket.send_str(json.dumps({"event": "stdin", **event}))
