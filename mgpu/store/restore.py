"""A backup in the place of the database. It keeps its id, so what ran then and runs still is found on its nodes; and
what happened since must not meet what comes:

- numbers of jobs go on behind all that may have been given since (run directories and output have them in their names);
- what waited then is held: it may have run since;
- output of attempts that the backup does not know is put aside: a new attempt of that number would be taken for it.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mgpu.core.errors import MgpuError, StoreError
from mgpu.core.model import HELD_BY_ADMIN
from mgpu.store import copies, tables
from mgpu.store.check import attempts_in

MARGIN = 10_000  # numbers, where nobody can say how many were given since
WHO, WHAT = "restore", "restored from a backup"


class Restored(NamedTuple):
    """`aside`: where what was there before lies; `held` jobs; `moved` folders of output; the `next` job's number."""

    aside: Path
    held: int
    moved: int
    next: int


def restore(source: Path, path: Path, spool: Path, now: float, aside: Path) -> Restored:
    """The caller holds the master's lock. Until the very end nothing is changed. Raises MgpuError."""
    schema = _sound(source)
    if schema > tables.REVISION:
        raise StoreError(
            f"{source}: made by a newer version of mgpu (schema {schema})", "install that version or newer"
        )
    files = attempts_in(spool)
    fresh = path.with_name(f".{path.name}.restoring")
    fresh.unlink(missing_ok=True)
    try:
        aside.mkdir(mode=0o700)
        copies.back_up(source, fresh, False, lambda _left, _pages: None)
        given, here = _given(path), max((job_id for job_id, _ in files), default=0)
        with copies.opened(fresh) as connection:
            last = max(_sequence(connection), given or 0, here) + (MARGIN if given is None else 0)
            held = _prepare(connection, last, now, source)
            known = set(connection.execute("SELECT job_id, number FROM attempts"))
        _swap(path, fresh, aside)
        moved = [_move(spool, aside / "spool", *one) for one in sorted(files - known)]
    except OSError as error:
        told = f"{error.filename or path}: {error.strerror or error}"
        raise StoreError(told, f"what was there lies in {aside}, or where it was") from error
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
            aside.rmdir()  # where nothing came to be in it
    return Restored(aside, held, len(moved), last + 1)


def _sound(source: Path) -> str:
    """Its schema."""
    with copies.opened(source) as connection:
        schema = copies.schema_of(connection)
        if not schema:
            raise StoreError(f"{source}: not a database of mgpu")
        if found := copies.faults(connection):
            raise StoreError(f"{source}: {found[0]}", "take another backup")
    return schema


def _given(path: Path) -> int | None:
    """The last number that the present database has given; None = it cannot be read."""
    try:
        with copies.opened(path) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return _sequence(connection)
    except MgpuError:
        return None


def _sequence(connection: sqlite3.Connection) -> int:
    found = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'jobs'").fetchone()
    return int(found[0]) if found else 0


def _prepare(connection: sqlite3.Connection, last: int, now: float, source: Path) -> int:
    """How many are held. `last`: no number up to that is given again."""
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DELETE FROM sqlite_sequence WHERE name = 'jobs'")
        connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('jobs', ?)", (last,))
        held = 0
        if "held" in {row[1] for row in connection.execute("PRAGMA table_info(jobs)")}:
            query = "UPDATE jobs SET held = ? WHERE state = 'PENDING' AND held = ''"
            held = connection.execute(query, (f"{HELD_BY_ADMIN} by {WHO}",)).rowcount
        row = (now, WHO, WHAT, os.fspath(source).encode("utf-8", "backslashreplace").decode())
        connection.execute("INSERT INTO audit (at, who, what, detail) VALUES (?, ?, ?, ?)", row)
        connection.execute("COMMIT")
    return held


def _swap(path: Path, fresh: Path, aside: Path) -> None:
    """At no moment there is no database: a master would make an empty one."""
    if path.exists():
        os.link(path, aside / path.name)
    for suffix in ("-wal", "-shm"):  # of the one before: SQLite would work it into the new one
        with suppress(FileNotFoundError):
            beside = path.with_name(f"{path.name}{suffix}")
            beside.replace(aside / beside.name)
    fresh.replace(path)
    copies.sync(path.parent)


def _move(spool: Path, aside: Path, job_id: int, number: int) -> Path:
    there = aside / str(job_id)
    there.mkdir(mode=0o700, parents=True, exist_ok=True)
    return (spool / str(job_id) / str(number)).replace(there / str(number))
