"""No job waits for itself: neither by a new dependency, nor by one that counts again since the job is queued again."""

from __future__ import annotations

from collections.abc import Iterable

from mgpu.core.array import shown_id
from mgpu.core.dependency import circle
from mgpu.core.model import ConditionKind, Dependency, Job, JobId, JobState
from mgpu.ops.context import find_job
from mgpu.store.reading import Reader


def way_back(reader: Reader, job: Job, dependency: Dependency) -> str:
    """How the job would wait for itself if it waited, and with this dependency; "" = it would not."""

    def waits_for(job_id: JobId) -> Iterable[JobId]:
        if job_id == job.job_id:
            return _waited_for(reader, job, dependency, job)
        other = reader.job(job_id)
        if other is None or other.state is not JobState.PENDING or other.spec.dependency is None:
            return ()
        return _waited_for(reader, other, other.spec.dependency, job)

    round_trip = circle(job.job_id, waits_for)[1:]
    way = " for ".join(f"job {shown_id(find_job(reader, job_id))}" for job_id in round_trip)
    return f"job {shown_id(job)} would wait for itself, that is for {way}" if way else ""


def _waited_for(reader: Reader, job: Job, dependency: Dependency, joining: Job) -> list[JobId]:
    """Who waits for the end of an array waits for each of its tasks; it has started without those that are jobs.
    `joining` is one of those that wait, even if it is stored as one that ended."""
    found = list(dependency.job_ids)
    ends = {condition.job_id for condition in dependency.conditions if condition.kind is not ConditionKind.AFTER}
    found += [task.job_id for job_id in ends if job_id is not None for task in reader.active_tasks(job_id)]
    if joining.array_id is not None and joining.array_id in ends:
        found.append(joining.job_id)
    if dependency.singleton:
        names = next(iter(reader.names([job.job_id])))
        found += [other for other, _, _ in reader.namesakes(*names) if other < (job.array_id or job.job_id)]
    return found
