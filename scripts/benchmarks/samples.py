"""What it costs to keep what GPUs do: a hundred nodes of eight GPUs, all of them held. No SSH: a store alone."""

from __future__ import annotations

import random
import tempfile
from dataclasses import replace
from pathlib import Path
from time import monotonic, process_time

from mgpu.config.model import Config
from mgpu.core.model import (
    Attempt,
    AttemptState,
    Command,
    CommandForm,
    DeviceUuid,
    Job,
    JobId,
    JobKind,
    JobSpec,
    JobState,
    NodeName,
    Part,
    Request,
)
from mgpu.core.observation import GpuReading, Observation
from mgpu.core.plan import DeviceState, DeviceView, NodeView
from mgpu.master.board import Board
from mgpu.master.inbox import Probed
from mgpu.master.sampling import Sampler
from mgpu.master.worker import SystemThreads
from mgpu.store.store import Store
from scripts.benchmarks.measure import Row
from tests.clocks import HandClock

NODES, GPUS = 100, 8
MINUTES = 30
PAUSE_S = 30.0


def samples(_cluster: object, _repeats: int) -> list[Row]:
    """Half an hour of looks, two a minute: what passes and the thread that stores it have to do, and its size."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(Path(folder) / "mgpu.db")
        try:
            return _measure(store)
        finally:
            store.close()


def _measure(store: Store) -> list[Row]:
    clock, dice = HandClock(1_800_000_000.0), random.Random(1)
    views = [_node(store, number, clock.now()) for number in range(NODES)]
    with store.read() as reader:
        board = Board.read(reader)
    sampler = Sampler(store, Config(None, ()), SystemThreads(), clock)
    all_at_once, alone, storing = [], [], []
    for look in range(2 * MINUTES):
        clock.passed += PAUSE_S
        seen = [_look(view, clock.now(), dice) for view in views]
        began = process_time()
        if look % 2:
            sampler.follow(seen, board, views)
            all_at_once.append(process_time() - began)
        else:
            for one in seen:
                sampler.follow([one], board, views)
            alone.append((process_time() - began) / NODES)
        if look % 2:
            started = monotonic()
            sampler.store()
            storing.append(monotonic() - started)
    with store.read() as reader:
        count, size = reader.driver.execute("SELECT count(*), sum(length(entries)) FROM samples").fetchone()
    what = f"{NODES} nodes of {GPUS} GPUs"
    return [
        Row(f"CPU of a pass for samples: {what} answer at once", all_at_once, goal=20),
        Row("the same, one node answers", alone, goal=1),
        Row(f"storing a minute of {what}, beside the passes", storing, goal=200),
        Row("a row of a node and a bucket", [size / count], "bytes", 1.0),
    ]


def _node(store: Store, number: int, now: float) -> NodeView:
    """Two GPUs for each of four jobs."""
    name, devices = NodeName(f"node{number:03}"), []
    command = Command(CommandForm.ARGV, ("true",))
    spec = JobSpec(command, Request(gpus=2), "x", JobKind.BATCH)
    for first in range(0, GPUS, 2):
        with store.write() as writer:
            job = Job(JobId(0), f"{number}-{first}", "ann", 1000, spec, JobState.RUNNING, now, attempt=1)
            job_id, _ = writer.add_job(job)
            uuids = tuple(DeviceUuid(f"GPU-{number:08}-{index}") for index in (first, first + 1))
            part = Part(job_id, 1, 0, name, "", (first, first + 1), uuids, AttemptState.RUNNING)
            tried = Attempt(job_id, 1, "", AttemptState.RUNNING, now)
            writer.add_attempt(tried, [replace(part, started=now)])
        held = DeviceState.ALLOCATED
        devices += [DeviceView(uuid, first + at, "A100", "", 81_920, held, "", job_id) for at, uuid in enumerate(uuids)]
    return NodeView(name, True, "", tuple(devices))


def _look(view: NodeView, now: float, dice: random.Random) -> Probed:
    gpus = tuple(
        GpuReading(one.index, one.uuid, "", "A100", 81_920, dice.randrange(81_920), dice.randrange(101))
        for one in view.devices
    )
    return Probed(view.name, Observation(view.name, now, "boot", view.name, gpus))
