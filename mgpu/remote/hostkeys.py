"""Host keys, strictly. A known_hosts file is read line by line, so that one line which paramiko cannot read (markers,
odd keys) does not make the whole file unreadable; a key that a `@revoked` line names is refused."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from shlex import join, quote
from typing import NamedTuple

import paramiko
from paramiko.hostkeys import HostKeyEntry, InvalidHostKey

from mgpu import endpoint
from mgpu.remote.errors import RemoteError, Trouble

Key = paramiko.PKey


def fingerprint(key: paramiko.PKey) -> str:
    return endpoint.fingerprint(key.asbytes())


def lookup_name(host: str, port: int) -> str:
    """How known_hosts writes it: a port other than 22 in brackets, and a bare name does not serve for that."""
    return host if port == 22 else f"[{host}]:{port}"


class Place(NamedTuple):
    path: Path
    line: int

    def __str__(self) -> str:
        return f"{self.path} line {self.line}"


@dataclass(frozen=True, slots=True)
class KnownKeys:
    """What the files say about `name`. `places`: where each of `keys` stands. `authority`: where one stands whose
    certificates would do for OpenSSH, which paramiko cannot check; "" = nowhere."""

    name: str

    keys: tuple[paramiko.PKey, ...] = ()
    revoked: tuple[paramiko.PKey, ...] = ()
    places: tuple[Place, ...] = ()
    authority: str = ""

    def removal(self) -> str:
        """The command that takes all of `keys` off the files, to be typed as it stands."""
        files = dict.fromkeys(str(place.path) for place in self.places)
        return " && ".join(f"ssh-keygen -R {quote(self.name)} -f {quote(file)}" for file in files)

    def types(self) -> list[str]:
        return [key.get_name() for key in self.keys]


def load(paths: Iterable[Path], name: str) -> KnownKeys:
    """All keys on file for `name` (hashed and pattern entries too)."""
    found: list[paramiko.PKey] = []
    revoked: list[paramiko.PKey] = []
    places: list[Place] = []
    authority = ""
    for path in paths:
        try:
            if not path.is_file():
                continue  # a pipe would be waited for, and OpenSSH passes over a file that is not there, too
            lines = path.read_text("utf-8", "replace").splitlines()
        except OSError:
            continue
        for number, line in enumerate(lines, 1):
            marker, entry = _entry(line)
            if entry is None or entry.key is None or not _matches(entry, name):
                continue
            if marker == "@revoked":
                revoked.append(entry.key)
            elif marker == "@cert-authority":
                authority = str(Place(path, number))
            elif not marker:
                found.append(entry.key)
                places.append(Place(path, number))
    return KnownKeys(name, tuple(found), tuple(revoked), tuple(places), authority)


def _entry(line: str) -> tuple[str, HostKeyEntry | None]:
    line = line.strip()
    if not line or line.startswith("#"):
        return "", None
    marker = ""
    if line.startswith("@"):
        marker, _, line = line.partition(" ")
    try:
        return marker, HostKeyEntry.from_line(line.strip())
    except (InvalidHostKey, paramiko.SSHException, ValueError):
        return marker, None


def parse(line: str, name: str) -> paramiko.PKey | None:
    """The key of a known_hosts line for `name`; None if it is none, or for another name."""
    marker, entry = _entry(line)
    if marker or entry is None or "\n" in line.strip() or not _matches(entry, name):
        return None
    return entry.key


def _matches(entry: HostKeyEntry, name: str) -> bool:
    """As OpenSSH: small letters, `*` and `?`, a `!` pattern that fits rules the whole line out."""
    name = name.lower()
    found = False
    for pattern in entry.hostnames:
        if pattern.startswith("|1|"):
            found = found or paramiko.HostKeys.hash_host(name, pattern) == pattern
        elif _fits(pattern.removeprefix("!").lower(), name):
            if pattern.startswith("!"):
                return False
            found = True
    return found


def _fits(pattern: str, name: str) -> bool:
    parts = (".*" if letter == "*" else "." if letter == "?" else re.escape(letter) for letter in pattern)
    return re.fullmatch("".join(parts), name) is not None


def by_ssh(host: str, port: int, alias: str) -> str:
    """The command by which OpenSSH asks whether to trust it."""
    return join(
        ("ssh", *(("-p", str(port)) if port != 22 else ()), *(("-o", f"HostKeyAlias={alias}") if alias else ()), host)
    )


def check(known: KnownKeys, key: paramiko.PKey, name: str, asks: str) -> None:
    """Raises RemoteError unless the key is on file. `asks`: the command that asks whether to trust it."""
    if any(key == other for other in known.revoked):
        raise RemoteError(f"host key of {name} is revoked ({fingerprint(key)})", Trouble.HOST_KEY_CHANGED)
    if any(key == other for other in known.keys):
        return
    if known.keys:
        old = ", ".join(f"{fingerprint(other)} ({at})" for other, at in zip(known.keys, known.places, strict=True))
        raise RemoteError(
            f"host key changed: {name} shows {key.get_name()} {fingerprint(key)}, on file is {old}; "
            f"if you know why: {known.removal()} && {asks}",
            Trouble.HOST_KEY_CHANGED,
        )
    signed = f" (mgpu checks no certificates, so {known.authority} does not help)" if known.authority else ""
    raise RemoteError(
        f"host key unknown: {name} shows {key.get_name()} {fingerprint(key)}{signed}; run: {asks}",
        Trouble.HOST_KEY_UNKNOWN,
    )
