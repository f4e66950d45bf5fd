"""Which rows of the audit are meant, as a query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, or_, select

from mgpu.core.model import Audit, JobId, NodeName
from mgpu.store import tables
from mgpu.store.rows import columns


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """All that is given must hold; `job_ids` () and `node` None = any. `of_uid`: what that user did, and what was done
    to jobs of theirs; None = everybody's. The newest `limit` of them."""

    who: str = ""
    what: str = ""
    job_ids: tuple[JobId, ...] = ()
    node: NodeName | None = None
    since: float | None = None
    result: str | None = None
    of_uid: int | None = None
    limit: int = 100


def newest_first(wanted: AuditFilter) -> Select[Any]:
    """In the columns of an Audit."""
    table, jobs = tables.audit.c, tables.jobs.c
    query = select(*columns(Audit, tables.audit)).order_by(table.audit_id.desc()).limit(wanted.limit)
    for column, value in ((table.who, wanted.who), (table.what, wanted.what)):
        if value:
            query = query.where(column == value)
    if wanted.job_ids:
        query = query.where(table.job_id.in_([int(job_id) for job_id in wanted.job_ids]))
    if wanted.node is not None:
        query = query.where(table.node == wanted.node)
    if wanted.since is not None:
        query = query.where(table.at >= wanted.since)
    if wanted.result is not None:
        query = query.where(table.result == wanted.result)
    if wanted.of_uid is not None:
        own = select(jobs.job_id).where(jobs.uid == wanted.of_uid)
        query = query.where(or_(table.uid == wanted.of_uid, table.job_id.in_(own)))
    return query
