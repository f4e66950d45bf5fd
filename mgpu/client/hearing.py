"""How long nothing has come from the other end of an ssh login, as the kernel has counted it: neither bytes, which a
living client sends every few seconds, nor word that ours arrived.

A machine that was switched off or fell asleep says nothing, and sshd by itself finds that out after hours. The kernel
tells about any TCP connection of the machine, to everybody (netlink, sock_diag): sshd's is the one in SSH_CONNECTION.
"""

from __future__ import annotations

import socket
import struct
from contextlib import suppress

_NETLINK_SOCK_DIAG = 4
_BY_FAMILY = 20
_REQUEST = struct.Struct("=IHHII BBBBI 2s2s16s16sI8s")
_INFO = 2  # the attribute that holds tcp_info
_REPLY_B = 16 + 72  # of its heads, in front of the attributes
_LAST_DATA, _LAST_ACK = 52, 56  # in tcp_info, milliseconds


def silent_for_s(connection: str) -> float | None:
    """`connection`: the words of SSH_CONNECTION. None = it cannot be told."""
    try:
        request = _request(connection)
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as netlink:
            netlink.settimeout(1)
            netlink.send(request)
            return _read(netlink.recv(1 << 16))
    except (OSError, ValueError, struct.error, AttributeError):
        return None


def _request(connection: str) -> bytes:
    """For the one connection with these ends, ours being the second."""
    client, client_port, server, server_port = connection.split()
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    ends = [socket.inet_pton(family, end.partition("%")[0]).ljust(16, b"\0") for end in (server, client)]
    ports = [struct.pack(">H", int(port)) for port in (server_port, client_port)]
    wanted = (family, socket.IPPROTO_TCP, 1 << (_INFO - 1), 0, 0xFFFFFFFF)
    return _REQUEST.pack(_REQUEST.size, _BY_FAMILY, 1, 1, 0, *wanted, *ports, *ends, 0, b"\xff" * 8)


def _read(reply: bytes) -> float | None:
    place = _REPLY_B
    if len(reply) < place or struct.unpack_from("=H", reply, 4)[0] != _BY_FAMILY:
        return None
    with suppress(struct.error):
        while True:
            length, kind = struct.unpack_from("=HH", reply, place)
            if kind == _INFO:
                data, ack = (struct.unpack_from("=I", reply, place + 4 + at)[0] for at in (_LAST_DATA, _LAST_ACK))
                return float(min(data, ack)) / 1000
            if length < 4:
                return None
            place += (length + 3) & ~3
    return None
