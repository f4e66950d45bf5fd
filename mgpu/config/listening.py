"""Where a master listens besides its socket: an address or a name, and what never leaves this machine."""

from __future__ import annotations

import ipaddress
import re

LOOPBACK = "127.0.0.1"
PORT = 8080  # as in the older system
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


def is_loopback(host: str) -> bool:
    """Of a name only `localhost`, which is not looked up: what other names lead to may change."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def addresses(host: str) -> tuple[str, ...]:
    """What to listen on; a name that stays here is written out, so that nobody else says where it leads."""
    return (LOOPBACK, "::1") if host.lower() == "localhost" else (host,)
