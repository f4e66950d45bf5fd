"""What this machine is to a master elsewhere: its addresses, its GPUs, the host keys of its sshd."""

from __future__ import annotations

import glob
import ipaddress
import re
import socket
import subprocess

from mgpu.lean.typing import Any, Iterator, NamedTuple

SMI_TIMEOUT_S = 30.0
SMI = ["nvidia-smi", "--query-gpu=index,name,memory.total", "--format=csv,noheader,nounits"]
HOST_KEYS = "/etc/ssh/*host*key*.pub"
DISCARD = 9  # a port: nothing is sent to it
# of documentation: they lead nowhere, but by the way that leads everywhere
ANYWHERE: tuple[tuple[Any, str], ...] = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


class Gpus(NamedTuple):
    """`rows`: index, name, MiB. `why`: that there are none to be seen."""

    rows: list[tuple[int, str, str]]
    why: str = ""


def addresses(master: str, port: int) -> Iterator[tuple[str, str]]:
    """Those by which others may reach this machine, and how each was found: the likeliest first. Whoever takes the
    first waits for no name server."""
    found = set()
    for address, how in _candidates(master, port):
        if address not in found and _leads_here(address):
            found.add(address)
            yield address, how


def _candidates(master: str, port: int) -> Iterator[tuple[str, str]]:
    if master:
        try:
            ways = socket.getaddrinfo(master, port or DISCARD, type=socket.SOCK_DGRAM)
        except OSError:
            ways = []
        for family, _, _, _, where in ways:
            yield from _source_of(family, where, "the way to the master")
    for family, anywhere in ANYWHERE:
        yield from _source_of(family, (anywhere, DISCARD), "the default route")
    for word in _said_by(["hostname", "-I"], 5.0).split():
        yield word, "its interfaces"
    try:
        for *_, found in socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_DGRAM):
            yield str(found[0]), "its name"
    except OSError:
        pass


def _source_of(family: int, where: tuple[object, ...], how: str) -> Iterator[tuple[str, str]]:
    """Of what goes there: the kernel says that without anything being sent."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(where)
            yield str(probe.getsockname()[0]), how
    except OSError:
        return


def _leads_here(address: str) -> bool:
    """From another machine."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    return not (found.is_loopback or found.is_link_local or found.is_unspecified)


def gpus() -> Gpus:
    try:
        asked = subprocess.run(
            SMI, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SMI_TIMEOUT_S, check=False
        )
    except FileNotFoundError:
        return Gpus([], "there is no nvidia-smi here")
    except (OSError, subprocess.TimeoutExpired) as error:
        return Gpus([], f"nvidia-smi: {getattr(error, 'strerror', None) or 'no answer'}")
    rows = [
        (int(match[1]), match[2].strip(), match[3])
        for line in asked.stdout.splitlines()
        if (match := re.fullmatch(r"(\d{1,4}), (.*), (\d+|\[.*\])", line.strip()))
    ]
    said = (asked.stderr or asked.stdout).strip().splitlines()
    return Gpus(rows, "" if rows else f"nvidia-smi shows none{': ' + said[0] if said else ''}")


def host_keys() -> set[str]:
    """Of the sshd here: `type key`, as known_hosts has them. Empty = they lie elsewhere."""
    found = set()
    for path in glob.glob(HOST_KEYS):
        try:
            with open(path, encoding="ascii", errors="replace") as file:
                words = file.read(16_384).split()
        except OSError:
            continue
        if len(words) >= 2:
            found.add(f"{words[0]} {words[1]}")
    return found


def _said_by(command: list[str], timeout_s: float) -> str:
    try:
        asked = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stdout
