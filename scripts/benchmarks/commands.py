"""Single commands on an idle node: what a person at the terminal waits for."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event
from time import monotonic, time

from scripts.benchmarks.cluster import Cluster
from scripts.benchmarks.measure import NEW_SSH, OURS, SHARED_SSH, BenchError, Row, Run, Series, ratio, run, wait_until
from scripts.benchmarks.slurm import NAME as SLURM
from scripts.benchmarks.slurm import Slurm

LOOK_AGAIN_S = 5.2  # an observation older than 5 s is not good enough to give GPUs out
BIG_B = 200_000_000


def in_turn(repeats: int, *programs: Callable[[], Run]) -> list[list[Run]]:
    """Each of them once, then again: a busy moment of the machine falls on all alike. The first round is for warmth."""
    rounds = [[program() for program in programs] for _ in range(repeats + 1)][1:]
    return [list(runs) for runs in zip(*rounds, strict=True)]


def walls(runs: list[Run]) -> Series:
    return Series([one.wall_s for one in runs])


def cpus(runs: list[Run]) -> Series:
    return Series([one.cpu_s for one in runs])


def first_bytes(runs: list[Run]) -> Series:
    return Series([one.first_byte_s for one in runs if one.first_byte_s is not None])


def srun(cluster: Cluster, repeats: int) -> list[Row]:
    """`srun -- true` beside ssh, and Slurm's."""
    programs = [
        lambda: cluster.ssh("true"),
        lambda: cluster.ssh("true", shared=True),
        lambda: cluster.mgpu("srun", "--gpus", "1", "--", "true"),
        lambda: cluster.mgpu("srun", "--gpus", "0", "--", "true"),
    ]
    if (slurm := cluster.slurm) is not None:
        programs.append(lambda: slurm.run("srun", "--gres=gpu:1", "true"))
    runs = in_turn(repeats, *programs)
    cold, shared, one, none, *theirs = (walls(each) for each in runs)
    topic = "`srun -- true`"
    return [
        Row("`ssh node true`, new connection", cold.values, topic=topic, who=NEW_SSH),
        Row("`ssh node true`, shared connection", shared.values, topic=topic, who=SHARED_SSH),
        *(Row("Slurm: `srun true` (1 GPU)", each.values, topic=topic, who=SLURM) for each in theirs),
        Row("`mgpu srun -- true` (1 GPU)", one.values, goal=100.0, topic=topic),
        Row("`mgpu srun --gpus 0 -- true`", none.values),
        ratio("srun, 1 GPU / ssh, new connection", one, cold, goal=0.5),
        ratio("srun, no GPU / ssh, new connection", none, cold),
        ratio("srun, 1 GPU / ssh, shared connection", one, shared),
        Row("CPU of `mgpu srun -- true` (1 GPU)", cpus(runs[2]).values),
    ]


def srun_after_a_pause(cluster: Cluster, repeats: int) -> list[Row]:
    """When the node was not looked at for a while, it is probed before a GPU is given out."""

    def paused() -> Run:
        Event().wait(LOOK_AGAIN_S)
        return cluster.mgpu("srun", "--gpus", "1", "--", "true")

    ours, cold = in_turn(repeats, paused, lambda: cluster.ssh("true"))
    return [
        Row("`mgpu srun -- true` (1 GPU), last look over 5 s ago", walls(ours).values),
        ratio("the same / ssh, new connection", walls(ours), walls(cold)),
    ]


def first_line(cluster: Cluster, repeats: int) -> list[Row]:
    """Until the first byte of output is here, from the start of the program that asks for it."""
    echo = ("sh", "-c", "echo x; sleep 0.3")  # it must come while the job runs, not with its end
    ssh, ours = in_turn(repeats, lambda: cluster.ssh(*_quoted(echo)), lambda: cluster.mgpu("srun", "--", *echo))
    return [
        Row("first byte of `ssh node COMMAND`, new connection", first_bytes(ssh).values),
        Row("first byte of `mgpu srun -- COMMAND`", first_bytes(ours).values),
        ratio("first byte, srun / ssh", first_bytes(ours), first_bytes(ssh)),
    ]


def _quoted(words: tuple[str, ...]) -> tuple[str, ...]:
    return (f"{words[0]} {words[1]} '{words[2]}'",)


def submit(cluster: Cluster, repeats: int) -> list[Row]:
    """A batch job: the node shares this machine's clock, so its own stamp of the first command can be compared."""
    taken, spent, begun, read = Series(), Series(), Series(), Series()
    for _ in range(repeats):
        began, wall_began = monotonic(), time()
        asked = cluster.mgpu("--json", "submit", "--", "sh", "-c", "date +%s.%N; sleep 0.3")
        job_id = str(json.loads(asked.output)["job_id"])
        before_logs = monotonic() - began
        logs = cluster.mgpu("logs", "-f", job_id)
        if logs.first_byte_s is None:
            raise BenchError(f"job {job_id} has no output")
        taken.add(asked.wall_s)
        spent.add(asked.cpu_s)
        begun.add(float(logs.output) - wall_began)
        read.add(before_logs + logs.first_byte_s)
    topic = "submit to first command"
    theirs = submit_to_slurm(cluster.slurm, min(repeats, 5)) if cluster.slurm else []
    return [
        Row("`mgpu submit`", taken.values),
        Row("CPU of `mgpu submit`", spent.values),
        Row("start of `mgpu submit` to the job's first command", begun.values, goal=150.0, topic=topic),
        *(Row("start of `sbatch` to the job's first command", theirs, topic=topic, who=SLURM) for _ in theirs[:1]),
        Row("the same to its first line out of a `mgpu logs -f` begun after it", read.values),
    ]


def submit_to_slurm(slurm: Slurm, repeats: int) -> list[float]:
    told = slurm.folder / "told"
    begun = []
    for _ in range(repeats):
        told.unlink(missing_ok=True)
        began = time()
        slurm.run("sbatch", "--gres=gpu:1", "-o", str(told), "--wrap", "date +%s.%N")
        wait_until("the job of Slurm", lambda: told.exists() and told.stat().st_size > 0)
        begun.append(float(told.read_text()) - began)
    return begun


def cancel(cluster: Cluster, repeats: int) -> list[Row]:
    """From the start of `mgpu cancel` until the job's process is gone from the node, and until its GPU is free."""
    gone, free, returned = Series(), Series(), Series()
    for number in range(repeats):
        job_id = cluster.submit("sleep", f"864{number:02}")
        process = _sleeping(f"864{number:02}")
        began = monotonic()
        returned.add(run(cluster.mgpu_words("cancel", str(job_id)), cluster.env).wall_s)
        _wait_for_end(process)
        gone.add(monotonic() - began)
        _wait_for_state(cluster, job_id, "CANCELLED")
        free.add(monotonic() - began)
    topic = "cancel to process gone"
    theirs = cancel_in_slurm(cluster.slurm, min(repeats, 5)) if cluster.slurm else []
    return [
        Row("`mgpu cancel`", returned.values),
        Row("start of `mgpu cancel` to the job's process gone", gone.values, goal=50.0, topic=topic),
        *(Row("start of `scancel` to the job's process gone", theirs, topic=topic, who=SLURM) for _ in theirs[:1]),
        Row("the same to the job CANCELLED and its GPU free", free.values),
    ]


def cancel_in_slurm(slurm: Slurm, repeats: int) -> list[float]:
    gone = []
    for number in range(repeats):
        wrap = ("--gres=gpu:1", "-o", "/dev/null", "--wrap", f"exec sleep 863{number:02}")
        job_id = slurm.run("sbatch", "--parsable", *wrap).output.decode().strip()
        process = _sleeping(f"863{number:02}")
        began = monotonic()
        slurm.run("scancel", job_id)
        _wait_for_end(process)
        gone.append(monotonic() - began)
    return gone


def _wait_for_end(process: Path) -> None:
    wait_until("its end", lambda: not process.exists(), pause_s=0.001)


def _wait_for_state(cluster: Cluster, job_id: int, state: str) -> None:
    wait_until(f"job {job_id} {state}", lambda: cluster.job(job_id)["state"] == state, pause_s=0.005)


def _sleeping(seconds: str) -> Path:
    """The job's process, as this machine sees it, once it is there."""
    wanted = f"sleep\0{seconds}\0".encode()
    found: list[Path] = []

    def look() -> bool:
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (place / "cmdline").read_bytes() == wanted:
                    found.append(place)
        return bool(found)

    wait_until("the job's process", look)
    return found[0]


def big_output(cluster: Cluster, repeats: int) -> list[Row]:
    """200 MB, each read through a pipe to the last byte."""
    node = cluster.lab.nodes[0]
    node.run(f"head -c {BIG_B} /dev/urandom >big")
    programs = [
        lambda: cluster.mgpu("srun", "--", "sh", "-c", "cat ~/big", keep=False),
        lambda: cluster.ssh("cat big", shared=True, keep=False),
        lambda: cluster.ssh("cat big", keep=False),
    ]
    if (slurm := cluster.slurm) is not None:
        (slurm.folder / "big").write_bytes(os.urandom(BIG_B))
        programs.append(lambda: slurm.run("srun", "cat", str(slurm.folder / "big"), keep=False))
    ours, shared, cold, *theirs = in_turn(repeats, *programs)
    if any(one.size != BIG_B for runs in (ours, shared, cold, *theirs) for one in runs):
        raise BenchError("not all of the output came")
    topic = "200 MB of output"

    def row(what: str, runs: list[Run], who: str = OURS) -> Row:
        return Row(what, [BIG_B / 2**20 / one.wall_s for one in runs], "MiB/s", 1.0, topic=topic, who=who)

    part = [cold_s / our_s for cold_s, our_s in ((walls(cold).median, walls(ours).median),)]
    return [
        row("200 MB through `ssh node cat`, new connection", cold, NEW_SSH),
        row("200 MB through `ssh node cat`, shared connection", shared, SHARED_SSH),
        *(row("200 MB through Slurm's `srun cat`", runs, SLURM) for runs in theirs),
        row("200 MB through `mgpu srun -- cat`", ours),
        Row("its rate, as a part of ssh's (new connection)", part, "", 1.0, 0.5, least=True),
    ]


def interpreter(cluster: Cluster, repeats: int) -> list[Row]:
    """What no command in Python can be quicker than."""
    (runs,) = in_turn(repeats, lambda: run([sys.executable, "-c", "pass"], cluster.env))
    return [Row("CPU of `python -c pass`", cpus(runs).values), Row("`python -c pass`", walls(runs).values)]
