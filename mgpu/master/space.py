"""How much room is left for the database and the spool: told before it is too late."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path

log = logging.getLogger(__name__)

PERIOD_S = 15.0
LEAST, MOST = 16 << 20, 2 << 30  # bytes: below a twentieth of the disk, but no less and no more than these


class Space:
    """Of the disk of that folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._due = 0.0
        self.notice = ""  # one line, "" = there is enough

    def look(self, monotonic: float) -> None:
        if monotonic < self._due:
            return
        self._due = monotonic + PERIOD_S
        before, self.notice = self.notice, ""
        with suppress(OSError):
            disk = os.statvfs(self._folder)
            free, size = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
            if free < max(LEAST, min(MOST, size // 20)):
                left = f"{free >> 20} MiB of {size >> 20} MiB are free for {self._folder}"
                self.notice = f"{left}: make room, or submissions are refused and output waits on the nodes"
        if self.notice and not before:
            log.warning("%s", self.notice)
        elif before and not self.notice:
            log.info("there is room again for %s", self._folder)
