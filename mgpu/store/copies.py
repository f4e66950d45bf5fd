"""The database file as a whole, beside the master that may be using it: copied, made smaller, brought to this schema.

SQLite is asked by itself here, without the Store: what is looked at may be damaged, of another schema, or in use.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from mgpu.core.errors import NotFound, RequestError, StoreError
from mgpu.store import ownership, tables
from mgpu.store.spool import sync_path
from mgpu.store.store import BUSY_TIMEOUT_S

PAGES = 1000  # copied between two words about how far it is
RESTORE = "docs/operation.md says how a backup is put in its place"

Progress = Callable[[int, int], None]  # pages still to come, pages in all


class Written(NamedTuple):
    path: Path
    size: int  # bytes
    schema: str


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """One that is there. Raises StoreError, NotFound."""
    if not path.exists():
        raise NotFound(f"{path}: there is no database", "name its folder with --state-dir")
    try:
        uri = f"file:{quote(os.fspath(path.absolute()))}?mode=rw"
        with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise StoreError(f"{path}: {error}", _hint(path, str(error))) from error


def _hint(path: Path, cause: str) -> str:
    if "malformed" in cause or "not a database" in cause:
        return RESTORE
    if not os.access(path, os.R_OK | os.W_OK):
        return "whose it is (who runs the master) and root may do this"
    return "make room and try again" if "full" in cause else ""


def schema_of(connection: sqlite3.Connection) -> str:
    """ "" = it is none of mgpu's."""
    try:
        found = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.OperationalError:
        return ""
    return str(found[0]) if found else ""


def back_up(path: Path, target: Path, force: bool, progress: Progress) -> Written:
    """The database as it is at this moment, in one file (0600), looked through once it is written. While it is copied
    others go on writing. All of it, or no file. Raises RequestError where there is one already and not `force`."""
    _require_place(path, target)
    if not force and os.path.lexists(target):
        raise RequestError(f"{target} is there already", "name another FILE, or replace it with --force")
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        os.close(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
        ownership.give_to_folder(partial)
        with opened(path) as source:
            schema = schema_of(source)
            if not schema:
                raise StoreError(f"{path}: not a database of mgpu", "name its folder with --state-dir")
            _copy(source, partial, progress)
        _put(partial, target, force)
    except FileExistsError:
        raise RequestError(f"{target} is there already", "name another FILE, or replace it with --force") from None
    except OSError as error:
        raise StoreError(f"{target}: cannot be written: {error.strerror or error}") from error
    finally:
        for name in (partial, partial.with_name(f"{partial.name}-journal")):
            name.unlink(missing_ok=True)
    return Written(target, target.stat().st_size, schema)


def _require_place(path: Path, target: Path) -> None:
    """Raises RequestError where --force would do harm: in place of the database or of what is kept beside it, of a
    device, of a folder."""
    kind = _kind(target)
    if not target.name or kind == stat.S_IFDIR:
        raise RequestError(f"{target} is a folder", "name a file in it")
    if kind not in (0, stat.S_IFREG, stat.S_IFLNK):
        raise RequestError(f"{target} is no file that a backup could replace", "name another FILE")
    here = os.path.realpath(target.parent) == os.path.realpath(path.parent)
    if here and target.name in ("lock", path.name, *(f"{path.name}-{more}" for more in ("wal", "shm", "journal"))):
        raise RequestError(f"{target} belongs to the database itself", "name another FILE")


def _kind(path: Path) -> int:
    """0 = nothing is there, or nobody tells."""
    with suppress(OSError):
        return stat.S_IFMT(path.lstat().st_mode)
    return 0


def _copy(source: sqlite3.Connection, partial: Path, progress: Progress) -> None:
    source.execute("BEGIN")  # one picture: without it a copy begins anew whenever somebody has written
    source.execute("SELECT count(*) FROM sqlite_master").fetchone()
    with closing(sqlite3.connect(partial, isolation_level=None)) as target:
        source.backup(target, pages=PAGES, progress=lambda _status, left, pages: progress(left, pages), sleep=0)
        target.execute("PRAGMA journal_mode = DELETE").fetchone()  # one file, with nothing beside it
        found = faults(target)
    source.execute("COMMIT")
    if found:
        raise StoreError(f"the copy is not sound: {found[0]}", "mgpu db check looks at the database itself")


def _put(partial: Path, target: Path, force: bool) -> None:
    """On the disk, under its name: at no moment half of it. Raises OSError."""
    sync_path(partial)
    if force:
        partial.replace(target)
    else:
        os.link(partial, target)
    sync_path(target.parent)


def faults(connection: sqlite3.Connection) -> list[str]:
    """What SQLite itself finds wrong with the file."""
    found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(20)")]
    found = [] if found == ["ok"] else found
    rows = connection.execute("PRAGMA foreign_key_check").fetchmany(20)
    return found + [f"a row of {table} names one of {other} that is not there" for table, _row, other, _key in rows]


def vacuum(path: Path, most: int | None) -> tuple[int, int]:
    """Bytes before and after. `most`: no larger one, as others would have to wait for too long; None = nobody waits.
    Raises RequestError, StoreError."""
    with opened(path) as connection:
        before = _size(path)
        if most is not None and before > most:
            raise RequestError(
                f"{path} has {before >> 20} MiB: the master would have to wait for too long",
                "mgpu stop (jobs run on), mgpu db vacuum, and start it again",
            )
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return before, _size(path)


def _size(path: Path) -> int:
    total = 0
    for suffix in ("", "-wal"):
        with suppress(FileNotFoundError):
            total += path.with_name(f"{path.name}{suffix}").stat().st_size
    return total


def try_migration(path: Path) -> tuple[str, str]:
    """The schema that it has and the one that it would get, tried on a copy that goes again. Raises StoreError."""
    from mgpu.store.store import Store

    with opened(path) as connection:
        schema = schema_of(connection)
    if schema == tables.REVISION:
        return schema, schema
    if schema > tables.REVISION:
        raise StoreError(f"{path}: made by a newer version of mgpu (schema {schema})", "install that version or newer")
    trial = path.with_name(f".{path.name}.trial-{secrets.token_hex(4)}")
    try:
        back_up(path, trial, False, lambda _left, _pages: None)
        Store.open(trial).close()
        with opened(trial) as connection:
            found = faults(connection)
        if found:
            raise StoreError(f"{path}: after the migration: {found[0]}", "nothing was changed")
    finally:
        for name in trial.parent.glob(f"{trial.name}*"):
            name.unlink(missing_ok=True)
    return schema, tables.REVISION
