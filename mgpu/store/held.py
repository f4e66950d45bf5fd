"""What jobs held in a stretch of time, how these jobs went, and how nodes came and went: for reports."""

from __future__ import annotations

from collections.abc import Iterable

from mgpu.core.model import FailureClass, JobId, JobState
from mgpu.core.report import Begun, Change, Held, Stretch
from mgpu.store.filters import each_of
from mgpu.store.reading import Reader

_LOST = (FailureClass.NODE.value, FailureClass.NODE_LOST.value)
_HELD = """SELECT p.job_id, j.user, j.uid, coalesce(json_extract(j.spec, '$.account'), ''), p.node,
    json_array_length(p.uuids), p.started, CASE WHEN p.state = 'ENDED' THEN coalesce(p.ended, p.started) END,
    coalesce(u.measured_s, 0.0), coalesce(u.busy_s, 0.0), coalesce(u.idle_s, 0.0), u.memory_mib
    FROM parts p JOIN jobs j ON j.job_id = p.job_id
    LEFT JOIN uses u ON u.job_id = p.job_id AND u.attempt = p.attempt AND u.rank = p.rank
    WHERE p.started < ? AND (p.state <> 'ENDED' OR coalesce(p.ended, p.started) >= ?)"""
_RAN = """SELECT j.job_id, j.state, j.submit_time,
    (SELECT min(started) FROM attempts a WHERE a.job_id = j.job_id), j.end_time
    FROM jobs j WHERE j.job_id IN (SELECT value FROM json_each(?))"""
_CHANGES = """SELECT at, what = 'node DOWN' FROM audit WHERE node = ? AND at < ?
    AND what IN ('node UP', 'node DOWN', 'node DRAINING', 'node DRAINED', 'node UNKNOWN') ORDER BY audit_id"""
_FAILURES = """SELECT node, count(*) FROM parts WHERE failure IN (?, ?) AND ended >= ? AND ended < ? GROUP BY node"""
_SUSPECT = """SELECT node, count(DISTINCT detail) FROM audit WHERE what = 'GPU suspect' AND at >= ? AND at < ?
    AND node IS NOT NULL GROUP BY node"""


def held(reader: Reader, stretch: Stretch) -> list[Held]:
    """Parts that began and lie in the stretch, if only in part."""
    return [Held._make(row) for row in reader.driver.execute(_HELD, (stretch.until, stretch.since))]


def ran(reader: Reader, job_ids: Iterable[JobId]) -> list[Begun]:
    rows = reader.driver.execute(_RAN, (each_of(job_ids),))
    return [Begun(JobId(row[0]), JobState(row[1]), *row[2:]) for row in rows]


def changes(reader: Reader, node: str, until: float) -> list[Change]:
    """Of its state, from the first that is told."""
    return [Change(at, bool(down)) for at, down in reader.driver.execute(_CHANGES, (node, until))]


def failures(reader: Reader, stretch: Stretch) -> dict[str, int]:
    """Of jobs, that were a node's, by node."""
    return dict(reader.driver.execute(_FAILURES, (*_LOST, *stretch)).fetchall())


def suspects(reader: Reader, stretch: Stretch) -> dict[str, int]:
    """How many GPUs of a node became suspect."""
    return dict(reader.driver.execute(_SUSPECT, stretch).fetchall())
