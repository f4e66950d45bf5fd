"""Working trees that came with --ship, as files of their submitter, named by what is in them.

    <root>/<uid>/<digest>.tar.gz

A tree that is there is whole and was looked through: it is written beside and takes its name last. The digest is that
of the tar, so that it does not depend on how a machine compresses. When a tree was last wanted is its file's time.
"""

from __future__ import annotations

import os
import secrets
import threading
import zlib
from collections.abc import Container, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from mgpu.core.errors import RequestError, StoreError
from mgpu.core.tree import TarReader
from mgpu.store.spool import in_words

KEEP_S = 7 * 86_400.0  # after it was last wanted
LATE_S = 3600.0  # a submission that names it may still be on its way
TREES_OF_ONE = 20  # of the largest size: how much is kept of each user
STEP_B = 1 << 18
HEADERS_B = 64 << 20  # packed: names are much alike
HALF = ".part"

Key = tuple[int, str]  # uid, digest


class Trees:
    """`limit`: bytes of the files of one, 0 = any. Errors of the disk are StoreError. Safe to use from any thread."""

    def __init__(self, root: Path, limit: int) -> None:
        self._root = root
        self.limit = limit

    def wanted(self, uid: int, digest: str) -> bool:
        """Whether it is there; from now on it is kept for a while again."""
        try:
            os.utime(self._path(uid, digest))
        except FileNotFoundError:
            return False
        except OSError as error:
            raise in_words(self._path(uid, digest), error) from error
        return True

    def open(self, uid: int, digest: str) -> tuple[BinaryIO, int]:
        """Its tar.gz, and how many bytes that are. Raises StoreError where it is gone."""
        path = self._path(uid, digest)
        try:
            os.utime(path)
            file = path.open("rb")
        except FileNotFoundError as error:
            raise StoreError(
                f"the shipped tree {digest[:12]} is gone from {self._root}", "submit the job again"
            ) from error
        except OSError as error:
            raise in_words(path, error) from error
        return file, os.fstat(file.fileno()).st_size

    def receive(self, uid: int, digest: str) -> Incoming:
        return Incoming(self._path(uid, digest), digest, self.limit)

    def forget(self, needed: Container[Key], now: float) -> None:
        """What no job needs and nobody wanted for long, and of who has too much the oldest of that."""
        for folder in self._folders():
            uid, room = int(folder.name), self.limit * TREES_OF_ONE
            for path, used, size in sorted(_files(folder), key=lambda file: -file[1]):
                room -= size
                age, half = now - used, path.suffix == HALF
                spare = age > LATE_S and (half or (uid, path.name.partition(".")[0]) not in needed)
                if spare and (half or age > KEEP_S or (self.limit and room < 0)):
                    with suppress(OSError):
                        path.unlink()

    def size_of(self, uid: int) -> int:
        return sum(size for _, _, size in _files(self._root / f"{uid:d}"))

    def _folders(self) -> list[Path]:
        with suppress(FileNotFoundError):
            return [folder for folder in self._root.iterdir() if folder.name.isdigit()]
        return []

    def _path(self, uid: int, digest: str) -> Path:
        return self._root / f"{uid:d}" / f"{digest}.tar.gz"


class Incoming:
    """One that is just being sent: `write` its tar.gz, then `keep` it; `close` in any case. All raise RequestError for
    what is not the tree of that digest."""

    def __init__(self, path: Path, digest: str, limit: int) -> None:
        self._path = path
        self._digest = digest
        self._reader = TarReader(limit)
        self._unzip = zlib.decompressobj(31)
        self._most = limit + HEADERS_B if limit else 0
        self._received = 0
        self._lock = threading.Lock()  # who sends may go away while a piece is being written
        self._closed = False
        self._made = path.with_name(f"{digest}.{secrets.token_hex(4)}{HALF}")
        try:
            for folder in (path.parent.parent, path.parent):
                folder.mkdir(mode=0o700, exist_ok=True)
            self._file = os.open(self._made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise in_words(self._made, error) from error

    def write(self, data: bytes) -> None:
        self._received += len(data)
        if self._most and self._received > self._most:
            raise RequestError("the tree is too large", "ship less of it")
        self._look_at(data)
        with self._lock:
            try:
                while data and not self._closed:
                    data = data[os.write(self._file, data) :]
            except OSError as error:
                raise in_words(self._made, error) from error

    def _look_at(self, data: bytes) -> None:
        try:
            while data and not self._unzip.eof:
                self._reader.feed(self._unzip.decompress(data, STEP_B))
                data = self._unzip.unconsumed_tail
        except zlib.error as error:
            raise RequestError("the tree cannot be taken: it is no gzip, or damaged on its way") from error
        if self._unzip.unused_data or (data and self._unzip.eof):
            raise RequestError("the tree cannot be taken: something follows its end")

    def keep(self) -> None:
        """All was written. From now on it is there."""
        if not self._unzip.eof:
            raise RequestError("the tree cannot be taken: it was cut on its way")
        self._reader.finish()
        if self._reader.digest != self._digest:
            raise RequestError(f"the tree is not the one it is named after: its SHA-256 is {self._reader.digest}")
        try:
            os.fsync(self._file)
            self._made.replace(self._path)
        except OSError as error:
            raise in_words(self._path, error) from error

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self._file)
        with suppress(OSError):
            self._made.unlink()


def _files(folder: Path) -> Iterator[tuple[Path, float, int]]:
    """With the time at which each was last wanted, and its size."""
    with suppress(FileNotFoundError):
        for path in folder.iterdir():
            with suppress(FileNotFoundError):
                found = path.stat()
                yield path, found.st_mtime, found.st_size
