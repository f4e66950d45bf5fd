"""Whether what is stored agrees with itself: as SQLite sees it, and as mgpu means it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from mgpu.core import codec
from mgpu.core.finding import Finding, failure, ok, skipped, warning
from mgpu.core.model import JobSpec
from mgpu.core.usage import COARSE_S, FINE_S
from mgpu.store import tables
from mgpu.store.copies import RESTORE, faults, opened, schema_of
from mgpu.store.samples import unpack

MOST = 20  # of each kind are told
REPORT = "mgpu stop, mgpu db backup, and report it: jobs run on meanwhile"

# what -> (a query for what is wrong, how one of its rows reads)
_RULES = {
    "holds": (
        """SELECT h.job_id, h.attempt, h.rank, h.node, h.uuid FROM holds h JOIN parts p USING (job_id, attempt, rank)
        WHERE (h.released IS NULL) <> (p.state <> 'ENDED')""",
        "{3}: {4} is held or free against the state of job {0}.{1} rank {2}",
    ),
    "devices": (
        """SELECT node, uuid, count(*) FROM holds WHERE released IS NULL GROUP BY node, uuid HAVING count(*) > 1""",
        "{0}: {1} is held {2} times",
    ),
    "missing": (
        """SELECT p.job_id, p.attempt, p.rank, u.value FROM parts p, json_each(p.uuids) u WHERE p.state <> 'ENDED'
        AND NOT EXISTS (SELECT 1 FROM holds h WHERE h.released IS NULL AND h.job_id = p.job_id
        AND h.attempt = p.attempt AND h.rank = p.rank AND h.uuid = u.value)""",
        "job {0}.{1} rank {2} runs on {3}, which nobody holds",
    ),
    "attempts": (
        """SELECT a.job_id, a.number, a.state FROM attempts a WHERE (a.state = 'ENDED') <> NOT EXISTS
        (SELECT 1 FROM parts p WHERE p.job_id = a.job_id AND p.attempt = a.number AND p.state <> 'ENDED')""",
        "attempt {0}.{1} is {2}, which its parts are not",
    ),
    "jobs": (
        """SELECT j.job_id, j.state FROM jobs j WHERE j.rest IS NULL AND (j.state = 'RUNNING') <> EXISTS
        (SELECT 1 FROM parts p WHERE p.job_id = j.job_id AND p.state <> 'ENDED')""",
        "job {0} is {1}, which its parts are not",
    ),
    "ends": (
        f"SELECT job_id, state FROM jobs WHERE {tables.ENDED.text} AND end_time IS NULL",
        "job {0} is {1}, and nobody knows since when",
    ),
    "arrays": (
        """SELECT t.job_id, t.array_id FROM jobs t WHERE t.array_id IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM jobs a WHERE a.job_id = t.array_id AND a.rest IS NOT NULL)""",
        "job {0} is a task of array {1}, which is not there",
    ),
    "numbers": (
        """SELECT seq, (SELECT coalesce(max(job_id), 0) FROM jobs) FROM sqlite_sequence WHERE name = 'jobs'
        AND seq < (SELECT coalesce(max(job_id), 0) FROM jobs)""",
        "the next job would be {0} + 1, and there is a job {1}",
    ),
    "samples": (
        f"""SELECT node, length_s, start FROM samples WHERE length_s NOT IN ({FINE_S}, {COARSE_S})
        OR start % length_s <> 0 OR node NOT IN (SELECT node FROM sampled_devices)""",
        "a sample of {0}, of {1} s from {2}, is of no GPU or length that is known",
    ),
    "identity": ("SELECT count(*) FROM meta HAVING count(*) <> 1", "there are {0} identities of this database, not 1"),
}


def check(path: Path, spool: Path) -> Iterator[Finding]:
    """Of one picture of the database, and of the files of the spool. Raises StoreError where it cannot be opened."""
    files = attempts_in(spool)  # before the rows: a row is there before its files
    with opened(path) as connection:
        try:
            found = faults(connection)
        except sqlite3.DatabaseError as error:
            yield failure("file", str(error), RESTORE)
            return
        yield from (failure("file", fault, RESTORE) for fault in found)
        if found:
            return
        yield ok("file", f"{path}: SQLite finds nothing wrong")
        schema = schema_of(connection)
        if schema != tables.REVISION:
            what = f"schema {schema or 'none of ours'}, and this version is of {tables.REVISION}"
            yield warning("schema", what, "mgpu db migrate --dry-run")
            yield skipped("contents", "of another schema")
            return
        connection.execute("BEGIN")
        yield ok("schema", schema)
        for name, (query, words) in _RULES.items():
            yield from _rule(connection, name, query, words)
        yield from _values(connection)
        yield from _entries(connection)
        yield from _spool(connection, spool, files)


def _rule(connection: sqlite3.Connection, name: str, query: str, words: str) -> Iterator[Finding]:
    rows = connection.execute(query).fetchmany(MOST)
    yield from (failure(name, words.format(*row), REPORT) for row in rows)
    if not rows:
        yield ok(name, "agree")


def _values(connection: sqlite3.Connection) -> Iterator[Finding]:
    """What the master has to be able to read of jobs that are not over."""
    told = 0
    for job_id, spec in connection.execute(f"SELECT job_id, spec FROM jobs WHERE {tables.ACTIVE.text}"):
        try:
            codec.loads(JobSpec, spec)
        except (ValueError, TypeError, LookupError) as error:
            told += 1
            if told <= MOST:
                yield failure("values", f"job {job_id} cannot be read: {type(error).__name__}: {error}", REPORT)
    if not told:
        yield ok("values", "of jobs that wait or run can be read")


def _entries(connection: sqlite3.Connection) -> Iterator[Finding]:
    """The newest minutes and quarters of an hour of each node: all of them are too many to be read."""
    told = 0
    newest = "SELECT node, length_s, max(start), entries FROM samples GROUP BY node, length_s"
    for node, length_s, start, packed in connection.execute(newest):
        try:
            unpack(packed, {})
        except (ValueError, TypeError) as error:
            told += 1
            if told <= MOST:
                yield failure("entries", f"of {node}, of {length_s} s from {start}, cannot be read: {error}", REPORT)
    if not told:
        yield ok("entries", "of the newest samples can be read")


def attempts_in(spool: Path) -> set[tuple[int, int]]:
    """(job, attempt) of the folders there."""
    found = set()
    for job in _numbered(spool):
        found |= {(job, attempt) for attempt in _numbered(spool / str(job))}
    return found


def _numbered(folder: Path) -> list[int]:
    try:
        names = [entry.name for entry in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [int(name) for name in names if name.isascii() and name.isdigit()]


def _spool(connection: sqlite3.Connection, spool: Path, files: set[tuple[int, int]]) -> Iterator[Finding]:
    """Files without rows. The other way round tells nothing: who wrote nothing has no file."""
    rows = {(job_id, number) for job_id, number in connection.execute("SELECT job_id, number FROM attempts")}
    strange = sorted(files - rows)
    for job_id, number in strange[:MOST]:
        hint = "nobody shows it: move it away, lest an attempt of that number is taken for it"
        yield warning("spool", f"{spool}/{job_id}/{number} is of no attempt that is known", hint)
    if len(strange) > MOST:
        yield warning("spool", f"and {len(strange) - MOST} more", "")
    if not strange:
        yield ok("spool", f"{len(files)} attempts have output, all of them known")
