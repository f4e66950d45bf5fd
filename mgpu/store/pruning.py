"""Which jobs are long over and needed by nothing any more, and how they go: with attempts, parts, holds and their
use. Rows of the audit stay as they are; the number of a job that is gone is never given again."""

from __future__ import annotations

from collections.abc import Iterable

from mgpu.core.model import JobId
from mgpu.store import tables
from mgpu.store.filters import each_of
from mgpu.store.reading import Reader
from mgpu.store.writing import Writer

# A part that is still to be seen to, or whose use of GPUs counts for the order of the queue. Of `j`, and in SQL since
# the tasks of an array are asked the same.
_NEEDED = """SELECT 1 FROM parts p WHERE p.job_id = j.job_id AND (p.state <> 'ENDED' OR p.collected = 0
    OR (p.started IS NOT NULL AND p.uuids <> '[]' AND coalesce(p.ended, :counts) >= :counts))"""
_WAITED_FOR = f"""SELECT json_extract(c.value, '$.job_id') FROM jobs w, json_each(w.spec, '$.dependency.conditions') c
    WHERE w.{tables.ACTIVE.text}"""
_OVER = f"""SELECT job_id FROM jobs WHERE {tables.ENDED.text} AND end_time < :before AND array_id IS NULL
    AND NOT EXISTS (SELECT 1 FROM jobs j WHERE (j.job_id = jobs.job_id OR j.array_id = jobs.job_id)
        AND (j.state IN ('PENDING', 'RUNNING') OR EXISTS ({_NEEDED}) OR j.job_id IN ({_WAITED_FOR})))
    ORDER BY end_time LIMIT :most"""
_ROWS = (
    "DELETE FROM uses WHERE job_id IN (SELECT value FROM json_each(?))",
    "DELETE FROM holds WHERE job_id IN (SELECT value FROM json_each(?))",
    "DELETE FROM parts WHERE job_id IN (SELECT value FROM json_each(?))",
    "DELETE FROM attempts WHERE job_id IN (SELECT value FROM json_each(?))",
    "DELETE FROM jobs WHERE job_id IN (SELECT value FROM json_each(?))",
)
_SILENT = f"""SELECT job_id FROM jobs j WHERE job_id IN (SELECT value FROM json_each(?)) AND {tables.ENDED.text}
    AND end_time < ? AND NOT EXISTS (SELECT 1 FROM parts p WHERE p.job_id = j.job_id
        AND (p.state <> 'ENDED' OR p.collected = 0))"""


def over(reader: Reader, before: float, counts: float, most: int) -> list[JobId]:
    """Jobs that ended before that, arrays as a whole, the oldest first: none that another one waits for, whose node
    still owes a fence or output, or whose GPUs were in use at or after `counts`."""
    values = {"before": before, "counts": counts, "most": most}
    return [JobId(row[0]) for row in reader.driver.execute(_OVER, values)]


def remove(writer: Writer, job_id: JobId, most: int) -> list[JobId]:
    """At most so many rows of jobs; whose. Of a large array its tasks go first, piece by piece, and then itself."""
    query = "SELECT job_id FROM jobs WHERE array_id = ? LIMIT ?"
    going = [JobId(row[0]) for row in writer.driver.execute(query, (job_id, most))]
    if len(going) < most:
        going.append(job_id)
    for statement in _ROWS:
        writer.driver.execute(statement, (each_of(going),))
    return going


def silent(reader: Reader, job_ids: Iterable[JobId], before: float) -> list[JobId]:
    """Those of these that ended before that, and of which no more output will come."""
    return [JobId(row[0]) for row in reader.driver.execute(_SILENT, (each_of(job_ids), before))]


def gone(reader: Reader, job_ids: Iterable[JobId]) -> list[JobId]:
    """Those of these that the audit knows, and that are no rows any more."""
    query = """SELECT value FROM json_each(?) WHERE value NOT IN (SELECT job_id FROM jobs)
        AND EXISTS (SELECT 1 FROM audit WHERE audit.job_id = value)"""
    return [JobId(row[0]) for row in reader.driver.execute(query, (each_of(job_ids),))]
