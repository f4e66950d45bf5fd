"""Who did what: the rows of the audit, and those of what was refused."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from mgpu.core.array import parse_reference
from mgpu.core.errors import NotAllowed, NotFound, RequestError, StoreError
from mgpu.core.model import Audit, JobId, NodeName
from mgpu.ops.arrays import find
from mgpu.ops.context import Caller, Context
from mgpu.ops.jobs import parse_count
from mgpu.ops.render import Json, moment
from mgpu.ops.since import moment_asked
from mgpu.store.audits import AuditFilter

REFUSED = "refused"
LIMIT, MOST = 100, 100_000
TOLD_ONE_BY_ONE = 20  # jobs of one request
LONGEST = 500  # letters of what was said of a refusal

log = logging.getLogger(__name__)


def list_entries(context: Context, caller: Caller, query: Mapping[str, str]) -> Json:
    """The newest that match, oldest of them first. Of others' doings only an admin hears, but for what was done to jobs
    of one's own. Raises RequestError, NotFound."""
    admin = context.is_operator(caller)
    with context.store.read() as r:
        job_ids: tuple[JobId, ...] = ()
        if query.get("job"):
            job_ids = (find(r, parse_reference(query["job"])).job_id,)
        wanted = AuditFilter(
            who=query.get("user", ""),
            job_ids=job_ids,
            node=context.node_config(query["node"]).name if query.get("node") else None,
            since=moment_asked(query, "since"),
            result=REFUSED if query.get("refused") == "1" else None,
            of_uid=None if admin else caller.uid,
            limit=parse_count("limit", query.get("limit") or str(LIMIT), MOST),
        )
        return {"audit": [_entry(entry) for entry in r.audited(wanted)]}


def _entry(entry: Audit) -> Json:
    return {
        "time": moment(entry.at),
        "user": entry.who,
        "uid": entry.uid,
        "origin": entry.origin,
        "action": entry.what,
        "job_id": entry.job_id,
        "node": entry.node,
        "result": entry.result,
        "detail": entry.detail,
    }


def refused(context: Context, caller: Caller, what: str, where: tuple[str, str], error: NotAllowed) -> None:
    """That this was not allowed. `where`: the names of the job and of the node that it was about, "" = of none. That it
    cannot be stored changes nothing about it."""
    job, node = where
    try:
        with context.store.read() as r:
            job_id = find(r, parse_reference(job)).job_id if job else None
    except (NotFound, RequestError):
        job_id = None
    known = {config.name for config in context.config.nodes}
    name = NodeName(node) if node in known else None
    try:
        with context.store.write() as w:
            w.audit(caller.entry(what, job_id, name, error.message[:LONGEST], REFUSED))
    except StoreError as trouble:
        log.warning("refused %s to %s, which the audit could not be told: %s", what, caller.user, trouble)


def refused_job(caller: Caller, what: str, job_id: JobId, error: NotAllowed) -> Audit:
    """Of one job, where others were named beside it."""
    return caller.entry(what, job_id, detail=error.message[:LONGEST], result=REFUSED)


def refused_jobs(caller: Caller, what: str, job_ids: Sequence[JobId]) -> Audit:
    """Of many at once: who names ten thousand jobs of others does not fill the disk with it."""
    named = ",".join(map(str, job_ids))
    named = named if len(named) <= LONGEST else f"{named[:LONGEST].rpartition(',')[0]},..."
    return caller.entry(what, detail=f"{len(job_ids)} more jobs of others: {named}", result=REFUSED)
