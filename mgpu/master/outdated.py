"""Whether other code lies on the disk than this process runs: after an upgrade nothing changes until the master is
restarted, and whoever upgraded wonders.

Files are looked at rarely, and read only when one of them was touched: the same code installed anew is no other.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import mgpu

log = logging.getLogger(__name__)

FIRST_S, PERIOD_S = 60.0, 300.0
OURS = (".py", ".sh", ".pl")
_VERSION = re.compile(r"^__version__ = \"([^\"]*)\"", re.M)

Stamp = frozenset[tuple[str, int, int]]


class Package:
    """The code of a process, from its start on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stamp = self._began_as = _stamp(folder)
        self._content: bytes | None = None  # of what we run; to know it costs 20 ms, which a start has not
        self.notice = ""  # one line, "" = it is what we run

    def look(self) -> None:
        stamp = _stamp(self.folder)
        if self._content is None and stamp == self._began_as:
            self._content = _content(self.folder)
        if stamp != self._stamp:
            self._stamp = stamp
            self._compare()

    def _compare(self) -> None:
        before, self.notice = self.notice, ""
        if self._content is None or _content(self.folder) != self._content:
            found = version_in(self.folder)
            other = f"version {found}" if found != mgpu.__version__ else "other code"
            what = f"{self.folder} holds {other} now, and the master runs what was there when it began"
            self.notice = f"{what} ({mgpu.__version__}): `mgpu restart` takes it up, jobs run on"
        if self.notice and self.notice != before:
            log.warning("%s", self.notice)


class Outdated:
    """Of one master in this process; there may be several, one after the other."""

    def __init__(self, package: Package | None = None) -> None:
        self._package = package or _OURS
        self._due: float | None = None

    @property
    def notice(self) -> str:
        return self._package.notice

    def look(self, monotonic: float) -> None:
        if self._due is None:
            self._due = monotonic + FIRST_S
        if monotonic >= self._due:
            self._due = monotonic + PERIOD_S
            self._package.look()


def version_in(folder: Path) -> str:
    try:
        found = _VERSION.search((folder / "__init__.py").read_text("utf-8", "replace"))
    except OSError:
        return "none"
    return found[1] if found else "unknown"


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.suffix in OURS)


def _stamp(folder: Path) -> Stamp:
    found = set()
    for path in _files(folder):
        try:
            status = path.stat()
        except OSError:  # gone just now
            continue
        found.add((str(path), status.st_size, status.st_mtime_ns))
    return frozenset(found)


def _content(folder: Path) -> bytes:
    digest = hashlib.sha256()
    for path in sorted(_files(folder)):
        try:
            data = path.read_bytes()
        except OSError:
            continue
        digest.update(f"{path} {len(data)}\n".encode() + data)
    return digest.digest()


_OURS = Package(Path(mgpu.__file__).parent)  # as this module is loaded with the rest of the master
