"""Many jobs: a long queue, and a queue that drains."""

from __future__ import annotations

import json
import sys
from time import monotonic

from scripts.benchmarks.cluster import Cluster
from scripts.benchmarks.commands import cpus, in_turn, walls
from scripts.benchmarks.measure import BenchError, Row, Series, ratio, run, wait_until

PENDING = 1000
DRAINED = 100


def long_queue(cluster: Cluster, repeats: int) -> list[Row]:
    """All GPUs are taken, and a thousand jobs wait for one."""
    gpus = sum(node.plan.gpus for node in cluster.lab.nodes)
    cluster.occupy(gpus)
    began = monotonic()
    for _ in range(PENDING):
        cluster.submit("true")
    each = (monotonic() - began) / PENDING
    shown = json.loads(cluster.mgpu("--json", "queue").output)["jobs"]
    if len(shown) != PENDING + gpus:
        raise BenchError(f"the queue shows {len(shown)} jobs, not {PENDING + gpus}")
    bare, ours = in_turn(
        repeats,
        lambda: run([sys.executable, "-c", "pass"], cluster.env),
        lambda: cluster.mgpu("queue"),
    )
    cluster.cancel_all()
    return [
        Row(f"CPU of `mgpu queue`, {PENDING} jobs waiting", cpus(ours).values, goal=100),
        Row(f"`mgpu queue`, {PENDING} jobs waiting", walls(ours).values),
        ratio("CPU, `mgpu queue` / `python -c pass`", cpus(ours), cpus(bare)),
        Row(f"one submission of {PENDING} in a row, straight to the master", [each]),
    ]


def drain(cluster: Cluster, repeats: int) -> list[Row]:
    """One-GPU jobs that do nothing, handed straight to the master one after the other."""
    submitting, whole = Series(), Series()
    for _ in range(repeats):
        began = monotonic()
        jobs = [cluster.submit("true") for _ in range(DRAINED)]
        submitting.add(monotonic() - began)
        wait_until("an empty queue", lambda: cluster.active() == 0, pause_s=0.05, limit_s=90)
        whole.add(monotonic() - began)
        states = {cluster.job(job_id)["state"] for job_id in jobs}
        if states != {"COMPLETED"}:
            raise BenchError(f"jobs ended as {', '.join(sorted(states))}")
    gpus = sum(node.plan.gpus for node in cluster.lab.nodes)
    return [
        Row(f"{DRAINED} one-GPU no-op jobs on {gpus} GPUs: first submission to last end", whole.values, "s", 1.0),
        Row("of that, submitting them", submitting.values, "s", 1.0),
        Row("the same as a rate", [DRAINED / value for value in whole.values], "jobs/s", 1.0),
    ]
