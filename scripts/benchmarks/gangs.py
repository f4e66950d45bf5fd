"""One job on many nodes: from its submission to its last rank's first act, from one rank's death to the end of all."""

from __future__ import annotations

from collections.abc import Callable
from time import time

from mgpu.remote.runner import KILL_GRACE_S
from scripts.benchmarks.cluster import Cluster
from scripts.benchmarks.measure import BenchError, Row, Series, wait_until

SAYS = "date +%s.%N"  # nodes of a lab share this machine's clock
DIES = "[ $MGPU_RANK != {last} ] || { sleep 0.5; date +%s.%N; exit 3; }; {rest}"


def gang(nodes: int, start_goal_s: float) -> Callable[[Cluster, int], list[Row]]:
    def measure(cluster: Cluster, repeats: int) -> list[Row]:
        began, ended, held_on = Series(), Series(), Series()
        for turn in range(repeats):
            began.add(_start(cluster, nodes))
            ended.add(_death(cluster, nodes, "sleep 1000"))
            if turn < 2:
                held_on.add(_death(cluster, nodes, "trap '' TERM; while :; do sleep 0.2; done") - KILL_GRACE_S)
        return [
            Row(f"{nodes} nodes: from `mgpu submit` to all ranks running", began.values, "s", 1.0, start_goal_s),
            Row(f"{nodes} nodes: from a rank's death to the job's end", ended.values, "s", 1.0, 2.0),
            Row(
                f"{nodes} nodes: the same where the others ignore TERM, beyond the grace", held_on.values, "s", 1.0, 2.0
            ),
        ]

    return measure


def _start(cluster: Cluster, nodes: int) -> float:
    submitted = time()
    job_id = _submit(cluster, nodes, SAYS)
    _await_end(cluster, job_id, "COMPLETED")
    times = [float(line) for line in cluster.mgpu("logs", str(job_id)).output.split()]
    if len(times) != nodes:
        raise BenchError(f"{len(times)} of {nodes} ranks said when they began")
    return max(times) - submitted


def _death(cluster: Cluster, nodes: int, rest: str) -> float:
    """Until the master has stored that nothing of it is left on any node."""
    last = nodes - 1
    job_id = _submit(cluster, nodes, DIES.replace("{last}", str(last)).replace("{rest}", rest))
    _await_end(cluster, job_id, "FAILED")
    seen = time()
    died = float(cluster.mgpu("logs", str(job_id), "--rank", str(last)).output)
    job = cluster.job(job_id)
    if job["exit_code"] != 3:
        raise BenchError(f"job {job_id} ended with {job['exit_code']}, not as the rank that died")
    return seen - died


def _submit(cluster: Cluster, nodes: int, command: str) -> int:
    words = ("submit", "--parsable", "-N", str(nodes), "--gpus-per-node", "1", command)
    return int(cluster.mgpu(*words).output)


def _await_end(cluster: Cluster, job_id: int, state: str) -> None:
    """Over once its parts are, and their output is here."""
    wait_until(f"the end of job {job_id}", lambda: cluster.job(job_id)["state"] == state)
