"""Who is at the other end of a connection: the kernel says it (SO_PEERCRED), or the token that was shown; the request
cannot claim it."""

from __future__ import annotations

import asyncio
import socket
import struct
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from aiohttp import web

from mgpu import clock
from mgpu.api.gate import Gate
from mgpu.api.knock import bearer
from mgpu.core.errors import MgpuError
from mgpu.ops.context import Caller
from mgpu.ops.keyring import Keyring
from mgpu.users import user_name

KEYRING: web.AppKey[Keyring] = web.AppKey("keyring", Keyring)
PASSES: web.AppKey[dict[asyncio.BaseProtocol, Gate]] = web.AppKey("passes", dict)  # by the server's end
# by the connection of a unix socket, over which one may ask again and again: the kernel's word on it never changes
NEIGHBOURS: web.AppKey[WeakKeyDictionary[Any, Caller]] = web.AppKey("neighbours", WeakKeyDictionary)

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
_CALLER: Any = getattr(web, "RequestKey", web.AppKey)("caller", Caller)  # older aiohttp takes any key


class NoToken(MgpuError):
    code = "no_token"


def caller_of(request: web.Request) -> Caller:
    """Found out once a request. Raises NoToken for one that does not show the token which opened its connection."""
    caller: Caller | None = request.get(_CALLER)
    if caller is None:
        caller = request[_CALLER] = _identified(request)
    return caller


def _identified(request: web.Request) -> Caller:
    gate = request.app[PASSES].get(request.protocol)
    if gate is not None:
        return _by_token(request, gate)
    connection = request.get_extra_info("socket")
    if connection is None:
        raise ConnectionResetError("the client has gone")
    if connection.family != socket.AF_UNIX:
        raise NoToken("nobody comes in here without a token")
    known = request.app[NEIGHBOURS]
    caller = known.get(request.transport)
    if caller is None:
        pid, uid = peer_of(connection)
        caller = known[request.transport] = Caller(uid, user_name(uid) or str(uid), "ssh" if _dials(pid) else "socket")
    return caller


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """Of a unix socket: pid and uid of who connected to it, as the kernel says. Raises OSError."""
    pid, uid, _gid = _CREDENTIALS.unpack(
        connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    )
    return pid, uid


def _by_token(request: web.Request, gate: Gate) -> Caller:
    shown = request.app[KEYRING].identify(bearer(request.headers.get("Authorization", "")), clock.now())
    if shown is None or gate.token is None or shown.token_id != gate.token.token_id:
        raise NoToken("no token that holds was shown")
    return Caller(shown.uid, shown.user, f"tcp {gate.address}")


def _dials(pid: int) -> bool:
    """Whether it is `mgpu dial-stdio`, which brings what comes by ssh. Who calls another process so, says so of
    itself: it only stands in the audit."""
    try:
        with Path(f"/proc/{pid}/cmdline").open("rb") as words:
            return b"dial-stdio" in words.read(4096).split(b"\0")
    except OSError:
        return False
