"""A master under light load for an hour: whether it keeps its size.

Jobs begin and end, clients ask for the queue and the nodes, streams of output are opened and closed, some of them in
the middle of a job. Each minute its memory, descriptors, threads and database are read. First so many jobs end as a
master tells of at once: it grows with these until they are there, which with the load itself would take half an hour.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from threading import Event
from time import monotonic

from mgpu.client.websocket import StreamClosed, WebSocket
from mgpu.ops.window import MOST_ROWS
from scripts.benchmarks.cluster import Cluster
from scripts.benchmarks.measure import Row, wait_until
from scripts.benchmarks.probes import cpu_of

STEP_S = 0.5
SAYS_SOMETHING = "for i in 1 2 3; do echo line $i; sleep 1; done"
AT_ONCE = 100
GROWTH_MIB = 2.0  # in an hour: what is within the noise of an allocator


@dataclass(frozen=True)
class Sample:
    """One minute's. Memory in MiB, the database with its log."""

    minute: float
    memory: float
    descriptors: int
    threads: int
    database: float
    jobs: int
    cpu: float

    def cells(self) -> list[str]:
        return [
            *(f"{self.minute:.0f}", f"{self.memory:.1f}", str(self.descriptors), str(self.threads)),
            *(f"{self.database:.1f}", str(self.jobs), f"{self.cpu:.1%}"),
        ]


HEAD = ["minute", "memory, MiB", "descriptors", "threads", "database, MiB", "jobs so far", "share of a core"]


def soak(cluster: Cluster, hours: float, every_s: float = 60.0) -> list[Row]:
    """The table by the minute is printed as it comes."""
    end_some(cluster)
    load = Load(cluster)
    samples: list[Sample] = []
    print(f"\n| {' | '.join(HEAD)} |\n|{' --- |' * len(HEAD)}", flush=True)
    began = monotonic()
    watched = Watched(cluster)
    try:
        while (passed := monotonic() - began) < hours * 3600:
            load.step(passed)
            if passed >= every_s * (len(samples) + 1):
                samples.append(watched.sample(passed, load.submitted))
                print(f"| {' | '.join(samples[-1].cells())} |", flush=True)
    finally:
        load.close()
    print("\n| measure | median | min - max | n | goal |\n| --- | --- | --- | --- | --- |")
    return summary(samples, hours)


def end_some(cluster: Cluster) -> None:
    for _ in range(MOST_ROWS // AT_ONCE):
        cluster.submit_many(AT_ONCE, "sh", "-c", "echo line", gpus="1")
        wait_until("the end of the first jobs", lambda: cluster.active() == 0)


def summary(samples: list[Sample], hours: float) -> list[Row]:
    """Growth counts from the second quarter to the last: the first fills caches."""
    quarter = max(1, len(samples) // 4)
    early, late = samples[quarter : 2 * quarter] or samples, samples[-quarter:]

    def grown(read: Callable[[Sample], float]) -> float:
        between = 0.625 * hours  # from the middle of the one to the middle of the other
        return (median(map(read, late)) - median(map(read, early))) / between

    return [
        Row("memory of the master", [one.memory for one in samples], "MiB", 1.0),
        Row("growth of the master's memory, in an hour", [grown(lambda one: one.memory)], "MiB", 1.0, goal=GROWTH_MIB),
        Row("its descriptors", [float(one.descriptors) for one in samples], "", 1.0),
        Row("growth of its descriptors, in an hour", [grown(lambda one: one.descriptors)], "", 1.0, goal=1.0),
        Row("its threads", [float(one.threads) for one in samples], "", 1.0),
        Row("growth of its threads, in an hour", [grown(lambda one: one.threads)], "", 1.0, goal=1.0),
        Row("the database, for each job", [_per_job(samples)], "KiB", 1024.0),
        Row("its share of a core", [one.cpu for one in samples], "%", 100.0),
    ]


def _per_job(samples: list[Sample]) -> float:
    samples = samples[len(samples) // 4 :]  # its log grows to its usual size first
    jobs = samples[-1].jobs - samples[0].jobs
    return (samples[-1].database - samples[0].database) / jobs if jobs else 0.0


class Load:
    """What people do all day, a little faster: half a job a second."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._streams: dict[WebSocket, float] = {}  # and until when it is read
        self._steps = self.submitted = 0

    def step(self, passed: float) -> None:
        self._steps += 1
        if self._steps % 4 == 1:
            self._submit(passed)
        if self._steps % 2:
            self._cluster.call("GET", "/v1/jobs?scope=active")
        if self._steps % 10 == 0:
            self._cluster.call("GET", "/v1/nodes")
            self._cluster.call("GET", "/v1/window?scope=ended&sort=-id&offset=0&limit=50")
        if self._steps % 60 == 0:
            self._cluster.mgpu("queue")
            self._cluster.mgpu("history")
        self._read(passed)

    def close(self) -> None:
        for stream in self._streams:
            stream.close()
        self._streams.clear()

    def _submit(self, passed: float) -> None:
        """Its output is followed to the end, or only for two seconds."""
        self.submitted += 1
        job_id = self._cluster.submit("sh", "-c", SAYS_SOMETHING, job_name=f"soak{self.submitted}")
        stream = WebSocket(self._cluster.endpoint, f"/v1/jobs/{job_id}/stream?stdout=0&stderr=0")
        self._streams[stream] = passed + (60.0 if self.submitted % 2 else 2.0)

    def _read(self, passed: float) -> None:
        until = monotonic() + STEP_S
        for stream, closes in list(self._streams.items()):
            if passed > closes:
                self._drop(stream)
        while (left := until - monotonic()) > 0:
            if not self._streams:
                Event().wait(left)
                continue
            for stream in select.select(list(self._streams), [], [], left)[0]:
                try:
                    stream.receive()
                    while stream.buffered():
                        stream.receive()
                except (StreamClosed, OSError):
                    self._drop(stream)

    def _drop(self, stream: WebSocket) -> None:
        del self._streams[stream]
        stream.close()


class Watched:
    """The master's process. Should it end, its successor is another, and this fails: it is not to end."""

    def __init__(self, cluster: Cluster) -> None:
        self._pid = cluster.pid()
        self._state_dir = cluster.lab.state_dir
        self._at, self._cpu = monotonic(), cpu_of(self._pid)

    def sample(self, passed: float, jobs: int) -> Sample:
        place = Path(f"/proc/{self._pid}")
        told = dict(line.split(":", 1) for line in (place / "status").read_text().splitlines())
        now, cpu = monotonic(), cpu_of(self._pid)
        share = (cpu - self._cpu) / (now - self._at)
        self._at, self._cpu = now, cpu
        return Sample(
            passed / 60,
            int(told["VmRSS"].split()[0]) / 1024,
            len(list((place / "fd").iterdir())),
            int(told["Threads"]),
            sum(_size(self._state_dir / f"mgpu.db{end}") for end in ("", "-wal")) / 2**20,
            jobs,
            share,
        )


def _size(path: Path) -> int:
    with suppress(FileNotFoundError):
        return path.stat().st_size
    return 0
