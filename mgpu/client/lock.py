"""The lock of a state directory: one master at a time, for life. The kernel drops it when its holder dies, so a file
that a dead master left behind means nothing. Asking who holds it costs no more than this module."""

from __future__ import annotations

import fcntl
import os

from mgpu.client.http import MasterError
from mgpu.lean.context import contextmanager, suppress
from mgpu.lean.typing import Iterator

HANDED_ON = "MGPU_LOCK"  # the number of a descriptor: a master that runs itself anew never lets go of its lock


class AlreadyRunning(MasterError):
    """Another master holds it."""

    def __init__(self, path: str, holder: str) -> None:
        super().__init__(
            "already_running",
            f"another master holds {path}: {holder}",
            "`mgpu status` asks it, `mgpu stop` ends it",
            69,
        )


def lock_path(state_dir: str | os.PathLike[str]) -> str:
    return os.path.join(state_dir, "lock")


@contextmanager
def master_lock(state_dir: str | os.PathLike[str]) -> Iterator[int]:
    """Held until the block ends, by the descriptor that it gives. Raises AlreadyRunning, naming who holds it."""
    path = lock_path(state_dir)
    try:
        descriptor = _handed_on(path) or _opened(path)
    except OSError as error:
        raise MasterError("store", f"cannot write {path}: {error.strerror}", "name another --state-dir") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunning(path, _holder(descriptor)) from None
        with suppress(OSError):  # on a full disk the lock holds as well, it only does not say whose it is
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"pid {os.getpid()}\n".encode(), 0)
        yield descriptor
    finally:
        os.close(descriptor)


def _opened(path: str) -> int:
    """One that root makes is of whoever has the folder, whose master is to hold it next. Raises OSError."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags | os.O_EXCL, 0o600)
    except FileExistsError:
        return os.open(path, flags, 0o600)
    if os.geteuid() == 0:
        folder = os.stat(os.path.dirname(path) or ".")
        os.fchown(descriptor, folder.st_uid, folder.st_gid)
    return descriptor


def hand_on(descriptor: int) -> None:
    """To the program that this process runs next."""
    os.set_inheritable(descriptor, True)
    os.environ[HANDED_ON] = str(descriptor)


def _handed_on(path: str) -> int:
    """The descriptor of that file which we were given, 0 = none."""
    number = os.environ.pop(HANDED_ON, "")
    if not number.isdigit() or int(number) < 3:
        return 0
    descriptor = int(number)
    try:
        ours, there = os.fstat(descriptor), os.stat(path)
        if (ours.st_dev, ours.st_ino) != (there.st_dev, there.st_ino):
            return 0
        os.set_inheritable(descriptor, False)
    except OSError:
        return 0
    return descriptor


def is_held(state_dir: str | os.PathLike[str]) -> bool:
    """Whether a master lives there, or one is just beginning or ending."""
    try:
        descriptor = os.open(lock_path(state_dir), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _holder(descriptor: int) -> str:
    return os.pread(descriptor, 64, 0).decode("ascii", "replace").strip() or "a process that does not say"
