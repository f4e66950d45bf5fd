"""What `notify:` is told of one event: the document on its command's stdin (docs/notify.md)."""

from __future__ import annotations

from mgpu.config.model import Notify
from mgpu.core import notices
from mgpu.core.model import Audit, Job
from mgpu.ops import render
from mgpu.ops.context import Context
from mgpu.ops.named import call_by_name
from mgpu.ops.render import Json

PRIVATE = ("command", "ship", "stop", "input")  # of a job; what runs is nobody's business but its user's


def document(context: Context, wanted: Notify, number: int, row: Audit) -> Json | None:
    """None = nobody wants to hear of it."""
    event = notices.event_of(row)
    if not event:
        return None
    with context.store.read() as reader:
        job = None if row.job_id is None else reader.job(row.job_id)
        parts = [] if job is None else reader.parts(job.job_id, job.attempt)
        stored = None if row.node is None or row.job_id is not None else reader.node(row.node)
    if row.job_id is not None and job is None:
        return None  # over for so long that it was removed
    asks = "" if job is None else notices.asked_by(job, event)
    if not asks and (event not in wanted.events or (job is not None and job.array_id is not None)):
        return None
    shown = None
    if job is not None:
        shown = {key: value for key, value in render.job(job, parts).items() if key not in PRIVATE}
        call_by_name(context, (shown,), "detail")
    node = None
    if row.node is not None and row.job_id is None:
        node = {"node_id": row.node, "state": stored.state.value if stored else "UNKNOWN", "reason": row.detail}
    return {
        "event": event,
        "id": number,
        "time": render.moment(row.at),
        "cluster": context.config.cluster_name,
        "by": row.who,
        "detail": row.detail,
        "state": row.what.partition(": ")[2] or None,
        "job": shown,
        "node": node,
        "mail": _mail(job, asks) if job is not None and asks else None,
    }


def _mail(job: Job, asks: str) -> Json:
    return {"user": job.spec.mail_user or job.user, "type": asks}
