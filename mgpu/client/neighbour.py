"""Who answers on a port of this machine: any user can take one while the master is away, and would be shown tokens.

The kernel tells of every socket whose it is (/proc/net/tcp). Of a connection that waits to be accepted it says root, so
whoever listens counts too.
"""

from __future__ import annotations

import os
import socket
import sys

from mgpu.lean.typing import Callable

ESTABLISHED, LISTENING = "01", "0A"


def why_not(connection: socket.socket, who_serves_here: Callable[[], tuple[int, ...]] = lambda: ()) -> str:
    """ "" = ourselves or root, whose master serves here, or a system that does not tell."""
    uids = owners(connection)
    if uids is None:
        return ""
    if not uids:
        return "nobody listens there any more"
    strangers = uids - {0, os.getuid()}
    if not strangers or strangers <= set(who_serves_here()):
        return ""
    return f"it is served by uid {strangers.pop()}, not by uid {os.getuid()} or root"


def owners(connection: socket.socket) -> set[int] | None:
    """The uids of those who listen where it leads, and of its other end; None = that cannot be told."""
    ours, theirs = connection.getsockname()[:2], connection.getpeername()[:2]
    there, here = _written(*theirs), _written(*ours)
    anywhere = {f"{zeros}:{theirs[1]:04X}" for zeros in ("0" * 8, "0" * 32)}
    listening, others = set[int](), set[int]()
    told = False
    for table in ("tcp", "tcp6"):
        try:
            with open(f"/proc/net/{table}", encoding="ascii") as lines:
                rows = [line.split() for line in lines][1:]
        except OSError:
            continue
        told = True
        for _, local, remote, state, *more in rows:
            if state == LISTENING and local in there | anywhere:
                listening.add(int(more[3]))
            elif state == ESTABLISHED and local in there and remote in here:
                others.add(int(more[3]))
    if not told:
        return None
    return listening | others if listening else set()


def _written(host: str, port: int) -> set[str]:
    """As the kernel writes that end, of an IPv4 address also as IPv6 has it."""
    if ":" in host:
        return {f"{_words(socket.inet_pton(socket.AF_INET6, host))}:{port:04X}"}
    packed = socket.inet_pton(socket.AF_INET, host)
    mapped = b"\0" * 10 + b"\xff\xff" + packed
    return {f"{_words(packed)}:{port:04X}", f"{_words(mapped)}:{port:04X}"}


def _words(packed: bytes) -> str:
    return "".join(f"{int.from_bytes(packed[at : at + 4], sys.byteorder):08X}" for at in range(0, len(packed), 4))
