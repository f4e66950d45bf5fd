"""What is long over goes, in small pieces; what anything still needs stays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mgpu.config.model import Config
from mgpu.core.errors import NotFound
from mgpu.core.fairshare import FairShare
from mgpu.core.model import AttemptState, Audit, Condition, ConditionKind, Dependency, DeviceUuid, JobId, JobState
from mgpu.core.usage import COARSE_S, FINE_S, NOBODY, Entry, Key, PartUse
from mgpu.master import retention
from mgpu.master.retention import Retention
from mgpu.master.use import Use
from mgpu.ops.context import find_job
from mgpu.ops.output import REMOVED
from mgpu.store import pruning, samples
from mgpu.store.spool import Spool
from mgpu.store.store import Store
from tests.clocks import HandClock
from tests.store.stored_values import NODE, attempt, job, part, spec

DAY_S = 86_400.0
NOW = 1000 * DAY_S
NO_SHARES = FairShare(half_life_s=None)


class Kept:
    def __init__(self, folder: Path) -> None:
        self.store = Store.open(folder / "mgpu.db")
        self.spool = Spool(folder / "spool")
        self._given = 0

    def sweep(self, config: Config) -> int:
        """How many pieces it took."""
        sweeper = Retention(self.store, self.spool, config, None, HandClock(NOW), lambda: None)  # type: ignore[arg-type]
        pieces = 1
        while sweeper.piece():
            pieces += 1
            assert pieces < 50
        return pieces

    def add(self, days_ago: float, *devices: int, collected: bool = True, **changes: object) -> JobId:
        """One that ended then, with output."""
        self._given += 1
        at = NOW - days_ago * DAY_S
        ended = {"state": JobState.COMPLETED, "end_time": at, "start_time": at - 60, "attempt": 1, **changes}
        with self.store.write() as writer:
            job_id, _ = writer.add_job(job(f"r{self._given}", submit_time=at - 100, **ended))
            if ended["attempt"]:
                over = part(job_id, *devices, state=AttemptState.ENDED, started=at - 60, ended=at, collected=collected)
                runs = replace(over, state=AttemptState.RUNNING, ended=None, collected=False)
                writer.add_attempt(attempt(job_id, state=AttemptState.ENDED, ended=at), [runs])
                writer.save_part(over, runs)
                samples.save_uses(writer, [PartUse(job_id, 1, 0, measured_s=60.0)])
                self.spool.append(over.key, "stdout", 0, b"said")
            writer.audit(Audit(at, "ann", "submit", job_id))
        return job_id

    def jobs(self) -> set[JobId]:
        with self.store.read() as reader:
            return {JobId(row[0]) for row in reader.driver.execute("SELECT job_id FROM jobs")}


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    made = Kept(tmp_path)
    yield made
    made.store.close()


def keep(**changes: object) -> Config:
    return replace(Config(None, (), fair_share=NO_SHARES), **changes)  # type: ignore[arg-type]


def test_jobs_go_with_all_that_belongs_to_them(kept):
    old, young = kept.add(91, 0), kept.add(89, 0)
    kept.sweep(keep(keep_jobs_s=90 * DAY_S))
    assert kept.jobs() == {young}
    assert kept.spool.jobs() == [young]
    with kept.store.read() as reader:
        for table in ("attempts", "parts", "holds", "uses"):
            assert {row[0] for row in reader.driver.execute(f"SELECT job_id FROM {table}")} == {young}
        assert [row.what for row in reader.audits(job_id=old)] == ["submit"]
        with pytest.raises(NotFound, match=rf"job {old} is over for so long that it was removed"):
            find_job(reader, old)
        with pytest.raises(NotFound, match="there is no job 4711"):
            find_job(reader, JobId(4711))
    with kept.store.write() as writer:
        assert writer.add_job(job("next"))[0] == young + 1


def test_what_is_needed_stays(kept):
    waited, uncollected, fenced = kept.add(99), kept.add(99, collected=False), kept.add(99)
    array = kept.add(99, attempt=0, rest="", spec=spec(array="0-1"))
    tasks = [kept.add(99, array_id=array, array_index=index) for index in range(2)]
    busy = kept.add(99, attempt=0, rest="", spec=spec(array="0-1"))
    others = [kept.add(99, array_id=busy, array_index=index) for index in range(2)]
    goes = kept.add(99)
    with kept.store.write() as writer:
        owed = writer.parts(fenced, 1)[0]
        writer.save_part(replace(owed, stop="GIVEN_UP", collected=False), owed)
        task = writer.job(others[1])
        writer.save_job(replace(task, state=JobState.PENDING, end_time=None), task)
        after = Dependency((Condition(ConditionKind.AFTEROK, waited), Condition(ConditionKind.AFTERANY, tasks[0])))
        waits, _ = writer.add_job(job("waits", spec=spec(dependency=after)))
    kept.sweep(keep(keep_jobs_s=90 * DAY_S))
    assert kept.jobs() == {waited, uncollected, fenced, array, *tasks, busy, *others, waits}
    assert goes not in kept.jobs()
    with kept.store.write() as writer:
        job_now = writer.job(waits)
        writer.save_job(replace(job_now, state=JobState.CANCELLED, end_time=NOW), job_now)
    kept.sweep(keep(keep_jobs_s=90 * DAY_S))
    assert kept.jobs() == {uncollected, fenced, busy, *others, waits}


def test_what_counts_for_the_order_of_the_queue_does_not_change(kept):
    recent, long_ago, without = kept.add(60, 0, 1), kept.add(80, 0, 1), kept.add(60)
    config = replace(keep(keep_jobs_s=30 * DAY_S), fair_share=FairShare(half_life_s=7 * DAY_S))

    def used() -> str:
        ledger, _ = Use(kept.store, config)._read(NOW)
        return repr(vars(ledger) if hasattr(ledger, "__dict__") else [getattr(ledger, n) for n in ledger.__slots__])

    before = used()
    kept.sweep(config)
    assert kept.jobs() == {recent}
    assert {long_ago, without} & kept.jobs() == set()
    assert used() == before


def test_output_goes_sooner_than_jobs_and_is_told(kept):
    old, young, waits = kept.add(31), kept.add(29), kept.add(31, collected=False)
    kept.sweep(keep(keep_output_s=30 * DAY_S))
    assert kept.jobs() == {old, young, waits}
    assert kept.spool.jobs() == [young, waits]
    with kept.store.read() as reader:
        assert [row.what for row in reader.audits(job_id=old)] == ["submit", REMOVED]
    kept.sweep(keep(keep_output_s=30 * DAY_S))
    with kept.store.read() as reader:
        assert len(reader.audits(what=REMOVED)) == 1


def test_output_of_those_that_are_gone_goes_and_of_those_that_never_were_stays(kept):
    old = kept.add(99)
    forgotten = kept.spool.forget
    kept.spool.forget = lambda _job_id: None  # as if the master ended in between
    kept.sweep(keep(keep_jobs_s=DAY_S))
    (kept.store.path.parent / "spool" / "4711").mkdir()
    assert kept.spool.jobs() == [old, 4711]
    kept.spool.forget = forgotten
    kept.sweep(keep(keep_jobs_s=DAY_S))
    assert kept.spool.jobs() == [4711]


def test_pieces_are_small(kept, monkeypatch):
    monkeypatch.setattr(retention, "PIECE", 3)
    array = kept.add(99, attempt=0, rest="", spec=spec(array="0-9"))
    for index in range(10):
        kept.add(99, array_id=array, array_index=index)
    assert kept.sweep(keep(keep_jobs_s=DAY_S)) >= 4
    assert kept.jobs() == set()


def test_no_job_is_looked_at_where_all_are_kept(kept, monkeypatch):
    kept.add(9999, 0)

    def refuse(*_: object) -> None:
        raise AssertionError("nobody asked for that")

    for name in ("over", "gone", "silent"):
        monkeypatch.setattr(pruning, name, refuse)
    assert kept.sweep(keep()) == 1


def test_samples_go_in_pieces_whatever_is_kept_of_jobs(kept, monkeypatch):
    monkeypatch.setattr(retention, "BUCKETS", 10)
    gpu, now = DeviceUuid("GPU-0"), int(NOW)
    entries = {Key(gpu, NOBODY): Entry(1, 0, 0, 1, 1, 0, 512)}
    starts = [now - 60 * number for number in range(30 * 60)]  # 30 hours
    with kept.store.write() as writer:
        samples.put(writer, NODE, dict.fromkeys(starts, entries), {gpu: 0}, NOW)
        samples.put(writer, NODE, {now + 10 * 86_400: entries}, {gpu: 0}, NOW)  # by a clock that was wrong
        for days in (1, 34, 36):
            samples.put(writer, NODE, {now - days * 86_400: entries}, {gpu: 0}, NOW)
            samples.roll(writer, NODE, now - days * 86_400, NOW)
    assert kept.sweep(keep()) == 24 + 1  # 240 minutes and some
    with kept.store.read() as reader:
        fine = [start for start, _ in samples.buckets(reader, NODE, FINE_S, 0, 2 * NOW)]
        coarse = [start for start, _ in samples.buckets(reader, NODE, COARSE_S, 0, 2 * NOW)]
        assert samples.sampled(reader, NODE)
    assert (fine[0], fine[-1], len(fine)) == (now - 26 * 3600, now, 26 * 60 + 1)
    assert coarse == [now - 34 * 86_400, now - 86_400]
