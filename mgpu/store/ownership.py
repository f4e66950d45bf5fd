"""Whose the files are where root does the work of a service account."""

from __future__ import annotations

import os
from pathlib import Path


def give_to_folder(made: Path) -> None:
    """What root makes here is of whoever has the folder: a service account's master is to read it. Raises OSError."""
    if os.geteuid() == 0:
        folder = made.parent.stat()
        os.chown(made, folder.st_uid, folder.st_gid, follow_symlinks=False)
