"""A backup in the place of the database. It keeps its id, so what ran then and runs still is found on its nodes; and
what happened since must not meet what comes:

- numbers of jobs go on behind all that may have been given since (run directories and output have them in their names);
- what waited then is held: it may have run since;
- output of attempts that the backup does not know is put aside: a new attempt of that number would be taken for it;
- a token that was revoked since stays revoked, and where nobody can say which were, all are.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mgpu.core.errors import MgpuError, StoreError
from mgpu.core.model import HELD_BY_ADMIN
from mgpu.store import copies, ownership, tables
from mgpu.store.check import attempts_in
from mgpu.store.spool import sync_path

MARGIN = 10_000  # numbers, where nobody can say how many were given since
WHO, WHAT = "restore", "restored from a backup"


class Restored(NamedTuple):
    """`aside`: where what was there before lies; `held` jobs; `moved` folders of output; the `next` job's number;
    `revoked`: tokens that held at the time of the backup and do not now."""

    aside: Path
    held: int
    moved: int
    next: int
    revoked: int


class _Present(NamedTuple):
    """What the database says that is there now: its id, the last number that it has given, and when which tokens were
    revoked."""

    database_id: str
    last: int
    revoked: dict[str, float]


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
        ownership.give_to_folder(aside)
        copies.back_up(source, fresh, False, lambda _left, _pages: None)
        present, here = _present(path), max((job_id for job_id, _ in files), default=0)
        with copies.opened(fresh) as connection:
            present = _of_the_same(connection, present, source, path)
            last = max(_sequence(connection), here, present.last if present else 0) + (0 if present else MARGIN)
            held, revoked = _prepare(connection, last, now, source, None if present is None else present.revoked)
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
    return Restored(aside, held, len(moved), last + 1, revoked)


def _sound(source: Path) -> str:
    """Its schema."""
    with copies.opened(source) as connection:
        schema = copies.schema_of(connection)
        if not schema:
            raise StoreError(f"{source}: not a database of mgpu")
        if found := copies.faults(connection):
            raise StoreError(f"{source}: {found[0]}", "take another backup")
    return schema


def _present(path: Path) -> _Present | None:
    """None = it cannot be read."""
    try:
        with copies.opened(path) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            revoked = {}
            if _columns(connection, "tokens"):
                query = "SELECT token_id, revoked FROM tokens WHERE revoked IS NOT NULL"
                revoked = dict(connection.execute(query).fetchall())
            return _Present(_identity(connection), _sequence(connection), revoked)
    except MgpuError:
        return None


def _of_the_same(connection: sqlite3.Connection, present: _Present | None, source: Path, path: Path) -> _Present | None:
    """What is known of the time since the backup. One that is empty yet says nothing of that. Raises StoreError for the
    backup of another master, whose jobs are nothing to the nodes of this one."""
    if present is None or present.database_id == _identity(connection):
        return present
    if present.last:
        hint = f"if it is to take its place all the same, move {path} away first"
        raise StoreError(f"{source}: a backup of another database than {path}", hint)
    return None


def _identity(connection: sqlite3.Connection) -> str:
    found = connection.execute("SELECT database_id FROM meta").fetchone()
    return str(found[0]) if found else ""


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}


def _sequence(connection: sqlite3.Connection) -> int:
    found = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'jobs'").fetchone()
    return int(found[0]) if found else 0


def _prepare(
    connection: sqlite3.Connection, last: int, now: float, source: Path, since: dict[str, float] | None
) -> tuple[int, int]:
    """How many jobs are held and tokens revoked. `last`: no number up to that is given again. `since`: tokens that were
    revoked, None = nobody knows."""
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DELETE FROM sqlite_sequence WHERE name = 'jobs'")
        connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('jobs', ?)", (last,))
        held = 0
        if "held" in _columns(connection, "jobs"):
            query = "UPDATE jobs SET held = ? WHERE state = 'PENDING' AND held = ''"
            held = connection.execute(query, (f"{HELD_BY_ADMIN} by {WHO}",)).rowcount
        revoked = _revoke(connection, now, since) if _columns(connection, "tokens") else 0
        row = (now, WHO, WHAT, os.fspath(source).encode("utf-8", "backslashreplace").decode())
        connection.execute("INSERT INTO audit (at, who, what, detail) VALUES (?, ?, ?, ?)", row)
        connection.execute("COMMIT")
    return held, revoked


def _revoke(connection: sqlite3.Connection, now: float, since: dict[str, float] | None) -> int:
    query = "UPDATE tokens SET revoked = ? WHERE revoked IS NULL"
    if since is None:
        return connection.execute(query, (now,)).rowcount
    rows = ((at, token_id) for token_id, at in since.items())
    return connection.executemany(f"{query} AND token_id = ?", rows).rowcount if since else 0


def _swap(path: Path, fresh: Path, aside: Path) -> None:
    """At no moment there is no database: a master would make an empty one."""
    if path.exists():
        os.link(path, aside / path.name)
    for suffix in ("-wal", "-shm"):  # of the one before: SQLite would work it into the new one
        with suppress(FileNotFoundError):
            beside = path.with_name(f"{path.name}{suffix}")
            beside.replace(aside / beside.name)
    fresh.replace(path)
    sync_path(path.parent)


def _move(spool: Path, aside: Path, job_id: int, number: int) -> Path:
    there = aside / str(job_id)
    for folder in (aside, there):
        if not folder.exists():
            folder.mkdir(mode=0o700)
            ownership.give_to_folder(folder)
    return (spool / str(job_id) / str(number)).replace(there / str(number))
