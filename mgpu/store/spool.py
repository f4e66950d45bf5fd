"""The output of attempts as files on the head node, and the wake-ups of those who wait for more of it.

    <root>/<job>/<attempt>/<rank>.out and .err; beside each when its bytes came (see moments.py)

Whoever brings output says at which offset it stands. What is there already is passed over and a gap is refused, so a
transfer can be cut and repeated anywhere and the file is still the stream, byte for byte.

Of a stream that is longer than the limit, that many bytes are kept and then a last line that says so. Such a stream is
cut for good: a link beside it, `<rank>.out.cut -> KEPT:SIZE`, is made first (a symlink: it is there as a whole or not
at all, also on a full disk), so neither a crash in between nor another limit later on puts a byte behind that line.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from mgpu import clock
from mgpu.core.errors import StoreError
from mgpu.core.model import JobId, PartKey
from mgpu.store import moments

Stream = Literal["stdout", "stderr"]
_SUFFIX = {"stdout": "out", "stderr": "err"}
_LOCKS = 16
_BLOCK = 1 << 16
USED_PERIOD_S = 20.0
MARK = "[mgpu: output beyond {} bytes was not kept]\n"


class SpoolGap(Exception):
    """The data begins behind the end of what is stored: ask again from `size` on."""

    def __init__(self, size: int, offset: int) -> None:
        super().__init__(f"{size} bytes are stored, the data begins at {offset}")
        self.size = size


class _Cut(NamedTuple):
    """`kept` bytes are the stream's, `size` is what there is with the last line."""

    kept: int
    size: int


class Spool:
    """Safe to use from any thread. Errors of the disk are StoreError. `limit`: bytes kept of a stream, 0 = all."""

    def __init__(self, root: Path, limit: int = 0) -> None:
        self._root = root
        self._limit = limit
        self._append_locks = [threading.Lock() for _ in range(_LOCKS)]
        self._lock = threading.Lock()
        self._subscribers: dict[JobId, list[Callable[[bool], None]]] = {}
        self._noted: dict[Path, float] = {}
        self._used: int | None = None
        self._count_at = 0.0
        self._counting = threading.Lock()

    def used(self) -> int | None:
        """Bytes on the disk, as they were lately; None = not known yet. To look at every file takes its time, and is
        done beside whoever asks, the more rarely the longer."""
        if clock.monotonic() >= self._count_at and self._counting.acquire(blocking=False):
            try:
                threading.Thread(target=self._count, name="spool size", daemon=True).start()
            except RuntimeError:  # there is no room for another thread
                self._counting.release()
        return self._used

    def _count(self) -> None:
        try:
            began = clock.monotonic()
            self._used = _size_of(self._root)
            over = clock.monotonic()
            self._count_at = over + max(USED_PERIOD_S, 50 * (over - began))
        finally:
            self._counting.release()

    def append(self, key: PartKey, stream: Stream, offset: int, data: bytes) -> int:
        """The size after it. Raises SpoolGap; on a full disk what did fit is kept and StoreError raised. What comes
        for a stream that was cut is passed over."""
        path = self._path(key, stream)
        with self._append_locks[hash((key, stream)) % _LOCKS]:
            try:
                size = self._append(path, offset, data)
            except OSError as error:
                raise in_words(path, error) from error
        self._wake(key.job_id, False)
        return size

    def _append(self, path: Path, offset: int, data: bytes) -> int:
        descriptor = self._open(path)
        try:
            size = os.fstat(descriptor).st_size
            cut = _cut_of(path)
            if cut is not None:
                return self._write_mark(descriptor, size, cut)
            if offset > size:
                raise SpoolGap(size, offset)
            fresh = memoryview(data)[size - offset :]
            if fresh:
                self._note(path, size)
            if not fresh or not self._limit or size + len(fresh) <= self._limit:
                return _write(descriptor, size, fresh)
            size = _write(descriptor, size, fresh[: max(0, self._limit - size)])
            return self._write_mark(descriptor, size, _make_cut(path, descriptor, size))
        finally:
            os.close(descriptor)

    def _write_mark(self, descriptor: int, size: int, cut: _Cut) -> int:
        """The last line of a stream that was cut, or what is missing of it."""
        mark = MARK.format(cut.kept).encode().rjust(cut.size - cut.kept, b"\n")
        return _write(descriptor, size, memoryview(mark)[size - cut.kept :])

    def _note(self, path: Path, offset: int) -> None:
        """Before the bytes are there: one without a row would count as older than it is."""
        now = clock.now()
        if abs(now - self._noted.get(path, 0.0)) >= moments.PERIOD_S:
            self._noted[path] = now
            moments.note(path, now, offset)

    def cut(self, key: PartKey, stream: Stream) -> bool:
        """The limit was reached and the last line is there: nothing more of this stream will be kept."""
        cut = _cut_of(self._path(key, stream))
        return cut is not None and self.size(key, stream) == cut.size

    def has(self, key: PartKey, stream: Stream, size: int) -> bool:
        """All that will ever be kept of a stream of that size."""
        cut = _cut_of(self._path(key, stream))
        return self.size(key, stream) >= size if cut is None else self.size(key, stream) == cut.size

    def _open(self, path: Path) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            return os.open(path, flags, 0o600)
        except FileNotFoundError:
            for folder in (self._root, path.parent.parent, path.parent):
                folder.mkdir(mode=0o700, exist_ok=True)
            return os.open(path, flags, 0o600)

    def size(self, key: PartKey, stream: Stream) -> int:
        path = self._path(key, stream)
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise in_words(path, error) from error

    def read(self, key: PartKey, stream: Stream, offset: int, limit: int) -> bytes:
        """At most `limit` bytes from `offset` on; b"" at the end, and where nothing was ever written."""
        path = self._path(key, stream)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise in_words(path, error) from error
        try:
            return os.pread(descriptor, limit, offset)
        except OSError as error:
            raise in_words(path, error) from error
        finally:
            os.close(descriptor)

    def since(self, key: PartKey, stream: Stream, at: float) -> int:
        """Where the bytes begin that came at `at` or later (or a few seconds before); the end, if none did."""
        path = self._path(key, stream)
        try:
            offset = moments.since(path, at)
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise in_words(path, error) from error
        size = self.size(key, stream)
        return size if offset is None else min(offset, size)

    def tail(self, key: PartKey, stream: Stream, lines: int) -> int:
        """Where the last `lines` lines begin; one that has no end yet counts."""
        end = self.size(key, stream)
        if lines >= end:
            return 0  # none is shorter than a byte
        last = True
        while end > 0 and lines > 0:
            start = max(0, end - _BLOCK)
            block = self.read(key, stream, start, end - start)
            place = len(block) - (last and block.endswith(b"\n"))
            last = False
            while lines > 0 and (place := block.rfind(b"\n", 0, place)) >= 0:
                lines -= 1
                if not lines:
                    return start + place + 1
            end = start
        return end

    def sync(self, key: PartKey) -> None:
        """Both streams are on the disk when it returns: to be called before the part is stored as collected, since
        the node's copy may be removed after that."""
        for stream in _SUFFIX:
            path = self._path(key, stream)
            self._noted.pop(path, None)
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise in_words(path, error) from error

    def jobs(self) -> list[JobId]:
        """Those of which there is any."""
        try:
            names = [entry.name for entry in os.scandir(self._root)]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise in_words(self._root, error) from error
        return sorted(JobId(int(name)) for name in names if name.isascii() and name.isdigit())

    def forget(self, job_id: JobId) -> None:
        """All output of that job, of which no more will come."""
        folder = self._root / f"{job_id:d}"
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            return
        except OSError as error:
            raise in_words(folder, error) from error

    def subscribe(self, job_id: JobId, callback: Callable[[bool], None]) -> None:
        """`callback` is called, in the thread of whoever brings the news, at each append (with False) and each `notify`
        (True): it must be quick and must not raise."""
        with self._lock:
            self._subscribers.setdefault(job_id, []).append(callback)

    def unsubscribe(self, job_id: JobId, callback: Callable[[bool], None]) -> None:
        with self._lock, suppress(KeyError, ValueError):
            self._subscribers[job_id].remove(callback)
            if not self._subscribers[job_id]:
                del self._subscribers[job_id]

    def notify(self, job_id: JobId) -> None:
        """Something about that job has changed: wake its readers."""
        self._wake(job_id, True)

    def _wake(self, job_id: JobId, changed: bool) -> None:
        with self._lock:
            callbacks = tuple(self._subscribers.get(job_id, ()))
        for callback in callbacks:
            callback(changed)

    def _path(self, key: PartKey, stream: str) -> Path:
        """Made of numbers alone: no text from outside becomes part of a path."""
        return self._root / f"{key.job_id:d}" / f"{key.attempt:d}" / f"{key.rank:d}.{_SUFFIX[stream]}"


def _write(descriptor: int, size: int, data: memoryview) -> int:
    """The size after all of it is written."""
    while data:
        written = os.write(descriptor, data)
        size += written
        data = data[written:]
    return size


def _size_of(folder: Path) -> int:
    """Of all files below it; what goes or comes meanwhile counts or not."""
    total, folders = 0, [os.fspath(folder)]
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_size
    return total


def _cut_link(path: Path) -> Path:
    return path.with_name(f"{path.name}.cut")


def _cut_of(path: Path) -> _Cut | None:
    try:
        kept, _, size = str(_cut_link(path).readlink()).partition(":")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise in_words(path, error) from error
    return _Cut(int(kept), int(size))


def _make_cut(path: Path, descriptor: int, kept: int) -> _Cut:
    """Of a stream of which `kept` bytes are there. The mark gets a line of its own."""
    in_a_line = kept > 0 and os.pread(descriptor, 1, kept - 1) != b"\n"
    cut = _Cut(kept, kept + in_a_line + len(MARK.format(kept)))
    _cut_link(path).symlink_to(f"{cut.kept}:{cut.size}")
    sync_path(path.parent)
    return cut


def sync_path(path: Path) -> None:
    """A file, or what a folder names, is on the disk when this returns. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def in_words(path: Path, error: OSError) -> StoreError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreError(f"{path}: no space left for output", "make room: what is missing is fetched again by itself")
    return StoreError(f"{path}: {error.strerror}")
