"""What somebody may be told of: the events that rows of the audit stand for, and who asked for which."""

from __future__ import annotations

from mgpu.core.lifecycle import ENDED, REQUEUED, STARTED
from mgpu.core.mail import SHARES
from mgpu.core.model import Audit, Job, JobState

SUBMITTED = "submit"
INVALID = "dependency never satisfied"
PERCENT = "time limit {} %"  # of it has passed
IDLE = "idle"  # it holds GPUs and does nothing with them

# event -> the row that tells it
_ROWS = {
    "queued": SUBMITTED,
    "started": STARTED,
    "requeued": REQUEUED,
    "invalid_depend": INVALID,
    "idle": IDLE,
    **{f"time_limit_{share}": PERCENT.format(share) for share in SHARES},
    "node_up": "node UP",
    "node_down": "node DOWN",
    "node_draining": "node drain",
    "node_drained": "node DRAINED",
    "node_resumed": "node resume",
}
_EVENTS = {row: event for event, row in _ROWS.items()}
_FAILING = {f"{ENDED}: {state}" for state in (JobState.FAILED, JobState.TIMEOUT, JobState.NODE_FAIL)}
EVENTS = (
    *("queued", "started", "ended", "failed", "requeued", "idle"),
    *("node_up", "node_down", "node_draining", "node_drained", "node_resumed"),
)

# type -> the events that it asks for; mgpu stages nothing
_ASKED = {
    "BEGIN": ("started",),
    "END": ("ended", "failed"),
    "FAIL": ("failed",),
    "INVALID_DEPEND": ("invalid_depend",),
    "REQUEUE": ("requeued",),
    **{f"TIME_LIMIT_{share}": (f"time_limit_{share}",) for share in SHARES},
}


def event_of(entry: Audit) -> str:
    """`failed`: FAILED, TIMEOUT or NODE_FAIL; `ended`: any other end. "" = nothing that anybody is told of."""
    if entry.what.startswith(f"{ENDED}: "):
        return "failed" if entry.what in _FAILING else "ended"
    return "" if entry.result else _EVENTS.get(entry.what, "")


def asked_by(job: Job, event: str) -> str:
    """The word of its --mail-type that asks for this event; "" = none does. Of an array, the whole is meant, and its
    tasks where ARRAY_TASKS says so."""
    types = job.spec.mail_type.split(",")
    tasks = "ARRAY_TASKS" in types
    if (job.is_array and tasks) or (job.array_id is not None and not tasks):
        return ""
    if event == "failed" and job.state is JobState.TIMEOUT and "TIME_LIMIT" in types:
        return "TIME_LIMIT"
    wanted = ("FAIL", *_ASKED) if event == "failed" else _ASKED
    return next((word for word in wanted if word in types and event in _ASKED[word]), "")


def shares_asked(job: Job) -> list[int]:
    """Of its time limit, at which it wants a word."""
    types = job.spec.mail_type.split(",")
    told_of = job.array_id is None or "ARRAY_TASKS" in types
    return [share for share in SHARES if told_of and f"TIME_LIMIT_{share}" in types]
