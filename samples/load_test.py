#!/usr/bin/env python3
"""Loads every GPU that a job was given: memory is filled and checked, matrices are multiplied for some seconds.

    mgpu srun -G 1 -- python samples/load_test.py
    mgpu submit --gpus 1 --interactive "python samples/load_test.py --seconds 30"
    mgpu srun --ship -w gpu01 --exclusive -- python samples/load_test.py     # where no files are shared
    python samples/load_test.py --cpu --seconds 1                            # without a GPU, to see what it does

It needs PyTorch where it runs. Exit status: 0 all is well; 1 there is no GPU, or one that computes wrongly.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import time

import torch

BLOCK = 1 << 26  # numbers, 256 MiB


def main() -> int:
    parser = argparse.ArgumentParser(description="Loads every GPU that this job was given.")
    parser.add_argument("--seconds", type=float, default=10.0, help="of load on each GPU (10)")
    parser.add_argument("--size", type=int, default=4096, help="of the matrices (4096)")
    parser.add_argument("--memory", type=float, default=0.5, help="how much of the free memory is filled (0.5)")
    parser.add_argument("--cpu", action="store_true", help="run on the CPU, with small matrices")
    asked = parser.parse_args()
    heading("PyTorch CUDA load test")
    print(f"start time: {time.strftime('%Y-%m-%d %H:%M:%S')}")
    print(f"job {os.environ.get('MGPU_JOB_ID', '-')} on {socket.gethostname()}")
    devices = look_around(asked.cpu)
    if not devices:
        print("no GPU is seen here: is CUDA_VISIBLE_DEVICES set, and PyTorch built for CUDA?", file=sys.stderr)
        return 1
    good = True
    for device in devices:
        heading(f"load on {device}")
        if device.type == "cuda":
            good = fill_memory(device, asked.memory) and good
        good = multiply(device, asked.size if device.type == "cuda" else 256, asked.seconds) and good
    heading("all is well" if good else "THERE WERE FAULTS")
    return 0 if good else 1


def heading(text: str) -> None:
    print(f"\n{'=' * 50}\n{text}\n{'=' * 50}", flush=True)


def look_around(cpu: bool) -> list[torch.device]:
    heading("CUDA environment check")
    print(f"PyTorch version: {torch.__version__}")
    print(f"CUDA available: {torch.cuda.is_available()}")
    print(f"CUDA version: {torch.version.cuda}")
    print(f"CUDA_VISIBLE_DEVICES: {os.environ.get('CUDA_VISIBLE_DEVICES', 'not set')}")
    if cpu:
        return [torch.device("cpu")]
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    print(f"number of available GPUs: {count}")
    for index in range(count):
        facts = torch.cuda.get_device_properties(index)
        print(f"GPU {index}: {facts.name}, {facts.total_memory / 2**30:.1f} GiB")
    return [torch.device("cuda", index) for index in range(count)]


def fill_memory(device: torch.device, part: float) -> bool:
    """So much of what is free is written, in blocks with a number each, and read again once all are there."""
    free, total = torch.cuda.mem_get_info(device)
    count = int(free * part) // (4 * BLOCK)
    blocks = [torch.full((BLOCK,), number, dtype=torch.int32, device=device) for number in range(count)]
    wrong = sum(not bool((block == number).all()) for number, block in enumerate(blocks))
    filled = f"{count * 4 * BLOCK / 2**30:.1f} of {total / 2**30:.1f} GiB"
    print(f"memory: {filled} filled and read, {wrong} blocks wrong", flush=True)
    del blocks
    torch.cuda.empty_cache()
    return wrong == 0


def multiply(device: torch.device, size: int, seconds: float) -> bool:
    """The same product again and again: each has to be that of the first time."""
    generator = torch.Generator(device=device).manual_seed(1)
    left = torch.rand(size, size, device=device, generator=generator)
    right = torch.rand(size, size, device=device, generator=generator)
    expected = left @ right
    wait_for(device)
    began, rounds, wrong = time.perf_counter(), 0, 0
    while time.perf_counter() - began < seconds:
        for _ in range(10):
            product = left @ right
        wrong += not torch.equal(product, expected)
        rounds += 10
    took = time.perf_counter() - began
    rate = 2 * size**3 * rounds / took / 1e12
    print(f"{rounds} products of {size} x {size} in {took:.1f} s: {rate:.2f} TFLOP/s, {wrong} wrong", flush=True)
    return wrong == 0


def wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    sys.exit(main())
