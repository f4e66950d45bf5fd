"""What probes tell of GPUs is kept, also over a restart, and a job that does nothing with its GPUs is told of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mgpu.config.model import Config
from mgpu.core.errors import StoreError
from mgpu.core.model import AttemptState, DeviceUuid, JobId, JobState, NodeState
from mgpu.core.observation import GpuReading, Node, Observation
from mgpu.core.plan import DeviceState, DeviceView, NodeView
from mgpu.core.usage import COARSE_S, FINE_S, NOBODY, IdleRule, Key
from mgpu.master import sampling
from mgpu.master.board import Board
from mgpu.master.inbox import Probed
from mgpu.master.sampling import Sampler
from mgpu.store import samples
from mgpu.store.check import check
from mgpu.store.store import Store
from tests.store.stored_values import NODE, attempt, job, part

START = 1_800_000_900.0  # begins a quarter of an hour
GPUS = tuple(DeviceUuid(f"GPU-{index}") for index in range(2))


class Machine:
    """A node with two GPUs, looked at every half a minute, whose first one a job may have."""

    def __init__(self, folder: Path) -> None:
        self.store = Store.open(folder / "mgpu.db")
        self.offset = 0.0  # of the clock on the wall
        self.time = 0.0
        self.config = replace(Config(None, ()), idle=IdleRule(after_s=300.0, below=5))
        self.spawned: list[object] = []
        self.begin()

    def now(self) -> float:
        return START + self.time + self.offset

    def monotonic(self) -> float:
        return 5000.0 + self.time

    def spawn(self, _name: str, task: object) -> None:
        self.spawned.append(task)

    def begin(self) -> None:
        """A master; the first, or one after another."""
        self.sampler = Sampler(self.store, self.config, self, self)  # type: ignore[arg-type]
        self.sampler.load()

    def run(self, *devices: int, rank: int = 0) -> JobId:
        with self.store.write() as w:
            job_id, _ = w.add_job(job("a", state=JobState.RUNNING, attempt=1, start_time=self.now()))
            runs = part(job_id, *devices, rank=rank, state=AttemptState.RUNNING, started=self.now())
            w.add_attempt(attempt(job_id, state=AttemptState.RUNNING), [runs])
        return job_id

    def look(self, *percents: int | None, seconds: float = 30.0) -> None:
        self.time += seconds
        with self.store.read() as r:
            board = Board.read(r)
        held = {uuid: part.job_id for _, part in board.parts() for uuid in part.uuids}
        devices = [
            DeviceView(uuid, index, "A100", "", 81_920, DeviceState.ALLOCATED, "", held[uuid])
            if uuid in held
            else DeviceView(uuid, index, "A100", "", 81_920, DeviceState.FREE)
            for index, uuid in enumerate(GPUS)
        ]
        readings = [
            GpuReading(index, GPUS[index], "", "A100", 81_920, 512 + index, percent)
            for index, percent in enumerate(percents)
        ]
        seen = Observation(NODE, self.now(), "boot", "gpu01", tuple(readings))
        with self.store.write() as w:  # as a pass does
            w.save_node(Node(NODE, NodeState.UP, last_seen=self.now()))
        self.sampler.follow([Probed(NODE, seen)], board, [NodeView(NODE, True, "", tuple(devices))])
        self.sampler.tend(self.monotonic())
        while self.spawned:
            self.spawned.pop()()  # type: ignore[operator]

    def minutes(self, length_s: int = FINE_S) -> dict[int, dict[Key, object]]:
        """By how many seconds after the beginning they began."""
        with self.store.read() as r:
            return {at - int(START): found for at, found in samples.buckets(r, NODE, length_s, 0.0, 2 * START)}

    def said(self, job_id: JobId) -> list[str]:
        with self.store.read() as r:
            return [row.detail for row in r.audits(job_id=job_id, what="idle")]

    def idle_since(self, job_id: JobId) -> float | None:
        with self.store.read() as r:
            since = r.parts(job_id, 1)[0].idle_since
        return None if since is None else since - START


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.store.close()


def test_looks_are_stored_once_a_minute_and_the_rest_at_the_end(machine):
    job_id = machine.run(0)
    machine.look(80, 0)
    assert machine.minutes() == {}
    machine.look(60, 0)
    assert list(machine.minutes()) == [0, 60]
    machine.look(40, 0)
    machine.sampler.close()
    found = machine.minutes()
    assert {at: entries[Key(GPUS[0], job_id)].sums for at, entries in found.items()} == {
        0: (1, 1, 0, 0, 1, 80),
        60: (2, 2, 0, 0, 2, 100),
    }
    assert found[60][Key(GPUS[1], NOBODY)].sums == (2, 0, 0, 2, 2, 0)


def test_who_reads_has_it_stored_but_not_with_every_question(machine):
    machine.run(0)
    machine.look(80, 0)
    machine.sampler.settle()
    assert list(machine.minutes()) == [0]
    machine.look(80, 0, seconds=sampling.ASKED_S - 5)
    machine.sampler.settle()
    (entries,) = machine.minutes().values()
    assert {entry.readings for entry in entries.values()} == {1}
    machine.time += 5
    machine.sampler.settle()
    (entries,) = machine.minutes().values()
    assert {entry.readings for entry in entries.values()} == {2}


def test_who_reads_what_cannot_be_stored_is_told_what_is_there(machine, monkeypatch):
    machine.run(0)
    machine.look(80, 0)

    def full():
        raise StoreError("the disk is full", "make room")

    with monkeypatch.context() as patched:
        patched.setattr(machine.store, "write", full)
        machine.sampler.settle()
    machine.sampler.close()
    assert list(machine.minutes()) == [0], "it is stored later"


def test_a_new_master_goes_on_with_all_of_it(machine):
    job_id = machine.run(0)
    for _ in range(3):
        machine.look(100, 0)
    machine.sampler.close()
    machine.begin()
    machine.look(50, 0, seconds=10.0)
    machine.look(50, 0)
    machine.sampler.close()
    with machine.store.read() as r:
        (use,) = samples.uses_of(r, [job_id])
    assert use.measured_s == 60.0 + 40.0  # the very first look speaks for no time
    assert use.busy_s == 60.0 + 20.0
    assert machine.minutes()[60][Key(GPUS[0], job_id)].sums == (3, 3, 0, 0, 3, 250)


def test_a_master_that_looks_but_once_measures_too(machine):
    """`mgpu tick`, once a minute."""
    job_id = machine.run(0)
    for _ in range(10):
        machine.begin()
        machine.look(100, 0, seconds=60.0)
        machine.sampler.close()
    with machine.store.read() as r:
        assert samples.uses_of(r, [job_id])[0].busy_s == 9 * 60.0


def test_a_node_without_gpus_has_no_samples(machine, tmp_path):
    machine.look()
    machine.look()
    machine.look()
    assert machine.minutes() == {}
    assert not [one for one in check(machine.store.path, tmp_path) if one.status == "failure"]


def test_a_job_that_does_nothing_is_told_of_once(machine):
    job_id = machine.run(0)
    machine.look(90, 0)
    for _ in range(9):
        machine.look(2, 0)
    assert (machine.idle_since(job_id), machine.said(job_id)) == (None, [])
    for _ in range(3):
        machine.look(2, 0)
    assert machine.idle_since(job_id) == 30.0
    assert machine.said(job_id) == ["GPUs under 5 % for 5 min"]
    machine.store.changes.take()
    machine.look(70, 0)
    assert machine.idle_since(job_id) is None
    assert machine.store.changes.take() == {job_id}  # the listing hears of it
    assert len(machine.said(job_id)) == 1


def test_who_is_killed_while_it_is_stored_tells_it_once(machine, monkeypatch):
    """What a job is called idle for is stored before that."""
    job_id = machine.run(0)
    for _ in range(10):
        machine.look(0, 0)
    tell = Sampler._tell

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Sampler, "_tell", killed)
    with pytest.raises(KeyboardInterrupt):
        machine.look(0, 0)
    with machine.store.read() as r:
        assert samples.uses_of(r, [job_id])[0].quiet_s == 300.0
    monkeypatch.setattr(Sampler, "_tell", tell)
    machine.begin()
    machine.look(0, 0)
    assert machine.idle_since(job_id) == 30.0
    for _ in range(5):
        machine.look(0, 0)
    assert len(machine.said(job_id)) == 1


def test_how_long_it_is_idle_outlives_the_master(machine):
    job_id = machine.run(0)
    for _ in range(7):
        machine.look(0, 0)
    machine.sampler.close()
    machine.time += 3600.0
    machine.begin()
    machine.look(0, 0)
    assert machine.idle_since(job_id) is None  # nobody looked for an hour
    for _ in range(5):
        machine.look(0, 0)
    assert machine.idle_since(job_id) == 30.0


def test_a_job_that_uses_its_gpus_or_cannot_be_measured_is_not_idle(machine):
    job_id = machine.run(0)
    for percent in (97, None):
        for _ in range(20):
            machine.look(percent, 0)
        assert machine.idle_since(job_id) is None
    assert machine.said(job_id) == []


def test_nobody_is_told_where_that_is_switched_off(machine):
    machine.config = replace(machine.config, idle=IdleRule(float("inf"), 5))
    machine.begin()
    job_id = machine.run(0)
    for _ in range(40):
        machine.look(0, 0)
    assert machine.idle_since(job_id) is None
    with machine.store.read() as r:
        assert samples.uses_of(r, [job_id])[0].idle_s == 39 * 30.0


def test_of_two_parts_both_have_to_be_idle(machine):
    with machine.store.write() as w:
        job_id, _ = w.add_job(job("b", state=JobState.RUNNING, attempt=1))
        runs = {"state": AttemptState.RUNNING, "started": machine.now()}
        parts = [part(job_id, 0, **runs), part(job_id, 1, rank=1, **runs)]
        w.add_attempt(attempt(job_id, state=AttemptState.RUNNING), parts)
    for _ in range(12):
        machine.look(0, 50)
    assert machine.idle_since(job_id) == 30.0
    assert machine.said(job_id) == []
    for _ in range(12):
        machine.look(0, 0)
    assert len(machine.said(job_id)) == 1


def test_quarters_of_an_hour_are_rolled_up_when_they_are_over_also_by_the_next_master(machine):
    for _ in range(30):
        machine.look(10, 20)
    assert list(machine.minutes(COARSE_S)) == [0]
    entry = machine.minutes(COARSE_S)[0][Key(GPUS[1], NOBODY)]
    assert entry.sums == (29, 0, 0, 29, 29, 29 * 20)
    for _ in range(10):
        machine.look(10, 20)
    machine.begin()  # the one before was killed
    machine.time += 900.0
    machine.look(10, 20)
    machine.sampler.close()
    assert list(machine.minutes(COARSE_S)) == [0, 900]


def test_a_clock_that_is_set_breaks_nothing(machine):
    job_id = machine.run(0)
    for offset in (0.0, 40 * 86_400.0, -3600.0, 0.0):
        machine.offset = offset
        for _ in range(4):
            machine.look(50, 0)
    machine.sampler.close()
    with machine.store.read() as r:
        (use,) = samples.uses_of(r, [job_id])
    assert (use.measured_s, use.busy_s) == (15 * 30.0, 15 * 15.0)
    looks = sum(entries[Key(GPUS[0], job_id)].readings for entries in machine.minutes().values())
    with machine.store.read() as r:
        far = list(samples.buckets(r, NODE, FINE_S, 2 * START - 1, 3 * START))
    assert looks == 16 and not far


def test_what_cannot_be_stored_is_kept_for_the_next_time(machine, monkeypatch):
    job_id = machine.run(0)
    put = samples.put

    def full(*_: object) -> None:
        raise StoreError("no space left on the disk")

    monkeypatch.setattr(samples, "put", full)
    for _ in range(5):
        machine.look(50, 0)
    monkeypatch.setattr(samples, "put", put)
    machine.sampler.close()
    assert sum(entries[Key(GPUS[0], job_id)].readings for entries in machine.minutes().values()) == 5


def test_a_disk_that_stays_full_costs_the_oldest_minutes(machine, monkeypatch):
    def full(*_: object) -> None:
        raise StoreError("no space left on the disk")

    put = samples.put
    monkeypatch.setattr(samples, "put", full)
    for _ in range(200):
        machine.look(50, 0)
    monkeypatch.setattr(samples, "put", put)
    machine.sampler.close()
    assert len(machine.minutes()) <= sampling.MOST_MINUTES + 2
    assert max(machine.minutes()) == 6000
