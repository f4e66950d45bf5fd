"""The frames between a shell on a node and us; see node/serve/words.sh. Pure."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:,=@%+-^~")
_ESCAPED = tuple(chr(byte) if byte in _SAFE else f"\\0{byte:03o}" for byte in range(256))


LONG_WORD = 8192  # bytes; longer texts follow the request


def encode(value: str | bytes) -> str:
    """A word of a request: printable ASCII without blanks, for printf's %b. "" becomes "-"."""
    data = to_bytes(value)
    if data in (b"", b"-"):
        return "\\0055" if data else "-"
    return "".join(map(_ESCAPED.__getitem__, data))


def encode_text(value: str) -> tuple[str, bytes]:
    """A word for a text of any length, and what has to follow the request."""
    data = to_bytes(value)
    if len(data) <= LONG_WORD:
        return encode(data), b""
    return f"@{len(data)}", data + b".\n"


def to_bytes(value: str | bytes) -> bytes:
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


@lru_cache(maxsize=1)
def program() -> bytes:
    """The node's half: the files of `node/` in one, without comments and indentation, as it travels."""
    parts = (part for folder in ("job", "serve") for part in _parts(folder))
    return b"\n".join(parts)


def _parts(folder: str) -> list[bytes]:
    """In the order of their names, which means nothing: they are sets of functions."""
    found = sorted(files("mgpu.remote").joinpath(f"node/{folder}").iterdir(), key=lambda path: path.name)
    return [_stripped(path.read_text("ascii")) for path in found if path.name.endswith(".sh")]


def _stripped(text: str) -> bytes:
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("#")).encode()


def login_command(mark: str) -> str:
    """The one quoted word that a login shell (csh and fish too) has to understand. The program follows on stdin."""
    size = len(program())
    return f"exec /bin/sh -c 'program=$(dd ibs=1 obs=4096 count={size} 2>/dev/null);eval \"$program\";serve {mark}'"
