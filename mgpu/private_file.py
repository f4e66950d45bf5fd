"""A file for us alone, that is there whole or not at all: keys, tokens, what others could make use of."""

from __future__ import annotations

import os

from mgpu.lean.context import suppress


def write(path: str | os.PathLike[str], data: bytes, mode: int = 0o600) -> None:
    """In the place of what was there, and on the disk when this returns. Nobody else ever sees any of it, whatever the
    umask is. Raises OSError, and then what was there is there still."""
    folder, name = os.path.split(os.fspath(path))
    beside = os.path.join(folder, f".{name}.{os.urandom(4).hex()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)  # a umask may have taken some of it
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise
