"""`mgpu top` on a terminal: how soon it answers a key, what looking on costs, how soon news is on the screen."""

from __future__ import annotations

import subprocess
from threading import Event
from time import monotonic

from scripts.benchmarks.cluster import Cluster
from scripts.benchmarks.foreground import Typed
from scripts.benchmarks.measure import BenchError, Row, Series, wait_until
from scripts.benchmarks.probes import cpu_of, memory_of, memory_since

PENDING = 2000
SCREEN = (48, 160)
IDLE_S = 30.0
KEYS = 40
DOWN, UP = b"j", b"k"


def monitor(cluster: Cluster, repeats: int) -> list[Row]:
    """A long queue on a large terminal. Keys while one node's nvidia-smi hangs as well."""
    gpus = sum(node.plan.gpus for node in cluster.lab.nodes)
    cluster.occupy(gpus)
    for _ in range(PENDING):
        cluster.submit("true", job_name="wait")
    before = memory_of(cluster)
    keys = KEYS if repeats > 2 else 5
    with Typed(cluster.mgpu_words("top"), cluster.env, SCREEN, "xterm-256color", b"q") as top:
        _until_it_shows(top, b"wait")
        calm = [top.answer(key, "a key is not answered") for key in (DOWN, UP) * (keys // 2)]
        cluster.lab.nodes[-1].fault("gpu", "hang")
        probe = _probe(cluster)
        hanging = [top.answer(key, "a key is not answered") for key in (DOWN, UP) * (keys // 2)]
        cluster.lab.nodes[-1].fault("gpu", "ok")
        probe.wait(120)
        idle_s = IDLE_S if repeats > 2 else 5.0
        spent, master = cpu_of(top.pid), cpu_of(cluster.pid())
        _look_on(top, idle_s)
        spent = cpu_of(top.pid) - spent
        master = cpu_of(cluster.pid()) - master
        news = Series()
        for number in range(repeats):
            news.add(_shown(top, cluster, f"fresh{number}"))
    cluster.cancel_all()
    rows = PENDING + gpus
    return [
        Row(f"`mgpu top`, {rows} jobs: from a key to the first of its answer", calm, goal=100),
        Row("the same while a node hangs", hanging, goal=100),
        Row("`mgpu top` with nothing pressed: share of a core", [spent / idle_s], "%", 100.0, goal=2),
        Row("the master meanwhile", [master / idle_s], "%", 100.0),
        Row("from a job's submission to its name on the screen", news.values),
        *memory_since(before, cluster),
    ]


def _until_it_shows(top: Typed, text: bytes) -> None:
    seen = bytearray()

    def shown() -> bool:
        seen.extend(top.read(0.1))
        return text in seen

    wait_until("the monitor to be drawn", shown)
    Event().wait(1.0)


def _look_on(top: Typed, seconds: float) -> None:
    """A terminal that takes nothing would hold it up."""
    until = monotonic() + seconds
    while (left := until - monotonic()) > 0:
        top.read(left)


def _shown(top: Typed, cluster: Cluster, name: str) -> float:
    top.drain()
    cluster.submit("true", job_name=name, priority="1000")
    began, seen = monotonic(), bytearray()
    while name.encode() not in seen:
        if monotonic() - began > 20.0:
            raise BenchError(f"{name} does not appear on the screen")
        seen.extend(top.read(0.1))
    return monotonic() - began


def _probe(cluster: Cluster) -> subprocess.Popen[bytes]:
    """A look at the node that hangs is under way from now on."""
    words = cluster.mgpu_words("node", "probe", cluster.lab.nodes[-1].name)
    quiet = subprocess.DEVNULL
    return subprocess.Popen(words, env=cluster.env, stdin=quiet, stdout=quiet, stderr=quiet)
