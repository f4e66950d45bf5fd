"""Whether the configuration was edited since the master read it.

A master goes on with what it read: links, partitions and jobs that were placed stand on it. But who edits a file and
sees nothing happen has to be told. The files are looked at now and then; only when one of them has changed are they
read again, beside the master's passes, and only another meaning counts (neither a comment nor an editor's way to save).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from mgpu.config.apart import NotRead, Reading
from mgpu.config.model import Config
from mgpu.core.errors import ConfigError

log = logging.getLogger(__name__)

PERIOD_S = 5.0
AGAIN_S = 60.0  # after it could not be read
_WAY_OUT = "`mgpu config reload` brings it into force"

Stamp = tuple[tuple[int, int, int] | None, ...]


class Edited:
    def __init__(self, config: Config) -> None:
        self._config = config
        self._files = config.files
        self._stamp = _stamp(self._files)
        self._due = 0.0
        self._reading: tuple[Reading, Stamp] | None = None  # with what they were when it began
        self.notice = ""  # one line, "" = it says what the master does

    @property
    def is_reading(self) -> bool:
        return self._reading is not None

    def look(self, monotonic: float) -> None:
        """Never waits."""
        path = self._config.path
        if path is None or (self._reading is None and monotonic < self._due):
            return
        try:
            if self._reading is not None:
                self._take(path)
                return
            self._due = monotonic + PERIOD_S
            stamp = _stamp(self._files)
            if stamp != self._stamp:
                self._reading = Reading(path), stamp
        except NotRead as error:
            self._due = monotonic + AGAIN_S
            log.warning("%s; it is tried again", error.message)

    def _take(self, path: Path) -> None:
        """What was read, once it is. Raises NotRead."""
        assert self._reading is not None
        reading, stamp = self._reading
        if not reading.is_over:
            return
        self._reading = None
        before, notice = self.notice, ""
        try:
            fresh = reading.result()
        except ConfigError as error:
            notice = f"{path} was changed since the master read it and has faults: mgpu config check tells them"
            log.debug("%s", error)
        else:
            if fresh != self._config:
                notice = f"{path} or its inventory was changed since the master read it: {_WAY_OUT}"
            self._files = fresh.files
        self._stamp, self.notice = stamp, notice
        if notice and notice != before:
            log.warning("%s", notice)


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
