"""Stands before the HTTP server on each TCP connection: what is behind it hears only of those who showed a token.

Of a stranger the head of one request is read, so much of it, for so long; then the server gets the connection with all
that was said, or the stranger a refusal that is always the same. No thread waits for anybody here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Protocol

from mgpu.api import knock
from mgpu.api.knock import Knock
from mgpu.core.token import Token

HEAD_S = 10.0  # for the head of the first request, once the connection stands
FAREWELL_S = 1.0  # in which a refusal is to be read


class Door(Protocol):
    """Who decides, for all gates."""

    def came(self, gate: Gate) -> None: ...
    async def judge(self, said: Knock, address: str) -> Token | Refusal: ...
    def let_in(self, gate: Gate) -> None: ...
    def left(self, gate: Gate) -> None: ...


class Refusal(Exception):
    """`delay_s`: the answer is not to come before that."""

    def __init__(self, status: HTTPStatus, code: str, message: str, hint: str = "", delay_s: float = 0.0) -> None:
        super().__init__(message)
        self.status = status
        self.delay_s = delay_s
        self.error = {"code": code, "message": message, "hint": hint}

    @property
    def answer(self) -> bytes:
        body = json.dumps({"error": self.error}).encode()
        lines = [
            f"HTTP/1.1 {self.status.value} {self.status.phrase}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            "Connection: close",
            *(["WWW-Authenticate: Bearer"] if self.status is HTTPStatus.UNAUTHORIZED else []),
        ]
        return "\r\n".join(lines).encode() + knock.END + body


NOT_HTTP = Refusal(HTTPStatus.BAD_REQUEST, "bad_request", "this is no request")
TOO_LONG = Refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "bad_request", "the head of the request is too long")


class Gate(asyncio.Protocol):
    """Of one connection. `make` gives the server's end of it; `token` None = nobody has come in yet."""

    def __init__(self, door: Door, address: str, make: Callable[[], asyncio.Protocol]) -> None:
        self.address = address
        self.token: Token | None = None
        self._door = door
        self._make = make
        self._inner: asyncio.Protocol | None = None
        self._transport: asyncio.Transport | None = None
        self._said = bytearray()
        self._judging: asyncio.Task[None] | None = None
        self._refused = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def inner(self) -> asyncio.Protocol | None:
        return self._inner

    def cut(self) -> None:
        """Ends it at once."""
        if self._transport is not None:
            self._transport.abort()

    # --- of the transport ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._timer = asyncio.get_running_loop().call_later(HEAD_S, transport.abort)
        self._door.came(self)

    def data_received(self, data: bytes) -> None:
        if self._inner is not None:
            self._inner.data_received(data)
        elif not self._refused:  # what was under way when reading was paused still comes
            self._said += data
            if self._judging is None:
                self._hear()

    def eof_received(self) -> bool | None:
        return self._inner.eof_received() if self._inner is not None else None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._judging is not None:
            self._judging.cancel()
        self._door.left(self)
        if self._inner is not None:
            self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._inner is not None:
            self._inner.resume_writing()

    # --- of a stranger ---

    def _hear(self) -> None:
        end = self._said.find(knock.END)
        if end > knock.LIMIT_B or (end < 0 and len(self._said) > knock.LIMIT_B):
            return self._refuse(TOO_LONG)
        if end < 0:
            return None
        said = knock.parse_knock(bytes(self._said[:end]))
        if said is None:
            return self._refuse(NOT_HTTP)
        assert self._transport is not None
        self._transport.pause_reading()
        self._judging = asyncio.get_running_loop().create_task(self._judge(said))
        return None

    async def _judge(self, said: Knock) -> None:
        verdict = await self._door.judge(said, self.address)
        if isinstance(verdict, Token):
            self._let_in(verdict)
            return
        await asyncio.sleep(verdict.delay_s)
        self._refuse(verdict)

    def _let_in(self, token: Token) -> None:
        transport = self._transport
        assert transport is not None and self._timer is not None
        if transport.is_closing():
            return
        self._timer.cancel()
        self.token, self._inner = token, self._make()
        self._door.let_in(self)
        self._inner.connection_made(transport)
        transport.resume_reading()
        self._inner.data_received(bytes(self._said))
        self._said.clear()

    def _refuse(self, refusal: Refusal) -> None:
        """What still comes is read for a moment, and dropped: to close with something unread would take the answer
        away again."""
        transport = self._transport
        assert transport is not None and self._timer is not None
        self._refused = True
        self._said.clear()
        if transport.is_closing():
            return
        self._timer.cancel()
        transport.resume_reading()
        transport.write(refusal.answer)
        with suppress(NotImplementedError):  # over TLS nothing can be half closed
            transport.write_eof()
        self._timer = asyncio.get_running_loop().call_later(FAREWELL_S, transport.abort)
