"""What kind of file system holds a folder, and why a database cannot live on some.

SQLite's write-ahead log needs memory that all who use it share, and locks that are what they are called. File systems
of a network have neither; what another machine or a program keeps for us may have, and nobody tells.
"""

from __future__ import annotations

import os

_NETWORK = (
    "nfs", "cifs", "smb", "ncpfs", "afs", "coda", "lustre", "gpfs", "beegfs", "ceph", "glusterfs", "orangefs", "pvfs2",
    "panfs", "wekafs", "ocfs2", "gfs2", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.s3fs", "fuse.gcsfuse",
    "fuse.juicefs", "fuse.rclone", "fuse.davfs", "davfs",
)  # fmt: skip
_OF_ANOTHER_MACHINE = ("9p", "virtiofs", "vboxsf", "prl_fs", "fuse.vmhgfs-fuse", "drvfs")  # the one that runs this one
_LOCAL_FUSE = (
    "fuse.fuse-overlayfs", "fuse.mergerfs", "fuse.gocryptfs", "fuse.encfs", "fuse.cryfs", "fuse.bindfs", "fuse.ntfs",
    "fuse.exfat", "fuse.zfs", "fuse.lxcfs",
)  # fmt: skip


def why_unfit(kind: str) -> str:
    """Words for what a database cannot live on, "" = it can there, as far as anybody knows."""
    if kind.startswith(_NETWORK):
        return f"on a network file system ({kind})"
    if kind.startswith(_OF_ANOTHER_MACHINE):
        return f"on a file system of the machine that runs this one ({kind})"
    if kind == "fuse" or (kind.startswith("fuse.") and not kind.startswith(_LOCAL_FUSE)):
        return f"on a file system that another program keeps ({kind})"
    return ""


def file_system_of(path: str, mounts: str = "/proc/self/mountinfo") -> str:
    """The type of the file system that holds `path` (or would: its nearest parent), "" if the kernel does not say. Of
    two mounts on one point the later covers the earlier."""
    real = os.path.realpath(path)
    best, kind = -1, ""
    try:
        with open(mounts, encoding="utf-8", errors="surrogateescape") as lines:
            for line in lines:
                left, _, right = line.partition(" - ")
                point = _unescaped(left.split(" ")[4])
                inside = real == point or real.startswith(point.rstrip("/") + "/")
                if inside and len(point) >= best:
                    best, kind = len(point), right.split(" ")[0]
    except (OSError, IndexError):
        return ""
    return kind


def _unescaped(point: str) -> str:
    """Blanks, tabs, line ends and backslashes are written as octal there."""
    for code, sign in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        point = point.replace(code, sign)
    return point
