"""What a job lived through, in the words of the audit: seen from how it was and how it is, so that none is forgotten
whoever changed it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from mgpu.core.model import Audit, Job, JobState

WHO = "master"
STARTED, ENDED, REQUEUED = "started", "ended", "requeued"


@dataclass(frozen=True, slots=True)
class Happening:
    """A row of the audit, with the job as it is since then where it tells of one that is at hand."""

    entry: Audit
    job: Job | None = None


def milestones(before: Job, after: Job, now: float) -> Iterator[Happening]:
    """`after` is what has become of it."""
    if after.start_time is not None and after.start_time != before.start_time:
        began = replace(after, state=JobState.RUNNING, end_time=None, exit_code=None)  # it may be over by now
        yield _told(began, after.start_time, STARTED, "")
    if after.state is before.state:
        return
    if after.state.final:
        code = "" if after.exit_code is None else f"exit code {after.exit_code}"
        yield _told(after, after.end_time or now, f"{ENDED}: {after.state}", code)
    elif after.state is JobState.PENDING and before.state is JobState.RUNNING and not after.is_array:
        yield _told(after, now, REQUEUED, "")


def _told(job: Job, at: float, what: str, code: str) -> Happening:
    attempt = f"attempt {job.attempt}" if job.attempt else ""
    words = ", ".join(filter(None, (attempt, code)))
    detail = ": ".join(filter(None, (words, "" if what == STARTED else job.detail)))
    return Happening(Audit(at, WHO, what, job.job_id, None, detail), job)
