"""What somebody says who is not known yet: the head of a first request, of which no more is read than has to be."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

LIMIT_B = 16 << 10
END = b"\r\n\r\n"
BEARER = "bearer "


@dataclass(frozen=True, slots=True)
class Knock:
    """`token` "" = none, or one that is none. `origin`: a web page had it asked. `host` as it was said."""

    token: str
    host: str
    origin: str


def parse_knock(head: bytes) -> Knock | None:
    """None = it is not HTTP. A header that is there twice is none: two readers could take two of them."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[0].isalpha() or words[2] not in ("HTTP/1.0", "HTTP/1.1"):
        return None
    pairs = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    if any(not name or name != name.strip() for name, _ in pairs):  # a line that goes on, a blank before the colon
        return None
    found = dict(pairs)
    if sum(name in ("authorization", "host", "origin") for name, _ in pairs) != len(
        found.keys() & {"authorization", "host", "origin"}
    ):
        return None
    return Knock(bearer(found.get("authorization", "")), found.get("host", ""), found.get("origin", ""))


def bearer(authorization: str) -> str:
    """The token in that header, "" = none."""
    return authorization[len(BEARER) :].strip() if authorization.lower().startswith(BEARER) else ""


def is_ours(host: str, names: Sequence[str]) -> bool:
    """Whether that is a name of this master, and not one that somebody's DNS led here. An address is nobody's name: no
    page of elsewhere can come under it."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    name = name[1:-1] if name.startswith("[") and name.endswith("]") else name
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name.lower().rstrip(".") in names
    return True
