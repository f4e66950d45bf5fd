"""Takes memory on the first GPU that is visible and computes there, with nothing but the driver's own library.

Run as a file: `python load.py MIB SECONDS`. Says `on UUID` once the memory is there. The calls are those of the CUDA
driver API (cuda.h); a fill of the memory is the work.
"""

from __future__ import annotations

import ctypes
import sys
import time


def check(status: int, what: str) -> None:
    if status:
        sys.exit(f"{what}: CUDA error {status}")


def main() -> None:
    mib, seconds = int(sys.argv[1]), float(sys.argv[2])
    cuda = ctypes.CDLL("libcuda.so.1")
    check(cuda.cuInit(0), "cuInit")
    device = ctypes.c_int()
    check(cuda.cuDeviceGet(ctypes.byref(device), 0), "cuDeviceGet")
    uuid = (ctypes.c_ubyte * 16)()
    check(cuda.cuDeviceGetUuid(uuid, device), "cuDeviceGetUuid")
    context = ctypes.c_void_p()
    check(cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device), "cuCtxCreate")
    memory = ctypes.c_uint64()
    size = mib << 20
    check(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(size)), "cuMemAlloc")
    text = bytes(uuid).hex()
    print("on GPU-" + "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:])), flush=True)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        check(cuda.cuMemsetD8_v2(memory, ctypes.c_ubyte(1), ctypes.c_size_t(size)), "cuMemsetD8")
        check(cuda.cuCtxSynchronize(), "cuCtxSynchronize")
        time.sleep(0.005)


main()
