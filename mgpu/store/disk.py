"""Whether a disk does what it should."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def disk_fault(path: Path) -> str:
    """Why the file cannot be read to its end, or none written beside it; "" = the disk does both. SQLite tells a disk
    that has gone as a damaged file, and who then puts that file aside loses a sound one."""
    try:
        with path.open("rb") as file:
            while file.read(1 << 20):
                pass
        with tempfile.TemporaryFile(dir=path.parent) as probe:
            probe.write(b"x")
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        return error.strerror or str(error)
    return ""
