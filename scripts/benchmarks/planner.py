"""What a plan costs: a long queue before a large, busy cluster. No nodes, no SSH, no store: the planner alone."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path
from time import process_time

from mgpu.cli.simulate import cluster, read
from mgpu.core.fairshare import FIFO, FairShare, Ledger
from mgpu.core.memory import Memory
from mgpu.core.model import DeviceUuid, JobId, NodeName, Request
from mgpu.core.plan import DeviceState, DeviceView, NodeView, Owner, PendingJob, Running, Snapshot
from mgpu.core.queue import Queue
from mgpu.core.replay import Rules, replay
from mgpu.core.schedule import plan
from scripts.benchmarks.measure import Row

NODES, GPUS = 1000, 8
KINDS, USERS = 300, 50  # of requests
FREE = 0.005  # of the GPUs
NOW = 1_000_000.0
LOG = "MGPU_BENCH_LOG"  # a job log for `mgpu simulate`; its time is only measured where one is named
LOG_GPUS = 100


def planner(_cluster: object, repeats: int) -> list[Row]:
    """CPU time of whole passes. The first of a master knows nothing; later ones remember what requests mean."""
    rows = []
    for waiting, goal_ms in ((10_000, 150.0), (100_000, 1000.0)):
        first, again = [], []
        for seed in range(max(1, repeats)):
            seen, ledger = busy(waiting, seed)
            memory = Memory()
            first.append(_pass(seen, ledger, memory, 0.0))
            again.append(_pass(seen, ledger, memory, 30.0))
        what = f"CPU of a plan: {waiting:,} jobs waiting, {NODES:,} nodes of {GPUS} GPUs"
        rows += [Row(f"{what}, the first", first, goal=goal_ms), Row(f"{what}, each later one", again, goal=goal_ms)]
    if path := os.environ.get(LOG):
        rows += [_log(path, "in order of submission", FIFO), _log(path, "in the default order", FairShare())]
    return rows


def busy(waiting: int, seed: int) -> tuple[Snapshot, Ledger]:
    """Nearly all GPUs are held by jobs of one GPU; those who wait ask for 1 to 64, in KINDS of requests and limits."""
    dice = random.Random(seed)
    users = [Owner(f"user{number}") for number in range(USERS)]
    ledger = Ledger(FairShare(), NOW - 86_400)
    views: list[NodeView] = []
    running: list[Running] = []
    for number in range(NODES):
        name, devices = NodeName(f"node{number:04}"), []
        for index in range(GPUS):
            uuid = DeviceUuid(f"GPU-{number}-{index}")
            device = DeviceView(uuid, index, "NVIDIA A100", "", 81_920, DeviceState.FREE)
            if dice.random() >= FREE:
                job = JobId(1_000_000 + len(running))
                state, words = DeviceState.ALLOCATED, f"held by job {job}"
                device = device._replace(state=state, reason=words, job_id=job)
                running.append(Running(job, NOW + dice.uniform(0, 90_000), ((name, (uuid,)),)))
                ledger.change(dice.choice(users), 1, NOW - dice.uniform(0, 86_000))
            devices.append(device)
        views.append(NodeView(name, True, "", tuple(devices), jobs=GPUS))
    kinds = [
        (Request(gpus=dice.choice((1, 1, 1, 2, 4, 8, 16, 32, 64))), dice.choice((600.0, 3600.0, 14_400.0, 86_400.0)))
        for _ in range(KINDS)
    ]
    queue = Queue()
    for number in range(waiting):
        request, span_s = dice.choice(kinds)
        owner, came = dice.choice(users), NOW - dice.uniform(0, 500_000)
        queue.put(PendingJob(JobId(number + 1), owner.user, request, 0, came, span_s=span_s, owner=owner))
    batches, later = queue.at(NOW)
    return Snapshot(NOW, tuple(views), batches, later, running=tuple(running)), ledger


def _pass(seen: Snapshot, ledger: Ledger, memory: Memory, later_s: float) -> float:
    began = process_time()
    now = seen.now + later_s
    order = ledger.order({batch.owner for batch in seen.batches}, now)
    plan(replace(seen, now=now, order=order), memory=memory)
    return process_time() - began


def _log(path: str, how: str, order: FairShare) -> Row:
    jobs = read(path)
    began = process_time()
    for _ in replay(jobs, cluster(f"1x{LOG_GPUS}"), Rules(fair=order)):
        pass
    what = f"CPU of a replay of {Path(path).name} ({len(jobs):,} jobs) on {LOG_GPUS} GPUs, {how}"
    return Row(what, [process_time() - began], "s", 1.0, goal=10.0)
