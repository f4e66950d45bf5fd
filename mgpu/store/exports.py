"""Exported values of jobs, each job's in a file of its own, apart from its row: they may be secrets, and rows are read
by many, copied and kept.

    <root>/<32 hex digits>.json        0600

The row holds the name alone. A file is written before its row and goes once the job is over, so a crash in between
leaves at most a file that nobody needs.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Container, Mapping
from contextlib import suppress
from pathlib import Path

from mgpu.core.errors import StoreError
from mgpu.store.spool import in_words, sync_path

_HALF = ".part"


class Exports:
    """Errors of the disk are StoreError. Safe to use from any thread."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def keep(self, values: Mapping[str, str]) -> str:
        """Its name. When this returns, it is on the disk."""
        name = secrets.token_hex(16)
        path = self._path(name)
        half = path.with_suffix(_HALF)
        try:
            self._root.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                json.dump(dict(values), file)
                file.flush()
                os.fsync(descriptor)
            half.replace(path)
            sync_path(self._root)
        except OSError as error:
            with suppress(OSError):
                half.unlink()
            raise in_words(path, error) from error
        return name

    def read(self, name: str) -> dict[str, str]:
        """Raises StoreError where it is gone."""
        try:
            values = json.loads(self._path(name).read_text("ascii"))
        except (OSError, ValueError) as error:
            raise StoreError(f"the exported values are gone from {self._root}", "submit the job again") from error
        return {str(key): str(value) for key, value in values.items()}

    def has(self, name: str) -> bool:
        return self._path(name).exists()

    def drop(self, name: str) -> None:
        with suppress(OSError):
            self._path(name).unlink()

    def forget(self, needed: Container[str]) -> None:
        """What no job needs: left by a crash. While no submission is under way."""
        with suppress(OSError):
            for path in list(self._root.iterdir()):
                with suppress(OSError):
                    if path.stem not in needed:
                        path.unlink()

    def _path(self, name: str) -> Path:
        return self._root / f"{name}.json"
