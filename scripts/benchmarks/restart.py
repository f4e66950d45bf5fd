"""A master that was killed while hundreds of jobs run: until its successor has all of them in hand again."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from threading import Event
from time import monotonic

from mgpu.client.http import MasterError
from scripts.benchmarks.cluster import Cluster
from scripts.benchmarks.measure import Row, wait_until

RUNNING = 500
GONE_S = 3.0
CANARY = "while [ ! -e ~/go ]; do sleep 0.1; done"


def restart(cluster: Cluster, repeats: int) -> list[Row]:
    """On each node one job ends while no master is there. One question tells of all jobs of a node, so whoever knows
    of that end has asked after all the others."""
    running = RUNNING if repeats > 1 else RUNNING // 10
    nodes = cluster.lab.nodes
    small = {"gpus": "0", "mem": "1", "cpus_per_task": "0"}
    for _ in range(running):
        cluster.submit("sleep", "3600", **small)
    wait_until("all of them to run", lambda: _state(cluster, "RUNNING") == running, 0.2, 180.0)
    took = []
    for _ in range(min(repeats, 3)):
        canaries = [cluster.submit("sh", "-c", CANARY, nodelist=node.name, **small) for node in nodes]
        wait_until("one more on each node", lambda: _state(cluster, "RUNNING") == running + len(nodes), 0.1)
        os.kill(cluster.pid(), signal.SIGKILL)
        for node in nodes:
            node.run("touch go")
        Event().wait(GONE_S)
        for node in nodes:
            node.run("rm go")
        took.append(_until_known(cluster, canaries))
    return [
        Row(f"from the start of a master to {running} jobs on {len(nodes)} nodes in hand again", took, "s", 1.0, 3.0)
    ]


def _until_known(cluster: Cluster, ended: list[int]) -> float:
    began = monotonic()
    quiet = subprocess.DEVNULL
    starter = subprocess.Popen(cluster.mgpu_words("nodes"), env=cluster.env, stdin=quiet, stdout=quiet, stderr=quiet)

    def known() -> bool:
        with suppress(MasterError):
            return all(cluster.job(job_id)["state"] == "COMPLETED" for job_id in ended)
        return False

    wait_until("the ends that nobody saw", known)
    took = monotonic() - began
    starter.wait()
    return took


def _state(cluster: Cluster, state: str) -> int:
    return int(cluster.call("GET", "/v1/status")["queue"][state])
