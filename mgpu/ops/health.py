"""Whether the master does its work: passes go on, and what is stored can be read."""

from __future__ import annotations

from mgpu import clock
from mgpu.core.errors import StoreError
from mgpu.core.model import JobId
from mgpu.ops.context import Context
from mgpu.ops.render import Json

PATIENCE_S = 60.0  # beside the pauses that are meant, for one pass


def health(context: Context) -> Json:
    """`status` "ok", or "failing" with the reason."""
    reason = _trouble(context)
    return {"status": "failing", "reason": reason} if reason else {"status": "ok"}


def _trouble(context: Context) -> str:
    meters = context.control.meters
    since = clock.now() - context.started if meters.passed_at is None else clock.monotonic() - meters.passed_at
    if since > 2 * context.config.heartbeat_interval_s + PATIENCE_S:
        return f"the last pass was over {since:.0f} s ago"
    if meters.trouble:
        return f"the last pass failed: {meters.trouble}"
    try:
        with context.store.read() as reader:
            reader.job(JobId(0))  # whether anything can be read
    except StoreError as error:
        return error.message
    return ""
