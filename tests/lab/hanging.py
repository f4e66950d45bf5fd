"""A directory that hangs whoever looks into it, as one on a file server that has gone: FUSE that answers nothing but
the greeting. Needs root."""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# linux/fuse.h: fuse_in_header {len, opcode, unique, nodeid, uid, gid, pid, padding},
# fuse_out_header {len, error, unique}
IN_HEADER = struct.Struct("=IIQQIIII")
OUT_HEADER = struct.Struct("=IiQ")
INIT = 26
# fuse_init_out {major, minor, max_readahead, flags, max_background u16, congestion u16, max_write, time_gran,
# unused[9]}
INIT_OUT = struct.Struct("=IIIIHHII36x")
MNT_DETACH = 2


def can_hang() -> bool:
    return os.geteuid() == 0 and Path("/dev/fuse").exists()


@contextmanager
def hanging(folder: Path) -> Iterator[Path]:
    """Mounts it at `folder`; when it is left, all who hang there are let go with an error."""
    libc = ctypes.CDLL(None, use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
    if libc.mount(b"mgpu-hang", os.fsencode(folder), b"fuse", 0, options.encode()):
        os.close(device)
        raise OSError(ctypes.get_errno(), "mount")
    greeter = threading.Thread(target=_greet, args=(device,))
    greeter.start()
    try:
        yield folder
    finally:
        libc.umount2(os.fsencode(folder), MNT_DETACH)
        with suppress(OSError):
            os.close(device)
        greeter.join(10)


def _greet(device: int) -> None:
    """Answers the first request, and keeps nothing open: closing the device ends what hangs."""
    request = os.read(device, 1 << 16)
    _, opcode, unique, *_ = IN_HEADER.unpack_from(request)
    assert opcode == INIT
    body = INIT_OUT.pack(7, 31, 0, 0, 12, 9, 4096, 1)
    os.write(device, OUT_HEADER.pack(OUT_HEADER.size + len(body), 0, unique) + body)
