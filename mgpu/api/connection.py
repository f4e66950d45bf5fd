"""Who is at the other end of a connection: the kernel says it (SO_PEERCRED), the request cannot claim it."""

from __future__ import annotations

import pwd
import socket
import struct
from pathlib import Path

from aiohttp import web

from mgpu.ops.context import Caller

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


def caller_of(request: web.Request) -> Caller:
    connection = request.get_extra_info("socket")
    if connection is None:
        raise ConnectionResetError("the client has gone")
    pid, uid, _gid = _CREDENTIALS.unpack(
        connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    )
    return Caller(uid, user_name(uid), "ssh" if _dials(pid) else "socket")


def _dials(pid: int) -> bool:
    """Whether it is `mgpu dial-stdio`, which brings what comes by ssh. Who calls another process so, says so of
    itself: it only stands in the audit."""
    try:
        with Path(f"/proc/{pid}/cmdline").open("rb") as words:
            return b"dial-stdio" in words.read(4096).split(b"\0")
    except OSError:
        return False


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
