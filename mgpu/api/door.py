"""The socket's door: how many may be inside at once, together and of each user.

Each connection is a file descriptor, and the master needs some for its nodes and its database, whatever anybody does
with the socket. Who says a byte a second, or reads none, takes up nobody's place but their own.
"""

from __future__ import annotations

import asyncio
import json
import logging
import resource
import socket
from collections.abc import Callable
from contextlib import suppress

from aiohttp import web

from mgpu.api.connection import peer_of
from mgpu.ops.context import Context

PAUSE_S = 0.2  # where a connection cannot be taken, for want of descriptors
_FULL = "the master has as many connections as it takes{of}"
_HINT = "end some (mgpu logs -f, srun and the like have one each), or try again"

logger = logging.getLogger(__name__)


def most() -> int:
    """Half of what this process may have open; TCP has a quarter (api.tcp)."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2


class Door:
    """Takes what comes to a listener and hands it to the server behind."""

    def __init__(self, context: Context, server: web.Server, limit: Callable[[], int] | None = None) -> None:
        self._context = context
        self._server = server
        self._limit = limit or most
        self._inside: dict[object, int] = {}  # who has come in, and as which uid
        self._task: asyncio.Task[None] | None = None
        self._listener: socket.socket | None = None

    def open(self, listener: socket.socket) -> None:
        listener.setblocking(False)
        self._listener = listener
        self._task = asyncio.create_task(self._take(listener))

    async def close(self) -> None:
        """Who is inside stays there."""
        if self._task is not None and self._listener is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._listener.close()

    async def _take(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError as error:
                logger.warning("a connection cannot be taken: %s", error.strerror)
                await asyncio.sleep(PAUSE_S)
                continue
            try:
                _pid, uid = peer_of(connection)
                if refusal := self._refusal(uid):
                    _send_away(connection, refusal)
                    continue
                _, handler = await loop.connect_accepted_socket(self._server, connection)
                self._inside[handler] = uid
            except OSError:
                connection.close()

    def _refusal(self, uid: int) -> str:
        """Why one more of that user does not come in; "" = it does."""
        there = set(self._server.connections)
        self._inside = {handler: who for handler, who in self._inside.items() if handler in there}
        limit = self._limit()
        if not self._context.personal and uid in (0, self._context.owner_uid):
            return ""  # it is they who would put an end to it
        if len(self._inside) >= limit:
            return _FULL.format(of="")
        if self._context.personal:
            return ""
        own = sum(who == uid for who in self._inside.values())
        return _FULL.format(of=" of one user") if own >= limit // 4 else ""


def _send_away(connection: socket.socket, message: str) -> None:
    body = json.dumps({"error": {"code": "busy", "message": message, "hint": _HINT}}).encode()
    head = f"HTTP/1.1 503 Service Unavailable\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
    with connection, suppress(OSError):
        connection.setblocking(False)
        connection.send(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
