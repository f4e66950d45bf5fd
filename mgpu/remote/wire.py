"""The frames between a shell on a node and us; see the head of node.sh. Pure."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:,=@%+-^~")
_ESCAPED = tuple(chr(byte) if byte in _SAFE else f"\\0{byte:03o}" for byte in range(256))


def encode(value: str | bytes) -> str:
    """A word of a request: printable ASCII without blanks, for printf's %b. "" becomes "-"."""
    data = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    if data in (b"", b"-"):
        return "\\0055" if data else "-"
    return "".join(map(_ESCAPED.__getitem__, data))


@lru_cache(maxsize=1)
def program() -> bytes:
    """node.sh without its comments and indentation, as it travels."""
    lines = files("mgpu.remote").joinpath("node.sh").read_text("ascii").splitlines()
    return "\n".join(line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")).encode()


def login_command(mark: str) -> str:
    """The one quoted word that a login shell (csh and fish too) has to understand. The program follows on stdin."""
    size = len(program())
    return f"exec /bin/sh -c 'P=$(dd bs=1 count={size} 2>/dev/null);eval \"$P\";serve {mark}'"
