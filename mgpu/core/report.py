"""What came of the GPUs in a stretch of time: by user, account or node. Pure: from what was held and what was used.

What lies over an edge of the stretch counts as far as it lies within: GPU-hours by the time, and what was measured of a
part in proportion, as if it had been the same all along. Each attempt counts. A job counts where it ran at all; how it
ended and how long it had waited, where that was within.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from mgpu.core.model import JobId, JobState
from mgpu.core.percentile import percentile

FAILED = (JobState.FAILED, JobState.TIMEOUT, JobState.NODE_FAIL)


class Stretch(NamedTuple):
    """From `since` until before `until`."""

    since: float
    until: float

    def has(self, moment: float | None) -> bool:
        return moment is not None and self.since <= moment < self.until

    def overlap_s(self, start: float, end: float) -> float:
        return max(0.0, min(end, self.until) - max(start, self.since))


class Held(NamedTuple):
    """A part of an attempt that began, `ended` None = it runs; with what was measured of it (core.usage.PartUse)."""

    job_id: JobId
    user: str
    uid: int
    account: str
    node: str
    gpus: int
    started: float
    ended: float | None
    measured_s: float = 0.0
    busy_s: float = 0.0
    idle_s: float = 0.0
    memory_mib: int | None = None


class Begun(NamedTuple):
    """A job of which a part began. `started`: its first attempt."""

    job_id: JobId
    state: JobState
    submitted: float
    started: float | None
    ended: float | None


@dataclass(frozen=True, slots=True)
class Line:
    """None = nothing to say it from."""

    name: str
    gpu_hours: float
    share: float | None  # of all that is told of, from 0 to 1
    measured_gpu_hours: float
    utilization: float | None  # of those, in percent
    idle_gpu_hours: float  # of those
    memory_peak_mib: int | None
    jobs: int
    completed: int
    failed: int
    cancelled: int
    success: float | None  # of those that completed or failed
    wait_median_s: float | None
    wait_p90_s: float | None


def lines(
    held: Sequence[Held], ran: Iterable[Begun], stretch: Stretch, now: float, name_of: Callable[[Held], str]
) -> tuple[list[Line], Line]:
    """Who had most first; and all of it as one."""
    by_id = {job.job_id: job for job in ran}
    within = [part for part in held if part.started < stretch.until and _end(part, now) >= stretch.since]
    total = _line("total", within, by_id, stretch, now, None)
    groups: dict[str, list[Held]] = {}
    for part in within:
        groups.setdefault(name_of(part), []).append(part)
    found = [_line(name, parts, by_id, stretch, now, total.gpu_hours) for name, parts in groups.items()]
    return sorted(found, key=lambda line: (-line.gpu_hours, line.name)), total


def _line(
    name: str, held: Sequence[Held], ran: dict[JobId, Begun], stretch: Stretch, now: float, of: float | None
) -> Line:
    shares = [(part, _share(part, stretch, now)) for part in held]
    gpu_s = sum(part.gpus * stretch.overlap_s(part.started, _end(part, now)) for part in held)
    measured_s, busy_s, idle_s = (
        sum(getattr(part, key) * share for part, share in shares) for key in ("measured_s", "busy_s", "idle_s")
    )
    jobs = [ran[job_id] for job_id in {part.job_id for part in held} if job_id in ran]
    ends = [job.state for job in jobs if job.state.final and stretch.has(job.ended)]
    completed, failed = ends.count(JobState.COMPLETED), sum(state in FAILED for state in ends)
    waits = [max(0.0, job.started - job.submitted) for job in jobs if job.started and stretch.has(job.started)]
    return Line(
        name=name,
        gpu_hours=gpu_s / 3600,
        share=(1.0 if gpu_s else None) if of is None else gpu_s / 3600 / of if of else None,
        measured_gpu_hours=measured_s / 3600,
        utilization=100 * busy_s / measured_s if measured_s else None,
        idle_gpu_hours=idle_s / 3600,
        memory_peak_mib=max((part.memory_mib for part in held if part.memory_mib is not None), default=None),
        jobs=len(jobs),
        completed=completed,
        failed=failed,
        cancelled=ends.count(JobState.CANCELLED),
        success=completed / (completed + failed) if completed + failed else None,
        wait_median_s=median(waits) if waits else None,
        wait_p90_s=percentile(waits, 90) if waits else None,
    )


def _end(part: Held, now: float) -> float:
    return max(part.started, now if part.ended is None else part.ended)


def _share(part: Held, stretch: Stretch, now: float) -> float:
    """Of what was measured of the part, how much counts: as much of its life as lies within, and of what was measured
    before it was known that it was over no more than there was."""
    end = _end(part, now)
    if end <= part.started:
        return 1.0
    there_s = part.gpus * (end - part.started)
    true = there_s / part.measured_s if part.ended is not None and part.measured_s > there_s else 1.0
    return true * stretch.overlap_s(part.started, end) / (end - part.started)


# --- nodes ----------------------------------------------------------------------------------------------------------


class Change(NamedTuple):
    """Of a node's state."""

    at: float
    down: bool


@dataclass(frozen=True, slots=True)
class Reliability:
    """`up`: of the time in which it was known how the node is, from 0 to 1; None = of none. `job_failures`: parts that
    ended since the node failed them; `suspect`: GPUs on which one job after the other failed."""

    node: str
    up: float | None
    downs: int
    job_failures: int
    suspect: int


def reliability(
    node: str, changes: Iterable[Change], failures: int, suspect: int, stretch: Stretch, now: float
) -> Reliability:
    """`changes` in their order, from the first on that there is."""
    known_s = down_s = 0.0
    downs, before = 0, None
    for change in changes:
        if before is not None:
            seconds = stretch.overlap_s(before.at, change.at)
            known_s, down_s = known_s + seconds, down_s + seconds * before.down
        downs += change.down and not (before and before.down) and stretch.has(change.at)
        before = change
    if before is not None:
        seconds = stretch.overlap_s(before.at, now)
        known_s, down_s = known_s + seconds, down_s + seconds * before.down
    return Reliability(node, 1 - down_s / known_s if known_s else None, downs, failures, suspect)
