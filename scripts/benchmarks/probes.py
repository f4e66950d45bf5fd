"""What a probe costs the node: node.sh run there without SSH, its CPU time taken from the kernel."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path
from threading import Event
from time import monotonic

from mgpu.client import http
from mgpu.core.smi.gpus import FIELDS
from mgpu.remote import wire
from scripts.benchmarks.cluster import Cluster
from scripts.benchmarks.measure import BenchError, Row, Series, limited
from scripts.benchmarks.wishes import hold_one_on_each, many_wait

MARK = "bench"
LONG = 10_000
# the lab's driver refuses that one once, as old ones do
KNOWN = tuple(field for field in FIELDS if field != "gpu_recovery_action")


def probe(cluster: Cluster, repeats: int) -> list[Row]:
    """The lab's nvidia-smi is a shell script; the same with one that does nothing shows what is mgpu's own."""
    script = str(cluster.lab.nodes[0].smi_path())
    rows = []
    for what, smi in (("a probe of 4 GPUs", script), ("the same without nvidia-smi", "/bin/true")):
        wall, cpu = Series(), Series()
        for _ in range(repeats):
            idle, busy = _session(cluster, []), _session(cluster, [smi] * 5)
            wall.add(max(0.0, busy[0] - idle[0]) / 5)
            cpu.add(max(0.0, busy[1] - idle[1]) / 5)
        rows += [Row(f"on the node: {what}", wall.values), Row(f"CPU on the node: {what}", cpu.values)]
    return rows


def _session(cluster: Cluster, probes: list[str]) -> tuple[float, float]:
    """(wall, CPU) seconds of a shell that serves these probes and ends."""
    node = cluster.lab.nodes[0]
    words, env = node.command(["sh", "-c", wire.login_command(MARK)], node.user)
    fields = f"20 {','.join(KNOWN)} 0 - 10"
    requests = "".join(f"{number} probe {wire.encode(smi)} {fields}\n" for number, smi in enumerate(probes))
    began = monotonic()
    child = subprocess.Popen(words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert child.stdin is not None
    assert child.stdout is not None
    with limited(child), child.stdin, child.stdout:
        child.stdin.write(wire.program() + requests.encode())
        child.stdin.close()
        answer = child.stdout.read()
        _pid, status, usage = os.wait4(child.pid, 0)
        wall = monotonic() - began
        child.returncode = os.waitstatus_to_exitcode(status)
    if answer.count(f"{MARK} ".encode()) < 1 + len(probes) or b" end ok" not in answer:
        raise BenchError(f"the node's half does not answer: {answer[-300:]!r}")
    return wall, usage.ru_utime + usage.ru_stime


def idle_master(cluster: Cluster, seconds: float = 5.0) -> list[Row]:
    """CPU and memory of a master that has nothing to do."""
    pid = cluster.pid()
    before = cpu_of(pid)
    Event().wait(seconds)
    share = (cpu_of(pid) - before) / seconds
    return [
        Row("an idle master: share of a core", [share], "%", 100.0),
        Row("an idle master: memory", [memory_of(cluster)], "MiB", 1 / 1024),
    ]


def memory_of(cluster: Cluster) -> float:
    """KiB of the master that are in memory."""
    pid = cluster.pid()
    lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("VmRSS")))


def idle_passes(cluster: Cluster, seconds: float = 10.0) -> list[Row]:
    """Passes of a master with nothing to do, as it counts them itself."""
    before = _passes(cluster)
    Event().wait(seconds)
    after = _passes(cluster)
    count = after["count"] - before["count"]
    if not count:
        return []
    within = (after['bucket{le="0.001"}'] - before['bucket{le="0.001"}']) / count
    return [
        Row("a pass of an idle master, mean", [(after["sum"] - before["sum"]) / count]),
        Row(f"of {count:.0f} such passes, within 1 ms", [within], "%", 100.0),
    ]


def _passes(cluster: Cluster) -> dict[str, float]:
    response = http.request(cluster.endpoint, "GET", "/metrics")
    http.raise_for_error(response)
    name = "mgpu_tick_duration_seconds_"
    lines = [line for line in response.body.decode().splitlines() if line.startswith(name)]
    return {key: float(value) for key, value in (line.removeprefix(name).split() for line in lines)}


def memory_since(before: float, cluster: Cluster) -> list[Row]:
    return [
        Row("memory of the master before that", [before], "MiB", 1 / 1024),
        Row("and after", [memory_of(cluster)], "MiB", 1 / 1024),
    ]


def many_nodes(cluster: Cluster, repeats: int, seconds: float = 20.0) -> list[Row]:
    """All nodes looked at anew by one command, nvidia-smi hanging on one, until all the others have answered; then a
    master that has nothing else to do, and one with a long queue."""
    hanging, *others = cluster.lab.nodes
    pid = cluster.pid()
    sweep, cpu = Series(), Series()
    hanging.fault("gpu", "hang")
    try:
        for _ in range(repeats + 1):
            before = cpu_of(pid)
            sweep.add(_sweep(cluster, len(others)))
            cpu.add((cpu_of(pid) - before) / len(others))
    finally:
        hanging.fault("gpu", "ok")
    count = len(cluster.lab.nodes)
    rows = [
        Row(f"`mgpu node probe --all`, {count} nodes, nvidia-smi hanging on one", sweep.values[1:], "s", 1.0, goal=2.0),
        Row("CPU of the master for each of these looks", cpu.values[1:]),
    ]
    idle, memory = idle_master(cluster, seconds)
    hold_one_on_each(cluster)
    many_wait(cluster, LONG)
    return [
        *rows,
        replace(idle, what=f"an idle master of {count} nodes: share of a core", goal=10.0),
        replace(memory, what=f"an idle master of {count} nodes: memory"),
        Row(f"the same with {LONG:,} jobs that wait: memory", [memory_of(cluster) * 1024], "MB", 1e-6, goal=120.0),
    ]


def _sweep(cluster: Cluster, others: int) -> float:
    """Seconds from the start of the command until all nodes but one have answered."""
    began = monotonic()
    child = subprocess.Popen(
        cluster.mgpu_words("node", "probe", "--all"),
        env=cluster.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert child.stdout is not None
    with limited(child), child.stdout:
        lines = [child.stdout.readline() for _ in range(others)]
        took = monotonic() - began
        child.send_signal(signal.SIGINT)  # the one that hangs would take its time
        child.wait()
    wrong = next((line for line in lines if b" free" not in line), None)
    if wrong is not None:
        raise BenchError(f"mgpu node probe --all: {wrong!r}")
    return took


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
