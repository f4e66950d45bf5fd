"""Who did what: the rows of the audit, and those of what was refused."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, tzinfo

from mgpu import clock
from mgpu.core import payload as read
from mgpu.core.array import parse_reference
from mgpu.core.errors import NotAllowed, NotFound, RequestError, StoreError
from mgpu.core.model import Audit, JobId, NodeName
from mgpu.ops.arrays import find
from mgpu.ops.begin import BEFORE_CLOCK, clock_time, day_named, unit_seconds
from mgpu.ops.context import Caller, Context
from mgpu.ops.jobs import parse_count
from mgpu.ops.render import Json, moment
from mgpu.ops.zone import zone_named
from mgpu.store.audits import AuditFilter

REFUSED = "refused"
LIMIT, MOST = 100, 100_000
TOLD_ONE_BY_ONE = 20  # jobs of one request
LONGEST = 500  # letters of what was said of a refusal
_AGO = re.compile(r"(?:now\s*-\s*)?(\d{1,9})\s*([a-z]+)", re.ASCII)
_DAY = timedelta(days=1)
_FORMS = "write 2h, 7days, 08:00, yesterday, 2026-12-01 or 2026-12-01T08:00"

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
            since=_since(query),
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


def _since(query: Mapping[str, str]) -> float | None:
    text = query.get("since", "")
    return parse_since(text, clock.now(), zone_named(query.get("zone"))) if text else None


def parse_since(text: str, now: float, zone: tzinfo | None = None) -> float:
    """Seconds since the epoch. A time of day is the last such; `zone` None = this machine's. Raises RequestError."""
    word = text.strip().lower()
    try:
        if found := _AGO.fullmatch(word):
            return now - unit_seconds(found[1], found[2])
        here = datetime.fromtimestamp(now, zone)
        return _moment(word, here).replace(tzinfo=here.tzinfo).timestamp()
    except (ValueError, OverflowError):
        raise RequestError(f"--since '{read.shown(text)}' cannot be read: {_FORMS}") from None


def _moment(word: str, here: datetime) -> datetime:
    """Of the clock on the wall. Raises ValueError."""
    wall = here.replace(tzinfo=None)
    if (at := clock_time(word)) is not None:
        moment = datetime.combine(here, at)
        return moment if moment <= wall else moment - _DAY
    day_word, *rest = BEFORE_CLOCK.split(word, maxsplit=1)
    at = clock_time(rest[0]) if rest else datetime.min.time()
    if at is None:
        raise ValueError(word)
    if day_word == "yesterday":
        return datetime.combine(here.date() - _DAY, at)
    day, dated = day_named(day_word, here.date())
    moment = datetime.combine(day, at)
    return moment if dated or moment <= wall else moment.replace(year=moment.year - 1)


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
