"""Where a master listens besides its socket: an address or a name, and what never leaves this machine."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import replace

from mgpu.config.model import Listen
from mgpu.endpoint import LOOPBACK, PORT, is_loopback

_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252}[A-Za-z0-9_])?", re.ASCII)


def listen_host(text: str) -> str:
    """An address loses its brackets. Raises ValueError."""
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if not _NAME.fullmatch(bare):
        try:
            ipaddress.ip_address(bare)
        except ValueError:
            raise ValueError(f"{text!r} is no address and no name of a machine: like 0.0.0.0 or head.lab") from None
    return bare


def addresses(host: str) -> tuple[str, ...]:
    """What to listen on; a name that stays here is written out, so that nobody else says where it leads."""
    return (LOOPBACK, "::1") if host.lower() == "localhost" else (host,)


def listen_at(text: str, said: Listen | None) -> Listen:
    """HOST:PORT, HOST alone or :PORT, of a command line; what else the configuration has `said` of it holds. Raises
    ValueError."""
    match = re.fullmatch(r"(?P<host>\[[^]]*\]|[^:]*)(?::(?P<port>[0-9]{1,5}))?", text, re.ASCII)
    if match is None or not text:
        raise ValueError(f"{text!r} is no place to listen at: write it like 0.0.0.0:8080 or [::]:8080")
    host = listen_host(match["host"]) if match["host"] else LOOPBACK
    port = int(match["port"] or PORT)
    if not 0 < port < 65536:
        raise ValueError(f"{port} is no port: 1 to 65535")
    if said is None:
        return Listen(host, port, tls=not is_loopback(host))
    return replace(said, host=host, port=port, tls=said.tls or not is_loopback(host))
