"""The pending jobs that depend on others, and what became of that: kept from pass to pass as the queue is.

Judged anew is only what may have changed: a job that was touched itself, and those that wait for one that was.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mgpu.core.dependency import Verdict, judge
from mgpu.core.lifecycle.milestones import WHO
from mgpu.core.model import Audit, Dependency, Job, JobId, JobState
from mgpu.ops import arrays
from mgpu.store.reading import Reader
from mgpu.store.tables import written_out
from mgpu.store.writing import Writer

_Name = tuple[int, str]  # whose, and how it is called


class Dependents:
    def __init__(self) -> None:
        self._jobs: dict[JobId, Job] = {}
        self._waits_for: dict[JobId, set[JobId]] = {}  # that a job names, or a singleton has to let go first
        self._waited_for: dict[JobId, set[JobId]] = {}  # the other way round
        self._singletons: dict[_Name, set[JobId]] = {}
        self.lost: set[JobId] = set()  # those that are to be ended

    def get(self, job_id: JobId) -> Job | None:
        return self._jobs.get(job_id)

    def put(self, job: Job) -> None:
        """One that waits, new or changed."""
        self.drop(job.job_id)
        dependency = dependency_of(job)
        self._jobs[job.job_id] = job
        self._wait(job.job_id, dependency.job_ids)
        if dependency.singleton:
            self._singletons.setdefault(_name(job), set()).add(job.job_id)

    def drop(self, job_id: JobId) -> None:
        """It waits no longer, or never did."""
        job = self._jobs.pop(job_id, None)
        if job is None:
            return
        self.lost.discard(job_id)
        self._wait(job_id, ())
        _discard(self._singletons, _name(job), job_id)

    def _wait(self, job_id: JobId, others: Iterable[JobId]) -> None:
        """It waits for these, and for none that it waited for before."""
        for other in self._waits_for.pop(job_id, ()):
            _discard(self._waited_for, other, job_id)
        for other in others:
            self._waits_for.setdefault(job_id, set()).add(other)
            self._waited_for.setdefault(other, set()).add(job_id)

    def affected(self, touched: Iterable[JobId], reader: Reader | None = None) -> set[JobId]:
        """Those of which something else may hold now; singletons only if there is a `reader`."""
        found: set[JobId] = set()
        for job_id in touched:
            found |= self._waited_for.get(job_id, set())
            if job_id in self._jobs:
                found.add(job_id)
        for name in reader.names(touched) if reader is not None and self._singletons else ():
            found |= self._singletons.get(name, set())
        return found

    @property
    def all(self) -> Iterable[JobId]:
        return self._jobs.keys()

    def look(self, reader: Reader, job_ids: Iterable[JobId]) -> dict[JobId, Verdict]:
        """What holds of these now."""
        jobs = [self._jobs[job_id] for job_id in job_ids]
        facts = reader.facts({other for job in jobs for other in dependency_of(job).job_ids})
        names: dict[_Name, _Namesakes] = {}
        found: dict[JobId, Verdict] = {}
        for job in jobs:
            dependency, first = dependency_of(job), None
            if dependency.singleton:
                name = _name(job)
                if name not in names:
                    names[name] = _Namesakes(reader.namesakes(*name))
                first = names[name].before(job)
                self._wait(job.job_id, (*dependency.job_ids, *(() if first is None else (first,))))
            verdict = found[job.job_id] = judge(dependency, facts, first)
            (self.lost.add if verdict.never and not dependency.keep else self.lost.discard)(job.job_id)
        return found

    def end_lost(self, writer: Writer, now: float) -> list[JobId]:
        """All for whom what they wait for can never be, and who waits for them in turn; returns whom it ended."""
        ended: list[JobId] = []
        doubtful = set(self.lost)
        while doubtful:
            verdicts = self.look(writer, doubtful)
            lost = doubtful & self.lost
            for job_id in lost:
                job = writer.job(job_id)
                assert job is not None
                detail = verdicts[job_id].detail
                writer.audit(Audit(now, WHO, "dependency never satisfied", job_id, None, detail))
                arrays.abandon(writer, job, detail, now)
            ended += lost
            doubtful = self.affected(lost)
            for job_id in lost:
                self.drop(job_id)
            doubtful -= lost
        return ended


def dependency_of(job: Job) -> Dependency:
    assert job.spec.dependency is not None
    return job.spec.dependency


class _Namesakes:
    """Jobs of one user and name that have not ended, in the order of their ids; each with the array it belongs to."""

    def __init__(self, found: Iterable[tuple[JobId, JobState, JobId]]) -> None:
        self._all = [(job_id, array_id, state) for job_id, state, array_id in found]
        self._running = [each for each in self._all if each[2] is JobState.RUNNING]

    def before(self, job: Job) -> JobId | None:
        """Whom it has to let go first: any that runs, and earlier ones that wait; not those of its own array. Asked of
        each of thousands, so no more of them are looked at than have to be."""
        own = job.array_id or job.job_id
        for job_id, array_id, _ in self._running:
            if array_id != own:
                return job_id
        first = next((job_id for job_id, array_id, _ in self._all if array_id != own), None)
        return first if first is not None and first < own else None


def _name(job: Job) -> _Name:
    return job.uid, written_out(job.spec.name)


def _discard(index: dict[Any, set[JobId]], key: object, job_id: JobId) -> None:
    there = index.get(key)
    if there is not None:
        there.discard(job_id)
        if not there:
            del index[key]
