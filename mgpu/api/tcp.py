"""Listening on TCP, for clients elsewhere: how many are let near, how fast, and who comes in.

What strangers can cost is bounded everywhere, and the unix socket has no part in it: so many connections at once, few
of them of strangers (see line); so many accepted a second, the others wait in the kernel's list.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from http import HTTPStatus
from typing import Any, TypeVar

from aiohttp import web

from mgpu import clock
from mgpu.api import knock
from mgpu.api.app import TOLD
from mgpu.api.certificate import Certificate
from mgpu.api.connection import PASSES
from mgpu.api.gate import Gate, Refusal
from mgpu.api.knock import Knock
from mgpu.api.line import Line
from mgpu.api.strangers import Strangers, block_of, plain
from mgpu.config.listening import addresses
from mgpu.config.model import Listen
from mgpu.core.errors import StoreError
from mgpu.core.token import Token
from mgpu.ops import tokens
from mgpu.ops.context import Context

MOST = 512  # connections
MOST_OF_ONE = 128  # of one user
PACE = 200.0  # accepted a second
HANDSHAKE_S = 10.0
BACKLOG = 128
LOOK_S = 2.0  # between two looks whether tokens still hold
AGAIN_S = 10.0  # until what cannot listen is tried again
TRIES_PAUSE_S = 1.0  # where the system has no descriptor left
DEAD_S = 60  # a peer that says nothing, and confirms nothing, for so long is gone

log = logging.getLogger(__name__)
T = TypeVar("T")


class Tcp:
    """Beside the unix socket of the same server. What `mgpu status` says of it stands in the application."""

    def __init__(self, context: Context, listen: Listen, app: web.Application, runner: web.AppRunner) -> None:
        assert runner.server is not None
        self._context = context
        self._listen = listen
        self._passes = app[PASSES]
        self._told = app[TOLD]
        self._make: Callable[[], asyncio.Protocol] = runner.server
        self._strangers = Strangers(context)
        self._gates: set[Gate] = set()
        self._line = Line()
        self._unknown: set[Gate] = set()  # of who is in the line, and has its turn
        self._room = asyncio.Event()
        self._most = min(MOST, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4)  # nodes and the socket need theirs
        self._listeners: list[socket.socket] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._errands: set[asyncio.Task[None]] = set()
        self._certificate: Certificate | None = None
        self._names: tuple[str, ...] = ()
        self._error = ""

    async def start(self) -> None:
        await self._open()
        self._keep_on(self._look())
        self._keep_on(self._care())

    async def close(self) -> None:
        """The server ends those whom it has; strangers go at once."""
        for listener in self._listeners:
            listener.close()
        for task in (*self._tasks, *self._errands):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._errands, return_exceptions=True)
        for gate in [gate for gate in self._gates if gate.token is None]:
            gate.cut()

    # --- listening ---

    async def _open(self) -> None:
        """Or says why not."""
        scheme = "https" if self._listen.tls else "http"
        shown = f"{scheme}://{_shown(self._listen.host)}:{self._listen.port}"
        try:  # names are looked up: that may take a while
            self._names = await self._aside(_names, self._listen.host)
            if self._listen.tls:
                await self._aside(self._take_certificate)
            self._listeners = await self._aside(_bind_all, self._listen)
        except (OSError, StoreError) as error:
            why = getattr(error, "strerror", None) or str(error)
            if self._error != why:
                log.error("%s: cannot listen there: %s; tried again every %g s", shown, why, AGAIN_S)
            self._error = why
            self._told.clear()
            self._told["listens"] = f"not at {shown}: {why}; it is tried again"
            return
        self._told["listens"] = shown
        self._tell_fingerprint()
        by = f", by the certificate {self._certificate.fingerprint}" if self._certificate is not None else ""
        log.info("listens at %s too, for those who have a token%s", shown, by)
        for listener in self._listeners:
            self._keep_on(self._accept(listener))

    def _take_certificate(self) -> None:
        """Raises StoreError."""
        self._certificate = Certificate(self._listen, self._context.store.path.parent)
        self._names += self._certificate.names()

    def _tell_fingerprint(self) -> None:
        if self._certificate is not None:
            self._told["fingerprint"] = self._certificate.fingerprint

    async def _care(self) -> None:
        """What could not be opened is tried again; a certificate that was renewed is taken."""
        while True:
            await asyncio.sleep(AGAIN_S)
            try:
                if not self._listeners:
                    await self._open()
                elif self._certificate is not None and await self._aside(self._certificate.renew):
                    self._tell_fingerprint()
                    log.info("shows another certificate now: %s", self._certificate.fingerprint)
                if self._listeners:
                    self._error = ""
            except StoreError as error:
                if self._error != error.message:
                    log.error("the certificate before it is still shown: %s", error.message)
                self._error = error.message

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._turn()
            try:
                connection, peer = await loop.sock_accept(listener)
            except OSError as error:  # no descriptor left, or the client has gone meanwhile
                log.debug("accept: %s", error)
                await asyncio.sleep(TRIES_PAUSE_S)
                continue
            self._send_off(self._welcome(connection, plain(str(peer[0]))))

    async def _turn(self) -> None:
        """Until there is room, and never faster than the pace."""
        await asyncio.sleep(1 / PACE)
        while len(self._passes) + len(self._line) >= self._most:
            self._room.clear()
            await self._room.wait()

    async def _welcome(self, connection: socket.socket, address: str) -> None:
        if not await self._line.enter(block_of(address)):
            _hang_up(connection)
            self._room.set()
            return
        gate = Gate(self, address, self._make)
        self._unknown.add(gate)
        try:
            _notice_the_dead(connection)
            more: dict[str, Any] = {}
            if self._certificate is not None:
                more = {"ssl": self._certificate.context, "ssl_handshake_timeout": HANDSHAKE_S}
            await asyncio.get_running_loop().connect_accepted_socket(lambda: gate, connection, **more)
        except (OSError, ValueError):  # what is no TLS, who goes, who takes too long
            connection.close()
            self._known(gate)

    def _known(self, gate: Gate) -> None:
        """No stranger any more, or gone."""
        if gate in self._unknown:
            self._unknown.discard(gate)
            self._line.leave(block_of(gate.address))
        self._room.set()

    # --- who comes in ---

    def came(self, gate: Gate) -> None:
        self._gates.add(gate)

    async def judge(self, said: Knock, address: str) -> Token | Refusal:
        if said.origin or not knock.is_ours(said.host, self._names):
            return Refusal(HTTPStatus.FORBIDDEN, "not_allowed", "this is no place for web pages")
        now, keyring = clock.now(), self._context.keyring
        token = keyring.identify(said.token, now)
        if token is None or not await self._has_account(token, now):
            delay_s = self._strangers.failed(address, clock.monotonic())
            text = "no token that holds was shown"
            hint = "mgpu token create, on the head node, makes one"
            return Refusal(HTTPStatus.UNAUTHORIZED, "no_token", text, hint, delay_s)
        if sum(gate.token is not None and gate.token.uid == token.uid for gate in self._gates) >= MOST_OF_ONE:
            text = f"{token.user} has {MOST_OF_ONE} connections already"
            return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "busy", text, "end some")
        if keyring.note_use(token.token_id, now):
            self._send_off(self._note_use(token.token_id, now))
        return token

    def let_in(self, gate: Gate) -> None:
        assert gate.inner is not None
        self._passes[gate.inner] = gate
        self._known(gate)

    def left(self, gate: Gate) -> None:
        self._gates.discard(gate)
        if gate.inner is not None:
            self._passes.pop(gate.inner, None)
        self._known(gate)

    async def _has_account(self, token: Token, now: float) -> bool:
        known = self._context.keyring.has_account(token, now)
        if known is not None:
            return known
        group = self._context.config.socket_group
        return await self._aside(self._context.keyring.ask_for_account, token, group, now)

    async def _note_use(self, token_id: str, now: float) -> None:
        with suppress(StoreError):  # on a full disk it is not that which matters
            await self._aside(tokens.note_use, self._context, token_id, now)

    async def _look(self) -> None:
        """What was opened with a token that no longer holds, ends."""
        while True:
            await asyncio.sleep(LOOK_S)
            now = clock.now()
            for gate in list(self._gates):
                token = gate.token
                if token is not None and not (
                    self._context.keyring.holds(token.token_id, now) and await self._has_account(token, now)
                ):
                    gate.cut()
            await self._strangers.tell(clock.monotonic())

    async def _aside(self, function: Callable[..., T], *arguments: Any) -> T:
        """In a thread of the loop's own: those of the application are not for strangers."""
        return await asyncio.get_running_loop().run_in_executor(None, function, *arguments)

    def _keep_on(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._spawn(work)
        self._tasks.append(task)
        task.add_done_callback(self._failed)

    def _failed(self, task: asyncio.Task[None]) -> None:
        """By a fault of ours. Who comes in, and for how long, is looked after by all of them or by none."""
        if task.cancelled() or task.exception() is None:
            return
        log.error("nobody comes in over TCP any more", exc_info=task.exception())
        self._told.clear()
        self._told["listens"] = "not any more, after a fault: see the master's log; mgpu restart"
        for listener in self._listeners:
            listener.close()
        for each in self._tasks:
            each.cancel()
        for gate in list(self._gates):
            gate.cut()

    def _send_off(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._spawn(work)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(work)


def _bind_all(listen: Listen) -> list[socket.socket]:
    """Raises OSError."""
    made: list[socket.socket] = []
    for address in addresses(listen.host):
        try:
            made.append(_bind(address, listen.port))
        except OSError as error:
            if made and error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                continue  # no IPv6 here
            for listener in made:
                listener.close()
            raise
    return made


def _bind(host: str, port: int) -> socket.socket:
    """Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(host != "::"))
        listener.setblocking(False)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _names(host: str) -> tuple[str, ...]:
    """By which this machine is called; `mgpu` by our own clients."""
    return tuple(name.lower() for name in ("mgpu", "localhost", socket.gethostname(), socket.getfqdn(), host))


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _notice_the_dead(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("KEEPIDLE", 20), ("KEEPINTVL", 10), ("KEEPCNT", 4), ("USER_TIMEOUT", DEAD_S * 1000)):
        connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, f"TCP_{option}"), value)


def _hang_up(connection: socket.socket) -> None:
    """Without leaving anything behind in the kernel."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    connection.close()
