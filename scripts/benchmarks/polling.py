"""Many clients that look at a long queue all the time, and whether that harms anybody."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

from mgpu.core.percentile import percentile
from scripts.benchmarks.cluster import Cluster
from scripts.benchmarks.commands import cpus, walls
from scripts.benchmarks.measure import ROOT, BenchError, Row, Series, limited
from scripts.benchmarks.probes import cpu_of
from scripts.benchmarks.stages import one

WAITING = 10_000
CLIENTS = 200
PERIOD_S = 2.0  # `watch` has that too
SECONDS = 20.0
GOAL_MS = 100.0
ALL = "/v1/jobs?scope=active"


def polling(cluster: Cluster, repeats: int) -> list[Row]:
    """Nearly all jobs wait for a node's GPUs; those that come and go meanwhile have the last of them."""
    fill(cluster)
    quiet = passes(cluster, repeats)
    size = len(json.dumps(cluster.call("GET", ALL)))
    alone = [cluster.mgpu("queue", keep=False) for _ in range(3)]
    rows = [
        Row("the list of them, straight from the master", [timed(lambda: cluster.call("GET", ALL)) for _ in range(3)]),
        Row(f"`mgpu queue`, {WAITING:,} jobs waiting, alone", walls(alone).values),
        Row("CPU of it", cpus(alone).values),
        Row("its answer", [size / 1e6], "MB", 1.0),
        *told_of_passes("", quiet),
        *ticks(cluster, ""),
    ]
    for what, path, way, moving in (
        ("`mgpu queue`, nothing changes", ALL, "command", False),
        ("`mgpu queue`", ALL, "command", True),
        ("`mgpu queue -u USER`", f"{ALL}&user=nobody", "command", True),
        ("connections kept", ALL, "kept", True),
    ):
        rows += crowd(cluster, what, path, way, moving)
    cluster.cancel_all()
    return rows


def timed(function: Callable[[], object]) -> float:
    began = monotonic()
    function()
    return monotonic() - began


def fill(cluster: Cluster) -> None:
    gpus = cluster.lab.nodes[0].plan.gpus
    cluster.occupy(gpus - 1)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: cluster.submit("python", "train.py", gpus=str(gpus)), range(WAITING)))


def crowd(cluster: Cluster, what: str, path: str, way: str, moving: bool) -> list[Row]:
    """`moving`: jobs begin and end all the time, as one who waits for them sees it."""
    pid = cluster.pid()
    words = [*(sys.executable, "-m", "scripts.benchmarks.pollers"), cluster.endpoint.socket_path, path, way]
    load = [str(CLIENTS), str(PERIOD_S), str(SECONDS)]
    busy, began = cpu_of(pid), monotonic()
    child = subprocess.Popen([*words, *load], cwd=ROOT, env=cluster.env, stdout=subprocess.PIPE)
    assert child.stdout is not None
    over = threading.Event()
    with limited(child), child.stdout, ThreadPoolExecutor(1) as pool:
        seen = pool.submit(repeated, cluster, over) if moving else None
        told: dict[str, Any] = json.loads(child.stdout.read() or "{}")
        over.set()
        took, busy = monotonic() - began, cpu_of(pid) - busy
        moments = seen.result() if seen else []
        child.wait()
    if not told or told["failed"]:
        raise BenchError(f"{what}: {told.get('failed', 'all')} of the requests failed")
    late = told["late_s"]
    who = f"{CLIENTS} clients every {PERIOD_S:g} s, {what}"
    return [
        Row(f"{who}: median", [percentile(late, 50)]),
        Row(f"{who}: 99th percentile", [percentile(late, 99)], goal=GOAL_MS),
        Row(f"{who}: longest", [max(late)]),
        Row(f"{who}: the master's share of a core", [busy / took], "%", 100.0),
        Row(f"{who}: that of the clients", [told["cpu_s"] / told["seconds"]], "%", 100.0),
        *told_of_passes(f"{who}: ", moments),
        *ticks(cluster, f"{who}: "),
    ]


def passes(cluster: Cluster, repeats: int) -> list[dict[str, float]]:
    return [one(cluster, priority="1") for _ in range(repeats + 1)][1:]


def repeated(cluster: Cluster, over: threading.Event) -> list[dict[str, float]]:
    found = []
    while not over.wait(0.2):
        found.append(one(cluster, priority="1"))
    return found


def ticks(cluster: Cluster, who: str) -> list[Row]:
    """As the master itself tells of its latest passes."""
    told = cluster.call("GET", "/v1/status")["tick"]
    return [
        Row(f"{who}a pass of the master, median", [told["p50_s"]]),
        Row(f"{who}a pass of the master, 99th percentile", [told["p99_s"]]),
    ]


def told_of_passes(who: str, moments: list[dict[str, float]]) -> list[Row]:
    if not moments:
        return []
    return [
        Row(f"{who}{what}", Series([each[stage] for each in moments]).values)
        for stage, what in (
            ("submitted", "submission of a job to its answer"),
            ("began", "to its first command"),
            ("end", "to its end"),
        )
    ]
