"""A master's TCP address: `https://host:port`; `http://` on this machine alone, since what goes over it is read by
whoever sits between."""

from __future__ import annotations

import re
import socket

from mgpu.client.http import MasterError
from mgpu.endpoint import LOOPBACK, PORT, is_loopback
from mgpu.lean.typing import NamedTuple

FORM = "https://host:port"
_URL = re.compile(
    r"(?P<scheme>https?)://(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?))"
    r":(?P<port>[0-9]{1,5})/?",
    re.ASCII,
)


class Address(NamedTuple):
    """`host` an IPv6 address without its brackets."""

    host: str
    port: int
    tls: bool

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://{bracketed(self.host)}:{self.port}"

    @property
    def ascii(self) -> bytes:
        """The host for those who would first load what other scripts need."""
        return self.host.encode("ascii")

    @property
    def name(self) -> str:
        """Of files about it."""
        return f"{self.host}_{self.port}"


def parse_address(url: str) -> Address:
    """Raises MasterError (bad_request)."""
    match = _URL.fullmatch(url)
    port = int(match["port"]) if match else 0
    if match is None or not 0 < port < 65536:
        raise MasterError("bad_request", f"{url!r} is no master's address", f"write it like {FORM}")
    if match["address"] and not _is_ipv6(match["address"]):
        raise MasterError("bad_request", f"{url!r} is no master's address: in brackets belongs an IPv6 address", FORM)
    address = Address((match["address"] or match["host"]).lower(), port, match["scheme"] == "https")
    if not address.tls and not is_loopback(address.host):
        what = f"{url}: beyond this machine a token goes over TLS alone"
        raise MasterError("bad_request", what, f"https://{bracketed(address.host)}:{port}")
    return address


def _is_ipv6(text: str) -> bool:
    try:
        socket.inet_pton(socket.AF_INET6, text)
    except OSError:
        return False
    return True


def address_of(host: str, port: str) -> Address:
    """Of the older system's two words, either of which may be missing. Raises MasterError (bad_request)."""
    name = (host or LOOPBACK).removeprefix("[").removesuffix("]")
    try:
        return parse_address(f"{'http' if is_loopback(name) else 'https'}://{bracketed(name)}:{port or PORT}")
    except MasterError as error:
        given = " ".join(f"--{word} {value}" for word, value in (("host", host), ("port", port)) if value)
        raise MasterError("bad_request", f"{given}: no address", "a machine's name or address, and a number") from error


def bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
