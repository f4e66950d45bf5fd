"""A thousand submissions by fifty processes at once, with the master killed in the middle: none lost, none doubled."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from time import monotonic, sleep

from mgpu.client.http import MasterError
from scripts.benchmarks.cluster import Cluster
from scripts.benchmarks.measure import ROOT, BenchError, Row, run

PROCESSES, EACH = 50, 20
Told = list[tuple[int, float]]  # number of a job, and how long its submission took


def submits(cluster: Cluster, _repeats: int) -> list[Row]:
    rows = []
    for what, submit in (("client processes", by_client(cluster)), ("`mgpu submit`", by_command(cluster))):
        for killed in (False, True):
            rows += at_once(cluster, what, submit, killed)
    return rows


def by_client(cluster: Cluster) -> Callable[[str], Told]:
    words = [sys.executable, "-m", "scripts.benchmarks.submitter", str(cluster.lab.config_path)]
    env = {**cluster.env, "PYTHONPATH": str(ROOT)}

    def submit(name: str) -> Told:
        told = json.loads(run([*words, str(cluster.lab.state_dir), str(EACH), name], env).output)
        return [(job_id, took) for job_id, took in told["jobs"]]

    return submit


def by_command(cluster: Cluster) -> Callable[[str], Told]:
    def submit(name: str) -> Told:
        told = []
        for number in range(EACH):
            one = cluster.mgpu("--json", "submit", "--hold", "-J", f"{name}-{number}", "--", "true")
            told.append((int(json.loads(one.output)["job_id"]), one.wall_s))
        return told

    return submit


def at_once(cluster: Cluster, what: str, submit: Callable[[str], Told], killed: bool) -> list[Row]:
    began = monotonic()
    with ThreadPoolExecutor(PROCESSES + 1) as pool:
        running = [pool.submit(submit, f"p{number}") for number in range(PROCESSES)]
        killer = pool.submit(kill_in_the_middle, cluster) if killed else None
        told = [one for each in running for one in each.result()]
        if killer is not None:
            killer.result()
    took = monotonic() - began
    check(cluster, [job_id for job_id, _ in told])
    cluster.cancel_all()
    who = f"{PROCESSES * EACH:,} submissions by {PROCESSES} {what} at once" + (", master killed" if killed else "")
    return [
        Row(f"{who}: all answered", [took], "s", 1.0),
        Row(f"{who}: each", [one for _, one in told]),
        Row(f"{who}: lost, doubled", [0.0], "", 1.0, goal=0.0),
    ]


def kill_in_the_middle(cluster: Cluster) -> None:
    """Twice: when a third and when two thirds are there."""
    for part in (1 / 3, 2 / 3):
        while True:
            sleep(0.05)
            with suppress(MasterError):
                status = cluster.call("GET", "/v1/status")
                if sum(status["queue"].values()) >= part * PROCESSES * EACH:
                    break
        os.kill(int(status["pid"]), signal.SIGKILL)


def check(cluster: Cluster, told: list[int]) -> None:
    """Each answer names another job, and these are all there are, each of its own name."""
    listed = cluster.call("GET", "/v1/jobs?scope=active")["jobs"]
    names = Counter(job["name"] for job in listed)
    if sorted(told) != sorted(job["job_id"] for job in listed):
        raise BenchError(f"{len(set(told))} of {len(told)} answers are of different jobs, and {len(listed)} are there")
    if len(names) != PROCESSES * EACH or max(names.values()) > 1:
        raise BenchError(f"{len(names)} names for {len(listed)} jobs")
