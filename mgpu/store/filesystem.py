"""Where a database may live: SQLite's write-ahead log needs memory shared between processes, which no network file
system gives, and file locks there are a matter of luck."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path, PurePath

NETWORK_TYPES = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "coda", "ceph", "lustre", "gpfs", "beegfs", "pvfs2"}
    | {"glusterfs", "orangefs", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.s3fs"}
)


def network_type(path: Path) -> str:
    """The type of the network file system that holds `path`, "" if it is local or cannot be told."""
    try:
        mounts = Path("/proc/self/mounts").read_text("utf-8", "surrogateescape")
    except OSError:
        return ""
    kind = type_of(path.resolve(), mounts)
    return kind if kind in NETWORK_TYPES else ""


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


def type_of(path: PurePath, mounts: str) -> str:
    """The type in `mounts` (text of /proc/self/mounts) of the deepest mount point above `path`; of two mounts on one
    point the later covers the earlier."""
    found, depth = "", -1
    for line in mounts.splitlines():
        words = line.split(" ")
        if len(words) < 3:
            continue
        point = PurePath(_unescape(words[1]))
        if len(point.parts) >= depth and (point == path or point in path.parents):
            found, depth = words[2], len(point.parts)
    return found


def _unescape(word: str) -> str:
    """Blanks and backslashes of a mount point are written as octal there."""
    for code, sign in ((r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", "\\")):
        word = word.replace(code, sign)
    return word
