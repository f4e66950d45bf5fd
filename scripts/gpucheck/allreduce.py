"""Every rank adds up what all have, over NCCL, and says what came of it: `torchrun ... allreduce.py SECONDS`.

A line a rank: `rank R of N on UUID: sum S, B GB/s`. Then it holds its memory and goes on adding for SECONDS.
"""

from __future__ import annotations

import os
import sys
import time

import torch
import torch.distributed as dist

MIB = 256


def main() -> None:
    seconds = float(sys.argv[1])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    mine = torch.full((MIB << 18,), float(rank + 1), device="cuda")
    total = mine.clone()
    dist.all_reduce(total)
    wanted = world * (world + 1) / 2
    if not bool((total == wanted).all()):
        sys.exit(f"rank {rank}: the sum is {total[0].item()}, not {wanted}")
    uuid = torch.cuda.get_device_properties(torch.cuda.current_device()).uuid
    # of a ring: each byte is sent and received 2 (n - 1) / n times
    speed = 2 * (world - 1) / world * (MIB << 20) / timed(mine) / 1e9
    print(f"rank {rank} of {world} on GPU-{uuid}: sum {total[0].item():g}, {speed:.1f} GB/s", flush=True)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        dist.all_reduce(mine.clone())
        torch.cuda.synchronize()
    dist.destroy_process_group()


def timed(mine: torch.Tensor) -> float:
    """Seconds of one all-reduce, of ten in a row."""
    for warm in (True, False):
        began = time.monotonic()
        for _ in range(2 if warm else 10):
            dist.all_reduce(mine.clone())
        torch.cuda.synchronize()
    return (time.monotonic() - began) / 10


main()
