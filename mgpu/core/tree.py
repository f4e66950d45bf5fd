"""A working tree on its way: what a submission says of it, and the reading of the tar that comes for it. Pure.

Whoever sends a tar may be hostile, and the node unpacks it with whatever tar it has. So what is taken is far less than
what tars can be: only what our own client writes, byte for byte of one form that no two programs read differently.
Each name is a relative path without `..`, is there once, and lies in folders alone: nothing can be unpacked through a
link, wherever that leads. Links stay inside of the tree, also through other links.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mgpu.core import payload as read
from mgpu.core.errors import RequestError
from mgpu.core.model import JobKind, JobSpec, Tree

BLOCK = 512
MOST_MEMBERS = 200_000
LONGEST_NAME = 4096
MOST_LINKS = 40  # that one path may lead through
LONGEST_END = 64  # blocks of zeros
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}|", re.ASCII)
_KEYS = ("digest", "place", "commit", "dirty", "size", "files")
FILE, LINK, FOLDER, LONG_NAME, LONG_LINK = b"0", b"2", b"5", b"L", b"K"


def parse_tree(source: Mapping[str, Any]) -> Tree | None:
    """Of a submission. Raises RequestError."""
    if not source:
        return None
    read.only_keys(source, _KEYS, "the key of a tree")
    place, commit = read.text(source, "place", LONGEST_NAME), read.line(source, "commit", 64)
    if place and not is_inside(place):
        raise RequestError(f"'place' must be a path within the tree, not '{read.shown(place)}'")
    if not _COMMIT.fullmatch(commit):
        raise RequestError(f"'commit' is none: '{read.shown(commit)}'")
    digest = parse_digest(read.line(source, "digest", 64))
    return Tree(digest, place, commit, read.flag(source, "dirty"), _count(source, "size"), _count(source, "files"))


def tree_notices(spec: JobSpec) -> list[str]:
    """Raises RequestError for a tree with a directory elsewhere."""
    if spec.tree is None:
        return []
    if spec.chdir:
        raise RequestError("-D with a shipped tree: the job runs in the tree", "leave out one of them")
    own = [name for name in dict.fromkeys((spec.output, spec.error)) if name and not name.startswith(("/", "~"))]
    if not own or spec.kind is not JobKind.BATCH:
        return []
    return [f"{' and '.join(own)} will lie in the shipped tree, which goes when the job is over: mgpu logs keeps it"]


def parse_digest(word: str) -> str:
    if not _DIGEST.fullmatch(word):
        raise RequestError(f"a tree is named by its SHA-256, 64 hexadecimal digits, not '{read.shown(word)}'")
    return word


def _count(source: Mapping[str, Any], key: str) -> int:
    value = source.get(key, 0)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 60:
        raise RequestError(f"'{key}' must be a whole number")
    return value


def is_inside(path: str) -> bool:
    """Relative, in its plainest form, and never up."""
    return bool(path) and all(word not in ("", ".", "..") for word in path.split("/"))


# --- the tar --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Member:
    kind: bytes
    name: bytes
    target: bytes
    size: int


class TarReader:
    """Takes a tar piece by piece: `feed`, then `finish`. Both raise RequestError for what is not of our form. `limit`:
    bytes of all files."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._hash = hashlib.sha256()
        self._held = bytearray()
        self._skip = 0  # bytes of a file, with what fills its last block, that are still to come
        self._long: dict[bytes, bytes] = {}
        self._kinds: dict[bytes, bytes] = {}
        self._links: dict[bytes, bytes] = {}
        self._empty = 0  # blocks at the end
        self.size = 0

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    @property
    def files(self) -> int:
        return sum(kind != FOLDER for kind in self._kinds.values())

    def feed(self, data: bytes) -> None:
        self._hash.update(data)
        self._held += data
        at = 0
        while True:
            passed = min(self._skip, len(self._held) - at)
            self._skip -= passed
            at += passed
            taken = 0 if self._skip else self._block(at)
            if not taken:
                break
            at += taken
        del self._held[:at]

    def finish(self) -> None:
        if self._held or self._skip or self._long or self._empty < 2:
            raise _unfit("it ends in the middle")
        for name in self._links:
            _require_inside(name, self._links)

    def _block(self, at: int) -> int:
        """How many bytes were read at `at`; 0 = more are needed."""
        header = bytes(self._held[at : at + BLOCK])
        if len(header) < BLOCK:
            return 0
        if not any(header):
            self._empty += 1
            if self._empty > LONGEST_END:
                raise _unfit("its end has no end")
            return BLOCK
        if self._empty:
            raise _unfit("something follows its end")
        member = _parse_header(header)
        if member.kind not in (LONG_NAME, LONG_LINK):
            self._take(member)
            self._skip = _padded(member.size)
            return BLOCK
        if member.size > LONGEST_NAME + 1 or member.kind in self._long:
            raise _unfit("a name is too long")
        if len(self._held) < at + BLOCK + _padded(member.size):
            return 0
        text = bytes(self._held[at + BLOCK : at + BLOCK + member.size])
        self._long[member.kind] = _text(text, "a long name")
        return BLOCK + _padded(member.size)

    def _take(self, member: _Member) -> None:
        name = self._long.pop(LONG_NAME, member.name)
        target = self._long.pop(LONG_LINK, member.target)
        if member.kind == FOLDER:
            name = name.removesuffix(b"/")
        if member.kind != LINK and target:
            raise _unfit(f"{_shown(name)} has a target and is no link")
        if not is_inside(name.decode("utf-8", "surrogateescape")):
            raise _unfit(f"{_shown(name)} leads out of it")
        if name in self._kinds:
            raise _unfit(f"{_shown(name)} is in it twice")
        folder = name.rpartition(b"/")[0]
        if folder and self._kinds.get(folder) != FOLDER:
            raise _unfit(f"{_shown(name)} is in no folder that came before")
        self._kinds[name] = member.kind
        self.size += member.size
        if member.kind == LINK:
            self._links[name] = target
        if len(self._kinds) > MOST_MEMBERS:
            raise _unfit(f"it holds more than {MOST_MEMBERS} files")
        if self._limit and self.size > self._limit:
            raise RequestError(f"the tree is larger than {self._limit} bytes", "ship less of it")


def _parse_header(header: bytes) -> _Member:
    if header[257:265] != b"ustar  \0" or any(header[265:329]) or header[329:345].strip(b"0\0") or any(header[345:]):
        raise _unfit("it is not of the form that mgpu writes")
    kind = header[156:157]
    if kind not in (FILE, LINK, FOLDER, LONG_NAME, LONG_LINK):
        raise _unfit(f"{_shown(header[:100])} is no file, folder or symbolic link")
    if sum(header) - sum(header[148:156]) + 8 * 32 != _number(header[148:156]):
        raise _unfit("a checksum is wrong")
    size = _number(header[124:136])
    if kind in (LINK, FOLDER) and size:
        raise _unfit(f"{_shown(header[:100])} has a size and is no file")
    if _number(header[100:108]) & ~0o777:
        raise _unfit(f"{_shown(header[:100])} has a mode that it must not have")
    return _Member(kind, _text(header[:100], "a name"), _text(header[157:257], "a target"), size)


def _number(field: bytes) -> int:
    digits = field.rstrip(b"\0 ")
    if not re.fullmatch(rb"[0-7]{1,11}", digits):
        raise _unfit("a number is not of the form that mgpu writes")
    return int(digits, 8)


def _text(field: bytes, what: str) -> bytes:
    text = field.rstrip(b"\0")
    if b"\0" in text:
        raise _unfit(f"{what} is cut")
    return text


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def _require_inside(name: bytes, links: Mapping[bytes, bytes]) -> None:
    """Where the link leads, through however many others: never out of the tree."""
    rest, passed = [*reversed(name.split(b"/"))], 0
    at: list[bytes] = []
    while rest:
        word = rest.pop()
        if word in (b"", b"."):
            continue
        if word == b"..":
            if not at:
                raise _unfit(f"the link {_shown(name)} leads out of it")
            at.pop()
            continue
        at.append(word)
        target = links.get(b"/".join(at))
        if target is None:
            continue
        passed += 1
        if not target or target.startswith(b"/") or passed > MOST_LINKS:
            raise _unfit(f"the link {_shown(name)} leads out of it")
        at.pop()
        rest += reversed(target.split(b"/"))


def _unfit(why: str) -> RequestError:
    return RequestError(f"the tree cannot be taken: {why}", "is the client of another version than the master?")


def _shown(name: bytes) -> str:
    return f"'{read.shown(name.rstrip(bytes(1)).decode('utf-8', 'replace'))}'"
