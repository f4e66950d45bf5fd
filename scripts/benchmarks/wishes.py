"""What people ask of a master with many jobs: many submissions, a long list, the end of all of it; beside Slurm."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

from scripts.benchmarks.cluster import Cluster
from scripts.benchmarks.commands import cpus, in_turn, walls
from scripts.benchmarks.measure import ROOT, BenchError, Row, Run, Series, run, wait_until
from scripts.benchmarks.slurm import NAME as SLURM
from scripts.benchmarks.slurm import Slurm

FEW, MANY = 1000, 10_000
CLIENTS, EACH = 4, 15
QUEUE_GOALS_MS = {FEW: 70.0, MANY: 120.0}


def wishes(cluster: Cluster, repeats: int) -> list[Row]:
    """Nearly all jobs wait for all GPUs of a node, one of which is taken."""
    hold_one_on_each(cluster)
    rows = commands_at_once(cluster)
    rows += arrays(cluster, repeats)
    rate = fill(cluster, FEW)
    rows.append(Row(f"submissions by {CLIENTS} processes through the Python API", [rate], "/s", 1.0, 300.0, least=True))
    rows += listed(cluster, FEW, repeats)
    rows += cancelled(cluster, min(repeats, 3))
    many_wait(cluster, MANY)
    rows += listed(cluster, MANY, repeats)
    began = monotonic()
    cluster.mgpu("cancel", "--state", "PENDING")
    rows.append(Row(f"`mgpu cancel` of {MANY:,} that wait", [monotonic() - began], "s", 1.0))
    cluster.cancel_all()
    return rows


def hold_one_on_each(cluster: Cluster) -> None:
    """A GPU of each node is taken, so that jobs which want all of a node's wait."""
    nodes = cluster.lab.nodes
    for node in nodes:
        cluster.submit("sleep", "3600", nodelist=node.name)
    wait_until("a job on each node", lambda: cluster.call("GET", "/v1/status")["queue"]["RUNNING"] == len(nodes))


def many_wait(cluster: Cluster, count: int) -> None:
    cluster.submit_many(count, "true", gpus=str(cluster.lab.nodes[0].plan.gpus))


def fill(cluster: Cluster, count: int) -> float:
    """So many jobs that wait, by processes that submit one after the other; how many there were a second."""
    words = [sys.executable, "-m", "scripts.benchmarks.submitter", str(cluster.lab.config_path)]
    gpus = str(cluster.lab.nodes[0].plan.gpus)
    env = {**cluster.env, "PYTHONPATH": str(ROOT)}

    def submit(number: int) -> Run:
        return run([*words, str(cluster.lab.state_dir), str(count // CLIENTS), f"fill{number}", gpus], env, limit_s=300)

    with ThreadPoolExecutor(CLIENTS) as pool:
        told = [json.loads(one.output) for one in pool.map(submit, range(CLIENTS))]
    began, ended = min(one["began"] for one in told), max(one["ended"] for one in told)
    return float(count / (ended - began))


def listed(cluster: Cluster, count: int, repeats: int) -> list[Row]:
    """Our CPU time, since a terminal has a core to itself; Slurm's wall time is beside it."""
    programs: list[Callable[[], Run]] = [lambda: cluster.mgpu("queue")]
    slurm, job_id = cluster.slurm, ""
    if slurm is not None:
        wrap = ("--gres=gpu:1", "-H", "-o", "/dev/null", "-a", f"1-{count}", "--wrap", "true")
        job_id = slurm.run("sbatch", "--parsable", *wrap).output.decode().strip()
        programs.append(lambda: slurm.run("squeue", "-r"))
    ours, *theirs = in_turn(repeats, *programs)
    for runs in (ours, *theirs):
        if (lines := runs[-1].output.count(b"\n")) < count:
            raise BenchError(f"{lines} lines of {count} jobs are shown")
    topic = f"list of {count:,} jobs"
    rows = [
        Row(f"CPU of `mgpu queue`, {count:,} jobs wait", cpus(ours).values, goal=QUEUE_GOALS_MS[count], topic=topic),
        Row(f"`mgpu queue`, {count:,} jobs wait", walls(ours).values),
    ]
    for runs in theirs:
        rows.append(Row(f"`squeue`, {count:,} jobs wait", walls(runs).values, topic=topic, who=SLURM))
        rows.append(Row("CPU of it", cpus(runs).values))
    if slurm is not None:
        slurm.run("scancel", job_id)
    return rows


def cancelled(cluster: Cluster, repeats: int) -> list[Row]:
    """All that wait, by one command; until it returns, and nothing of them is left in the queue."""
    topic = "cancel of 1,000 that wait"
    ours, theirs = Series(), Series()
    for number in range(repeats):
        if number:
            many_wait(cluster, FEW)
        ours.add(cluster.mgpu("cancel", "--state", "PENDING").wall_s)
        if cluster.call("GET", "/v1/status")["queue"]["PENDING"]:
            raise BenchError("not all of them were cancelled")
        if cluster.slurm is not None and not number:
            _queue_in_slurm(cluster.slurm, FEW)
            theirs.add(cluster.slurm.run("scancel", "--state=PENDING", "--user=root").wall_s)
    rows = [Row(f"`mgpu cancel` of {FEW:,} that wait", ours.values, "s", 1.0, 0.5, topic=topic)]
    if theirs.values:
        rows.append(Row(f"`scancel` of {FEW:,} that wait", theirs.values, "s", 1.0, topic=topic, who=SLURM))
    return rows


def _queue_in_slurm(slurm: Slurm, count: int) -> None:
    """Jobs of their own, as ours are: one shell starts all these commands."""
    loop = 'i=0; while [ $i -lt "$0" ]; do sbatch -Q -H -o /dev/null --wrap true; i=$((i + 1)); done'
    slurm.run("sh", "-c", loop, str(count), keep=False)


def arrays(cluster: Cluster, repeats: int) -> list[Row]:
    topic = "array of 1,000 submitted"

    def ours() -> Run:
        return cluster.mgpu("submit", "--hold", "-J", "wide", "-a", f"1-{FEW}", "--", "true")

    programs: list[Callable[[], Run]] = [ours]
    slurm = cluster.slurm
    if slurm is not None:
        programs.append(lambda: slurm.run("sbatch", "-H", "-o", "/dev/null", "-a", f"1-{FEW}", "--wrap", "true"))
    own, *theirs = in_turn(min(repeats, 6), *programs)
    cluster.mgpu("cancel", "--name", "wide")
    rows = [Row(f"`mgpu submit -a 1-{FEW}`", walls(own).values, goal=80.0, topic=topic)]
    for runs in theirs:
        rows.append(Row(f"`sbatch -a 1-{FEW}`", walls(runs).values, topic=topic, who=SLURM))
    if slurm is not None:
        slurm.run("scancel", "--user=root")
    return rows


def commands_at_once(cluster: Cluster) -> list[Row]:
    """Separate commands, each a program of its own, by so many shells at once."""
    topic = f"commands that submit, by {CLIENTS} at once"
    words = cluster.mgpu_words("submit", "--hold", "-J", "apart", "--", "true")
    rate = _rate(words, cluster.env)
    cluster.mgpu("cancel", "--name", "apart")
    rows = [Row(f"`mgpu submit` by {CLIENTS} shells", [rate], "/s", 1.0, 25.0, least=True, topic=topic)]
    if cluster.slurm is not None:
        rate = _rate(["sbatch", "-Q", "-H", "-o", "/dev/null", "--wrap", "true"], cluster.slurm.env)
        rows.append(Row(f"`sbatch` by {CLIENTS} shells", [rate], "/s", 1.0, topic=topic, who=SLURM))
        cluster.slurm.run("scancel", "--user=root")
    return rows


def _rate(words: list[str], env: dict[str, str]) -> float:
    loop = 'i=0; while [ $i -lt "$0" ]; do "$@" || exit; i=$((i + 1)); done'
    began = monotonic()
    quiet = subprocess.DEVNULL
    shells = [
        subprocess.Popen(["sh", "-c", loop, str(EACH), *words], env=env, stdin=quiet, stdout=quiet)
        for _ in range(CLIENTS)
    ]
    ended = [shell.wait() for shell in shells]
    if any(ended):
        raise BenchError(f"{words[0]} failed")
    return CLIENTS * EACH / (monotonic() - began)
