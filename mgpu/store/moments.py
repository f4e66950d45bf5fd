"""When the bytes of a stream came, to the nearest few seconds: what `--since` is answered from.

Beside a stream's file stands `<name>.times`: a row of (time, offset), both as eight bytes, one for each span of
PERIOD_S in which anything came. The bytes from one row's offset to the next one's came within PERIOD_S of its time. So
the index of a job that writes all day is a quarter of a megabyte, one that writes now and then costs some bytes, and
nothing has to be parsed out of the output itself. A time is that of the head node's clock at which it had the bytes:
what was written while nobody fetched it came late.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from pathlib import Path

PERIOD_S = 5.0
_ROW = struct.Struct(">dQ")
_ROWS_AT_ONCE = 4096


def _index(path: Path) -> Path:
    return path.with_name(f"{path.name}.times")


def note(path: Path, at: float, offset: int) -> None:
    """From `offset` on, what comes now. It is a help, no more: where it cannot be written the output goes on."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    with suppress(OSError):
        descriptor = os.open(_index(path), flags, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            os.pwrite(descriptor, _ROW.pack(at, offset), size - size % _ROW.size)  # over what a full disk cut short
        finally:
            os.close(descriptor)


def since(path: Path, at: float) -> int | None:
    """Where the bytes begin that came at `at` or later, or some seconds before; None = none did. Raises OSError."""
    try:
        index = _index(path).open("rb")
    except FileNotFoundError:
        # of a master that kept no index: all of it, or nothing
        return 0 if path.stat().st_mtime >= at else None
    with index:
        while rows := index.read(_ROWS_AT_ONCE * _ROW.size):
            whole = memoryview(rows)[: len(rows) - len(rows) % _ROW.size]
            for time, offset in _ROW.iter_unpack(whole):
                if time + PERIOD_S > at:
                    return int(offset)
    return None
