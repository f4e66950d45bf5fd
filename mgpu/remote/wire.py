"""The frames between a shell on a node and us; see node/serve/words.sh. Pure."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

# All that is printed but what means something there: a shell takes a line in byte by byte, so few are best.
_SAFE = frozenset(range(33, 127)) - set(b"\\@")
_SHORT = {ord("\n"): "\\n", ord("\t"): "\\t", ord("\\"): "\\\\"}
_ESCAPED = tuple(chr(byte) if byte in _SAFE else _SHORT.get(byte, f"\\0{byte:03o}") for byte in range(256))


LONG_WORD = 8192  # bytes; longer texts follow the request


def encode(value: str | bytes) -> str:
    """A word of a request: printable ASCII without blanks, for printf's %b. "" becomes "-"."""
    data = to_bytes(value)
    if data in (b"", b"-"):
        return "\\0055" if data else "-"
    return "".join(map(_ESCAPED.__getitem__, data))


def encode_text(value: str | bytes) -> tuple[str, bytes]:
    """A word for a text of any length, and what has to follow the request."""
    data = to_bytes(value)
    if len(data) <= LONG_WORD:
        return encode(data), b""
    return f"@{len(data)}", data + b".\n"


def to_bytes(value: str | bytes) -> bytes:
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


# The node's half, by file: what a job's runner needs, what else those need that watch over it, and the serve loop.
# They are sets of functions, and what each set uses of another is defined before it.
PARTS = (
    ("job/records", "job/leases", "job/input", "job/tree", "job/runner"),
    ("watch/processes", "watch/supervisor", "watch/timer", "watch/ending"),
    (
        "serve/words",
        "serve/start",
        "serve/tree",
        "serve/orders",
        "serve/output",
        "serve/input",
        "serve/spawn",
        "serve/bounded",
        "serve/probe",
        "serve/residue",
        "serve/peers",
        "serve/loop",
    ),
)


# In other languages than the shell's, for nodes that have these: kept in variables of their names.
TEXTS = ("meet.pl", "meet.py")
# Sent only to a shell that is to become it; the first begins, the others are what it calls.
QUICK = ("loop", "records", "start", "watch", "runner", "stop", "state")


@lru_cache(maxsize=1)
def parts() -> tuple[bytes, ...]:
    """Without comments and indentation."""
    texts = ("".join(_read(f"{name}.sh") for name in names) for names in PARTS)
    return tuple(map(_stripped, texts))


@lru_cache(maxsize=1)
def texts() -> bytes:
    """Without comments; indentation means something in one of them."""
    made = ((name.replace(".", "_"), _read(f"serve/{name}")) for name in TEXTS)
    return b"".join(b"%b=%b\n" % (name.encode(), _quoted(_stripped(text, indented=True))) for name, text in made)


@lru_cache(maxsize=1)
def quick() -> bytes:
    """What a shell there can become; see node/quick/loop.pl."""
    return _stripped("".join(_read(f"quick/{name}.pl") for name in QUICK))


def _read(name: str) -> str:
    return files("mgpu.remote").joinpath(f"node/{name}").read_text("ascii")


def _stripped(text: str, indented: bool = False) -> bytes:
    lines = (line.rstrip() if indented else line.strip() for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.lstrip().startswith("#")).encode()


def program() -> bytes:
    """The node's half as it travels. The first two parts are kept in variables there, for the shells that need them."""
    job, watch, serve = parts()
    return b'program=%b\nwatch=%b\n%beval "$program;$watch"\n%b' % (_quoted(job), _quoted(watch), texts(), serve)


def _quoted(text: bytes) -> bytes:
    return b"'" + text.rstrip(b"\n").replace(b"'", b"'\\''") + b"'"


def login_command(mark: str, sudo_user: str = "") -> str:
    """The one quoted word that a login shell (csh and fish too) has to understand. The program follows on stdin.
    `sudo_user`: whom it becomes first, from a directory that everybody may be in."""
    size = len(program())
    # a dd that does not know the quick way takes nothing before it says so
    get = f"{{ dd bs=65536 iflag=fullblock,count_bytes count={size}||dd ibs=1 obs=4096 count={size};}} 2>/dev/null"
    become = f"cd /; exec sudo -n -H -u '{sudo_user}' --" if sudo_user else "exec"
    return f"{become} /bin/sh -c 'eval \"$({get})\";serve {mark}'"
