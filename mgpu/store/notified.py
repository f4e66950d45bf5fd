"""How far `notify:` was told of the rows of the audit, and those that follow."""

from __future__ import annotations

from sqlalchemy import bindparam, func, select, update

from mgpu.core.model import Audit, Job, JobId
from mgpu.store import tables
from mgpu.store.reading import Reader
from mgpu.store.rows import columns, from_row
from mgpu.store.statement import Statement
from mgpu.store.writing import Writer

NOBODY = -1  # a master without `notify:` was the last

_CURSOR = Statement(select(tables.meta.c.notified))
_NEWEST = Statement(select(func.max(tables.audit.c.audit_id)))
_COLUMNS = ", ".join(column.name for column in columns(Audit, tables.audit))
_AFTER = f"SELECT audit_id, {_COLUMNS} FROM audit WHERE audit_id > ? ORDER BY audit_id LIMIT ?"
_ADVANCE = Statement(update(tables.meta).values(notified=bindparam("to")))
_NEARING = (
    "SELECT job_id FROM jobs WHERE state = 'RUNNING' AND instr(spec, 'TIME_LIMIT_') > 0 AND " + tables.ACTIVE.text
)


def cursor(reader: Reader) -> int:
    return int(_CURSOR.run(reader.driver, {}).fetchone()[0])


def newest(reader: Reader) -> int:
    return int(_NEWEST.run(reader.driver, {}).fetchone()[0] or 0)


def rows_after(reader: Reader, number: int, most: int) -> list[tuple[int, Audit]]:
    """With their numbers, in order."""
    found = reader.driver.execute(_AFTER, (number, most))
    return [(row[0], from_row(Audit, row[1:])) for row in found]


def advance(writer: Writer, number: int) -> None:
    _ADVANCE.run(writer.driver, {"to": number})


def with_limits(reader: Reader) -> list[Job]:
    """Those that run and may want a word before their time is up."""
    found = [reader.job(JobId(row[0])) for row in reader.driver.execute(_NEARING)]
    return [job for job in found if job is not None]
