"""`scripts/gpu-check`: what mgpu says of real GPUs, against what nvidia-smi and the GPUs themselves say."""

from __future__ import annotations

import argparse
import shutil
import sys
import time

from scripts.gpucheck.harness import Failed, made, smi
from scripts.gpucheck.multinode import multinode
from scripts.gpucheck.single import single


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/gpu-check", description=__doc__)
    parser.add_argument("--ssh", metavar="HOST[:PORT]", default="", help="reach this machine by SSH, not directly")
    parser.add_argument("--trust", action="store_true", help="accept the host key that it shows")
    parser.add_argument(
        "--multinode",
        action="store_true",
        help="make two nodes of this machine, each with half of its GPUs behind an sshd of its own, and add up over "
        "both (needs sshd, and torchrun with PyTorch for CUDA)",
    )
    words = parser.parse_args()
    if not shutil.which("nvidia-smi"):
        print("no nvidia-smi here: this is for a machine with NVIDIA GPUs", file=sys.stderr)
        return 2
    names = sorted({f"{name}, driver {driver}" for name, driver in smi("name,driver_version")})
    print(time.strftime("%Y-%m-%d"), len(smi("index")), "x", "; ".join(names))
    try:
        if words.multinode:
            multinode()
            return _held()
        host, _, port = words.ssh.partition(":")
        with made(
            f"nodes: [{{node_id: here, hostname: {host}, ssh: {{port: {port or 22}}}}}]\n" if host else ""
        ) as check:
            if words.trust:
                print(check.mgpu("node", "trust", "here", "--yes").strip())
            single(check)
    except Failed as failure:
        print(f"FAILED {failure}", flush=True)
        return 1
    return _held()


def _held() -> int:
    print("all held")
    return 0


sys.exit(main())
