#!/usr/bin/env python3
"""Tries several settings, a job for each, and prints what came of them as they end.

    python samples/sweep.py                       # on whatever GPUs are free
    python samples/sweep.py --gpus 0              # without a GPU, to see what it does
    MGPU_MASTER=ssh://you@head python samples/sweep.py

It runs where you sit and needs mgpu alone. What it runs on the nodes is TRAIN: put your own training there.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from datetime import timedelta

from mgpu import Client, Job

NAME = "sweep"
# A script, as it would stand in a file. It needs no Python there; yours would be: exec python train.py --lr "$1" ...
TRAIN = """#!/bin/sh
awk -v lr="$1" -v width="$2" 'BEGIN {
    loss = 1
    for (step = 0; step < 50; step++) loss -= lr * loss * (1 - width / 1000)
    printf "loss %.4f\\n", loss
}'
"""


def main() -> int:
    parser = argparse.ArgumentParser(description="Tries several settings, a job for each.")
    parser.add_argument("--gpus", type=int, default=1, help="of each job (1)")
    asked = parser.parse_args()
    settings = list(itertools.product((0.01, 0.03, 0.1), (64, 256)))
    with Client() as client:
        made = client.submit_many(
            [(TRAIN, {"args": each, "job_name": NAME}) for each in settings],
            gpus=asked.gpus,
            time=timedelta(minutes=10),
        )
        tried = {job.job_id: each for job, each in zip(made, settings, strict=True)}
        print(f"{len(made)} jobs: {made[0]} to {made[-1]}")
        results = []
        try:
            for job in client.as_ended(made):
                results.append((loss_of(client, job), *tried[int(job.job_id)], job))
                print(job.ending, flush=True)
        except KeyboardInterrupt:
            client.cancel(states=["PENDING", "RUNNING"], me=True, name=NAME)
            raise
    print(f"\n{'LOSS':>8}  {'LR':>6}  {'WIDTH':>6}  JOB  ON")
    for loss, lr, width, job in sorted(results, key=lambda row: row[0]):
        where = ",".join(part.node for part in job.allocation)
        print(f"{loss:8.4f}  {lr:6g}  {width:6}  {job.job_id}  {where}")
    return 0 if all(job.succeeded for *_, job in results) else 1


def loss_of(client: Client, job: Job) -> float:
    """The last that it printed; infinite if there is none."""
    losses = [line.split()[1] for line in client.logs(job).decode().splitlines() if line.startswith("loss ")]
    return float(losses[-1]) if losses else float("inf")


if __name__ == "__main__":
    sys.exit(main())
