"""A master of a thousand nodes: its passes, with nodes that answer at once and cost nothing. No SSH: what that costs
for each node is measured with a hundred real ones (`many`)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event
from time import monotonic, process_time, thread_time
from typing import Any, NoReturn, cast

from mgpu import clock
from mgpu.config.load import load
from mgpu.config.model import NodeConfig
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
from mgpu.core.observation import RawProbe
from mgpu.core.reconcile import NodeAnswer, PartAnswer, directory_name
from mgpu.master.inbox import Inbox
from mgpu.master.link import NodeLink
from mgpu.master.links import Links
from mgpu.master.master import Master
from mgpu.master.worker import SystemThreads
from mgpu.meters import Contact
from mgpu.remote.errors import RemoteError, Trouble
from mgpu.remote.runner import Runner
from mgpu.store.spool import Spool
from mgpu.store.store import Store
from scripts.benchmarks.measure import BenchError, Row

NODES, GPUS = 1000, 8
SMALL = 8
STEADY_S, SETTLED_S = 20.0, 5.0
BOOT = "boot"
FIRST_LIMIT_S = 120.0


def wide(_cluster: object, repeats: int) -> list[Row]:
    nodes, steady_s = (NODES, STEADY_S) if repeats > 1 else (NODES // 10, 3.0)
    rows = []
    for jobs_a_node in (0, 1, GPUS):
        with tempfile.TemporaryDirectory(prefix="mgpu-bench-") as folder:
            rows += _measure(Path(folder), nodes, jobs_a_node, steady_s)
    return rows


def idle_pass(_cluster: object, _repeats: int) -> list[Row]:
    """Of a master of eight such nodes that has nothing to do."""
    rows = []
    for jobs_a_node in (0, GPUS):
        with tempfile.TemporaryDirectory(prefix="mgpu-bench-") as folder:
            _first, one_pass, _share = _measure(Path(folder), SMALL, jobs_a_node, 0.0)
        what = f"CPU of a pass with nothing to do, {SMALL} nodes, {SMALL * jobs_a_node} jobs run"
        rows.append(replace(one_pass, what=what, goal=1.0))
    return rows


def _measure(folder: Path, nodes: int, jobs_a_node: int, steady_s: float) -> list[Row]:
    store = Store.open(folder / "mgpu.db")
    inventory = folder / "cluster_config.yaml"
    inventory.write_text(f"nodes: [{{node_id: 'node[0001-{nodes:04}]', gpu_count: {GPUS}}}]\n")
    settings = load(inventory)
    tokens = _fill(store, [node.name for node in settings.nodes], jobs_a_node)
    over = Event()

    def links(inbox: Inbox) -> Links:
        def link(node: NodeConfig) -> NodeLink:
            there = cast(Runner, _Node(node.name, tokens, over))
            return NodeLink(node, "train", there, settings.probe_timeout_s, inbox, SystemThreads(), clock)

        return Links({node.name: link(node) for node in settings.nodes})

    master = Master(settings, store, Spool(folder / "spool"), links)
    master.load()
    try:
        return _passes(master, f"{nodes:,} nodes of {GPUS} GPUs, {nodes * jobs_a_node:,} jobs run", steady_s)
    finally:
        over.set()
        master.stop()
        master.close()
        store.close()


def _passes(master: Master, what: str, steady_s: float) -> list[Row]:
    began, cpu = monotonic(), process_time()
    while not master._probing.all_answered:
        master.inbox.wait(min(master.tick(), 0.2))
        if monotonic() - began > FIRST_LIMIT_S:
            raise BenchError("not all nodes have answered")
    first = process_time() - cpu
    _go_on(master, SETTLED_S)
    idle = []
    for _ in range(5):
        cpu = thread_time()
        master.tick()
        idle.append(thread_time() - cpu)
    began, cpu = monotonic(), process_time()
    _go_on(master, steady_s)
    share = (process_time() - cpu) / max(monotonic() - began, 0.001)
    return [
        Row(f"{what}: CPU until all have been seen once", [first], "s", 1.0),
        Row("CPU of a pass, five one after the other", idle),
        Row("share of a core while all are looked at every 30 s", [share], "%", 100.0),
    ]


def _go_on(master: Master, seconds: float) -> None:
    began = monotonic()
    while (passed := monotonic() - began) < seconds:
        master.inbox.wait(min(master.tick(), seconds - passed))


def _fill(store: Store, names: Sequence[NodeName], jobs_a_node: int) -> dict[str, str]:
    """As if they had been started long ago; the token of each run directory."""
    tokens = {}
    spec = JobSpec(Command(CommandForm.ARGV, ("true",)), Request(gpus=1), "x", JobKind.BATCH)
    now = clock.now()
    with store.write() as writer:
        for name in names:
            for index in range(jobs_a_node):
                job = Job(JobId(0), f"{name}-{index}", "ann", 1000, spec, JobState.RUNNING, now, attempt=1)
                job_id, _ = writer.add_job(job)
                part = Part(job_id, 1, 0, name, "", (index,), (_uuid(name, index),), AttemptState.RUNNING, started=now)
                attempt = Attempt(job_id, 1, f"{name}{index}", AttemptState.RUNNING, now)
                writer.add_attempt(attempt, [part])
                tokens[directory_name(part.key)] = attempt.token_of(part)
    return tokens


def _uuid(name: NodeName, index: int) -> DeviceUuid:
    return DeviceUuid(f"GPU-{name}-{index}")


class _Node:
    """All its jobs run on and write nothing."""

    address = "10.0.0.1"
    contact = Contact()

    def __init__(self, name: NodeName, tokens: Mapping[str, str], over: Event) -> None:
        self._name, self._tokens, self._over = name, tokens, over
        self._gpus = "".join(
            f"{index}, {_uuid(name, index)}, 00000000:{index + 1:02X}:00.0, NVIDIA A100-SXM4-80GB, 81920, 0, 0\n"
            for index in range(GPUS)
        )
        self._pids = "".join(f"GPU 00000000:{index + 1:02X}:00.0\n    Processes : None\n" for index in range(GPUS))

    def probe(self, _wanted: object) -> RawProbe:
        return RawProbe(BOOT, self._name, None, 0, self._gpus, 0, self._pids, "\n", smi_path="/usr/bin/nvidia-smi")

    def look(self, keys: Sequence[str]) -> NodeAnswer:
        def runs(key: str) -> PartAnswer:
            return PartAnswer({"pid": f"17:1:{BOOT}:{self._tokens[key]}", "started": "1.0:1.0:-"}, True, (0, 0))

        return NodeAnswer({key: runs(key) for key in keys}, 1000.0, BOOT, clock.now())

    def read(self, _key: str, _stream: str, _offset: int) -> tuple[bytes, int]:
        return b"", 0

    def events(self) -> Iterator[str]:
        yield ""
        self._over.wait()

    def close(self) -> None:
        self._over.set()

    def __getattr__(self, _name: str) -> Any:
        def refuse(*_words: object) -> NoReturn:
            raise RemoteError("it is full", Trouble.REFUSED)

        return refuse
