"""What the nodes of a job should have in common, as a job there would see it: a text that asks, and what it prints."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mgpu.core.launch import NodeWorld, surroundings
from mgpu.core.shelltext import quote

CLOCK = "date +%s.%N"

_PYTHON = r"""
import importlib.util, os, platform, re
print("python", platform.python_version())
found = importlib.util.find_spec("torch")
if found and found.origin:
    try:
        text = open(os.path.join(os.path.dirname(found.origin), "version.py")).read()
        words = [re.search(name + r"\s*(?::[^=]*)?=\s*'([^']*)'", text) for name in ("__version__", "cuda")]
        print("torch", *[word.group(1) if word else "-" for word in words])
    except OSError:
        pass
try:
    from importlib.metadata import distributions
    for each in distributions():
        if (each.metadata["Name"] or "").startswith("nvidia-nccl-cu"):
            print("nccl", each.version)
except ImportError:
    pass
"""

_NETWORK = """
read -r mgpu_name </proc/sys/kernel/hostname
echo "hostname $mgpu_name"
getent ahosts "$mgpu_name" 2>/dev/null | head -n 1 | sed 's/^/resolves /'
if command -v ip >/dev/null; then
  ip -o addr | sed 's/^/addr /'
  for mgpu_name in %s; do
    echo "route $mgpu_name $(ip -o route get "$mgpu_name" | head -n 1)"
  done
else
  sed 's/^/table /' /proc/net/route
fi 2>/dev/null
unset mgpu_name"""

_DIRECTORY = """
if [ ! -d {0} ]; then echo "directory {1} none"
elif [ -e {0}/.mgpu.{2} ]; then echo "directory {1} seen"
else echo "directory {1} other"; fi"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """`addresses`: of its peers. `directories`: in which a file `.mgpu.NONCE` is looked for. `virtual_env`: the user's,
    "" = none."""

    addresses: Sequence[str]
    directories: Sequence[str]
    nonce: str
    virtual_env: str = ""


def question(world: NodeWorld, wanted: Wanted) -> tuple[str, str]:
    """The text, and the shell that it is for. What is set up prints nothing; Python is looked at behind that."""
    around, shell = surroundings(world, {}, wanted.virtual_env)
    python = f'"$mgpu_python" -c {quote(_PYTHON)} 2>/dev/null'
    lines = [
        _NETWORK % " ".join(map(quote, wanted.addresses)),
        *(
            _DIRECTORY.format(_place(directory), number, wanted.nonce)
            for number, directory in enumerate(wanted.directories)
        ),
        "exec 5>&1 >/dev/null 2>&1",
        *around,
        "exec >&5 5>&-",
        f"for mgpu_python in python python3; do if command -v $mgpu_python >/dev/null; then {python}; break; fi; done",
    ]
    return "\n".join(lines), shell


def _place(directory: str) -> str:
    return '"$HOME"' + quote(directory[1:]) if directory.startswith("~") else quote(directory)


@dataclass(frozen=True, slots=True)
class Facts:
    """What a node has told; "" = it did not. `interfaces`: (name, address) pairs; `routes`: to a peer's address, over
    which interface and from which address; `directories`: by number, `none`, `seen` (the file is there) or `other`."""

    hostname: str = ""
    resolves: str = ""  # what its own name means to it
    interfaces: tuple[tuple[str, str], ...] = ()
    routes: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    python: str = ""
    torch: str = ""
    torch_cuda: str = ""
    nccl: str = ""
    directories: Mapping[int, str] = field(default_factory=dict)


_MOST = 2000  # lines
_ADDRESS = re.compile(r"\d+: (\S+) +inet6? ([0-9A-Fa-f.:]+)/\d+ ")
_ROUTE = re.compile(r"([0-9A-Fa-f.:]+) .*?\bdev (\S+)(?:.*?\bsrc ([0-9A-Fa-f.:]+))?")


def parse_facts(text: str, addresses: Sequence[str]) -> Facts:
    told: dict[str, list[str]] = {}
    for line in text.splitlines()[:_MOST]:
        name, _, rest = line.partition(" ")
        told.setdefault(name, []).append(rest.strip()[:500])
    interfaces = tuple((found[1], found[2]) for found in map(_ADDRESS.match, told.get("addr", ())) if found)
    routes = {found[1]: (found[2], found[3] or "") for found in map(_ROUTE.match, told.get("route", ())) if found}
    table = told.get("table", [])
    for address in addresses if table else ():
        if interface := _over(address, table):
            routes[address] = (interface, "")
    torch = _words(told, "torch")
    marks = (line.split() for line in told.get("directory", ()))
    return Facts(
        hostname=_words(told, "hostname")[0],
        resolves=_words(told, "resolves")[0],
        interfaces=interfaces,
        routes=routes,
        python=_words(told, "python")[0],
        torch=torch[0].strip("-"),
        torch_cuda=torch[1].strip("-"),
        nccl=_words(told, "nccl")[0],
        directories={int(words[0]): words[1] for words in marks if len(words) == 2 and words[0].isdecimal()},
    )


def _words(told: Mapping[str, list[str]], name: str) -> tuple[str, str]:
    first, _, second = next(iter(told.get(name, ())), "").partition(" ")
    return first, second.strip()


def _over(address: str, table: Sequence[str]) -> str:
    """The interface that the kernel's table of routes (/proc/net/route) has for it: the narrowest, then the first."""
    if ":" in address:
        return ""
    best, chosen = -1, ""
    number = int(ipaddress.IPv4Address(address))
    for line in table:
        words = line.split()
        if len(words) < 8 or not re.fullmatch(r"[0-9A-F]{8}", words[1]) or not re.fullmatch(r"[0-9A-F]{8}", words[7]):
            continue
        network, mask = (int.from_bytes(bytes.fromhex(word), "little") for word in (words[1], words[7]))
        if number & mask == network and mask.bit_count() > best:
            best, chosen = mask.bit_count(), words[0]
    return chosen
