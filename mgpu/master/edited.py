"""Whether the configuration was edited since the master read it.

A master goes on with what it read: links, partitions and jobs that were placed stand on it. But who edits a file and
sees nothing happen has to be told. The files are looked at now and then; only when one of them has changed are they
read again, and only another meaning counts (neither a comment nor an editor's way to save).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from mgpu.config.apart import load
from mgpu.config.model import Config
from mgpu.core.errors import ConfigError

log = logging.getLogger(__name__)

PERIOD_S = 5.0
_WAY_OUT = "`mgpu config reload` brings it into force"

Stamp = tuple[tuple[int, int, int] | None, ...]


class Edited:
    def __init__(self, config: Config) -> None:
        self._config = config
        self._files = config.files
        self._stamp = _stamp(self._files)
        self._due = 0.0
        self.notice = ""  # one line, "" = it says what the master does

    def look(self, monotonic: float) -> None:
        if self._config.path is None or monotonic < self._due:
            return
        self._due = monotonic + PERIOD_S
        stamp = _stamp(self._files)
        if stamp != self._stamp:
            self._stamp = stamp
            self._read(self._config.path)

    def _read(self, path: Path) -> None:
        before, self.notice = self.notice, ""
        try:
            fresh = load(path)
        except ConfigError as error:
            self.notice = f"{path} was changed since the master read it and has faults: mgpu config check tells them"
            log.debug("%s", error)
        else:
            self._files = fresh.files
            if fresh != self._config:
                self.notice = f"{path} or its inventory was changed since the master read it: {_WAY_OUT}"
        if self.notice and self.notice != before:
            log.warning("%s", self.notice)


def _stamp(files: Iterable[Path]) -> Stamp:
    """None = it is not there. A folder's changes when a file comes or goes."""
    found: list[tuple[int, int, int] | None] = []
    for file in files:
        try:
            status = file.stat()
        except OSError:
            found.append(None)
        else:
            found.append((status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(found)
