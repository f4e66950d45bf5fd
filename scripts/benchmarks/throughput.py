"""How quickly many jobs that do nothing go through a cluster, and what each costs; beside Slurm and GNU parallel."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from scripts.benchmarks.cluster import Cluster
from scripts.benchmarks.measure import BenchError, Row, run, wait_until
from scripts.benchmarks.probes import cpu_of
from scripts.benchmarks.slurm import NAME as SLURM
from scripts.benchmarks.slurm import Slurm
from scripts.benchmarks.spent import Group

FEW, MANY = 1000, 5000
GOAL = 100.0  # jobs a second
NODE_GOAL_MS = 6.0  # of CPU for a job
BY_PARALLEL = (("new connections", False, 60), ("shared connections", True, 300))


@dataclass(frozen=True)
class Drained:
    """Seconds: from the first submission to the last end, until all were submitted, and CPU of both sides."""

    whole: float
    submitting: float
    head: float | None
    nodes: float | None


def throughput(cluster: Cluster, repeats: int) -> list[Row]:
    few, many = (FEW, MANY) if repeats > 1 else (FEW // 10, MANY // 10)
    spread = f"{len(cluster.lab.nodes)} x {cluster.lab.nodes[0].plan.gpus} GPUs"
    rows = []
    with nodes_of(cluster) as group:
        for count, how, submit in (
            (few, "in an array", lambda: as_array(cluster, few)),
            (few, "one by one", lambda: one_by_one(cluster, few)),
            (many, "one by one", lambda: one_by_one(cluster, many)),
        ):
            done = drained(cluster, count, submit, group)
            rows += told(f"{count:,} one-GPU no-op jobs on {spread}, submitted {how}", count, done)
    if cluster.slurm is not None:
        rows += by_slurm(cluster.slurm, few, many)
    return [*rows, *by_parallel(cluster, few=repeats == 1)]


def topic_of(count: int) -> str:
    return f"{count:,} no-op jobs"


def told(what: str, count: int, done: Drained) -> list[Row]:
    rows = [
        Row(f"{what}: rate", [count / done.whole], "jobs/s", 1.0, GOAL, least=True, topic=topic_of(count)),
        Row("until all were submitted", [done.submitting], "s", 1.0),
    ]
    if done.head is not None:
        rows.append(Row("CPU of the master for each", [done.head / count], topic="CPU of the head for a job"))
    if done.nodes is not None:
        each = [done.nodes / count]
        rows.append(Row("CPU of the nodes for each", each, goal=NODE_GOAL_MS, topic="CPU of the nodes for a job"))
    return rows


class nodes_of:
    """All that runs on the lab's nodes from now on is counted."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def __enter__(self) -> Group:
        self._group = Group("nodes")
        self._group.add(process.pid for node in self._cluster.lab.nodes for process in node.pids())
        return self._group

    def __exit__(self, *_error: object) -> None:
        self._group.remove()


def drained(cluster: Cluster, count: int, submit: Callable[[], str], group: Group) -> Drained:
    """`submit` gives the name of its jobs. All of them have to have done well."""
    pid = cluster.pid()
    head, nodes = cpu_of(pid), group.cpu_s()
    began = monotonic()
    name = submit()
    submitting = monotonic() - began
    wait_until("an empty queue", lambda: cluster.active() == 0, pause_s=0.05, limit_s=300)
    whole, after = monotonic() - began, group.cpu_s()
    head = cpu_of(pid) - head
    found = cluster.call("GET", f"/v1/jobs?scope=ended&name={name}&limit={2 * count}")["jobs"]
    states = Counter(job["state"] for job in found)
    if states != {"COMPLETED": count}:
        raise BenchError(f"of {count} jobs there are {dict(states)}")
    return Drained(whole, submitting, head, None if nodes is None or after is None else after - nodes)


def one_by_one(cluster: Cluster, count: int) -> str:
    name = f"drain{os.urandom(3).hex()}"
    for _ in range(count):
        cluster.submit("true", job_name=name)
    return name


def as_array(cluster: Cluster, count: int) -> str:
    name = f"drain{os.urandom(3).hex()}"
    cluster.submit("true", job_name=name, array=f"1-{count}")
    return name


# --- others ---------------------------------------------------------------------------------------------------------


def by_slurm(slurm: Slurm, few: int, many: int) -> list[Row]:
    """As arrays: a thousand programs `sbatch` would take longer to start."""
    rows = []
    for count in (few, many):
        head, nodes = slurm.head.cpu_s(), slurm.slurmds.cpu_s()
        began = monotonic()
        slurm.run("sbatch", "--gres=gpu:1", "-o", "/dev/null", "-a", f"1-{count}", "--wrap", "true")
        wait_until("an empty queue of Slurm", lambda: slurm.active() == 0, pause_s=0.2, limit_s=300)
        took = monotonic() - began
        rows.append(
            Row(f"Slurm, the same {count:,}: rate", [count / took], "jobs/s", 1.0, topic=topic_of(count), who=SLURM)
        )
        for what, before, after in (
            ("head", head, slurm.head.cpu_s()),
            ("nodes", nodes, slurm.slurmds.cpu_s()),
        ):
            if before is not None and after is not None:
                topic = f"CPU of the {what} for a job"
                rows.append(Row(f"Slurm: {topic}", [(after - before) / count], topic=topic, who=SLURM))
    return rows


def by_parallel(cluster: Cluster, few: bool) -> list[Row]:
    """As many slots as GPUs; it keeps no queue, no output on disk and knows no GPUs."""
    if shutil.which("parallel", path=cluster.env["PATH"]) is None:
        return []
    hosts = ",".join(f"{node.plan.gpus}/{node.name}" for node in cluster.lab.nodes)
    rows = []
    for how, shared, usual in BY_PARALLEL:
        count = usual // 10 if few else usual
        if shared:
            for node in cluster.lab.nodes:
                run(cluster.ssh_words("true", node=node.name), cluster.env)
        ssh = " ".join(cluster.ssh_head(shared))
        words = ["parallel", "--will-cite", "--ssh", ssh, "-S", hosts, "true", ":::", *map(str, range(count))]
        rate = [count / run(words, cluster.env).wall_s]
        what = f"GNU parallel, {count} such commands, {how}: rate"
        rows.append(Row(what, rate, "jobs/s", 1.0, topic=topic_of(FEW), who=f"GNU parallel, {how}"))
    return rows
