"""The database file: opened, checked, migrated; readers in parallel, one writer at a time.

Readers see a consistent picture and never wait for the writer (write-ahead log). A writing transaction takes the write
lock when it begins (BEGIN IMMEDIATE): one that first read and then asked for the lock would fail whenever somebody else
wrote in between, whatever the busy timeout. Nothing remote may happen inside one.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, insert, inspect, select
from sqlalchemy.exc import DatabaseError, IntegrityError
from sqlalchemy.exc import TimeoutError as TooManyAtOnce

from mgpu import clock
from mgpu.core.errors import StoreError
from mgpu.core.lifecycle import Happening
from mgpu.core.model import JobId
from mgpu.file_system import file_system_of, why_unfit
from mgpu.store import tables
from mgpu.store.changes import Changes
from mgpu.store.disk import disk_fault
from mgpu.store.exports import Exports
from mgpu.store.group import Group
from mgpu.store.reading import Reader
from mgpu.store.writing import Writer

BUSY_TIMEOUT_S = 5


class Store:
    """Of one database file. Safe to use from any thread; a transaction belongs to one."""

    def __init__(self, path: Path, engine: Engine) -> None:
        self.path = path
        self.exports = Exports(path.parent / "exports")
        self._engine = engine
        self._writing = engine.execution_options(mgpu_begin="BEGIN IMMEDIATE")
        self._one_writer = threading.Lock()
        self._writer_thread: int | None = None
        self._group: Group | None = None
        self._coming = 0  # writers that wait for their turn
        self.version = object()  # another one before and after each commit: while it stays, what is stored does
        self._touched: set[JobId] = set()
        self._touching = threading.Lock()
        self._listeners: list[Callable[[Happening], None]] = []
        self.changes = Changes()
        self.database_id = ""

    @classmethod
    def open(cls, path: Path) -> Store:
        """Made if absent (mode 0600), migrated if older. Raises StoreError: on a network file system, not a database,
        damaged, of a newer version."""
        if unfit := why_unfit(file_system_of(str(path.parent))):
            raise StoreError(
                f"{path}: the state directory lies {unfit}, where a database gets damaged",
                "name a local folder with --state-dir or `master: {state_dir: ...}`",
            )
        store = cls(path, _engine(path))
        try:
            _make_private(path)
            with store._translated():
                store._prepare()
        except OSError as error:
            raise StoreError(f"{path}: cannot be opened: {error.strerror}") from error
        except StoreError:
            store.close()
            raise
        return store

    def close(self) -> None:
        self._engine.dispose()

    def size(self) -> int:
        """Bytes on the disk, with what is still to be worked into the file."""
        total = 0
        for suffix in ("", "-wal", "-shm"):
            with suppress(OSError):
                total += self.path.with_name(f"{self.path.name}{suffix}").stat().st_size
        return total

    @contextmanager
    def read(self) -> Iterator[Reader]:
        with self._translated(), self._engine.begin() as connection:
            yield Reader(connection)

    @contextmanager
    def write(self) -> Iterator[Writer]:
        """Committed when it is over, rolled back on an exception. Waits for the writer before it, and then for those
        who share its commit."""
        if self._writer_thread == threading.get_ident():
            raise RuntimeError("a write inside a write would wait for itself")
        touched: set[JobId] = set()
        happenings: list[Happening] = []
        spent: set[str] = set()
        told: Writer | None = None
        try:
            with self._translated():
                with self._in_turn() as group, group.turn() as writer:
                    touched, happenings, spent = writer.touched, writer.happenings, writer.spent
                    yield writer
                    told = writer
                    self.version = object()
                    self.changes.coming(id(told), told.changed)
                group.over.result()
            for name in spent:
                self.exports.drop(name)
        finally:
            if told is not None:  # kept until here: nobody else's has its number
                self.changes.over(id(told))
            with self._touching:
                self._touched |= touched
            self.version = object()
        for happening in happenings:
            for listener in self._listeners:
                listener(happening)

    def listen(self, listener: Callable[[Happening], None]) -> None:
        """From now on it is told of each audit row that is stored, in the thread of whoever stored it: it must be quick
        and must not raise."""
        self._listeners.append(listener)

    @contextmanager
    def _in_turn(self) -> Iterator[Group]:
        """Who is the last for now ends the group."""
        with self._touching:
            self._coming += 1
        with self._one_writer:
            with self._touching:
                self._coming -= 1
            self._writer_thread = threading.get_ident()
            try:
                group = self._group = self._group or Group(self._writing)
                try:
                    yield group
                finally:
                    if group.full or not self._coming:
                        self._group = None
                        group.end()
            finally:
                self._writer_thread = None

    def take_touched(self) -> set[JobId]:
        """The jobs that may have come to the queue or left it, changed while they wait, begun or ended, since this was
        asked before. Who asks first and then begins to read sees all of that; what is just being committed is told the
        next time."""
        with self._touching:
            taken, self._touched = self._touched, set()
        return taken

    def _prepare(self) -> None:
        with self._writing.begin() as connection:
            known = set(inspect(connection).get_table_names())
            if not known:
                self._create(connection)
            elif not {"meta", "alembic_version"} & known:
                raise StoreError(f"{self.path}: a database, but not one of mgpu", "name another --state-dir")
        with self._engine.begin() as connection:
            revision = connection.execute(select(tables.schema_revision.c.version_num)).scalar_one_or_none()
        if revision != tables.REVISION:
            from mgpu.store import migrate  # alembic costs half a second: only when it is needed

            migrate.upgrade(self._writing, self.path, revision)
        with self._engine.begin() as connection:
            self.database_id = connection.execute(select(tables.meta.c.database_id)).scalar_one()

    def _create(self, connection: Connection) -> None:
        tables.metadata.create_all(connection)
        connection.execute(insert(tables.schema_revision).values(version_num=tables.REVISION))
        connection.execute(insert(tables.meta).values(database_id=secrets.token_hex(16), created=clock.now()))

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """What the file or the disk does to us, in words. A violated constraint is our own fault: it passes."""
        try:
            yield
        except (IntegrityError, sqlite3.IntegrityError):
            raise
        except DatabaseError as error:
            raise _in_words(self.path, str(error.orig)) from error
        except sqlite3.DatabaseError as error:  # of a Statement
            raise _in_words(self.path, str(error)) from error
        except TooManyAtOnce as error:
            raise StoreError(f"{self.path}: too many read it at once", "try again in a moment") from error


def _in_words(path: Path, cause: str) -> StoreError:
    if "malformed" in cause or "not a database" in cause:
        if fault := disk_fault(path):
            return StoreError(
                f"{path}: its disk fails ({fault})", "mend or mount it again, then: mgpu stop; nothing else is needed"
            )
        return StoreError(
            f"{path}: the database is damaged ({cause})",
            "stop the master, move the file away with its -wal and -shm, and put a copy back or start with none",
        )
    if "locked" in cause:
        return StoreError(f"{path}: another program keeps the database locked", "end it and try again")
    if "readonly" in cause:
        return StoreError(f"{path}: cannot be written (read-only)", "make it writable and try again")
    if "full" in cause:
        return StoreError(f"{path}: no space left on the disk", "make room and try again")
    return StoreError(f"{path}: {cause}")


def _make_private(path: Path) -> None:
    """The file exists and only its owner may use it; SQLite gives its companions the same mode."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def _engine(path: Path) -> Engine:
    url = URL.create("sqlite", database=str(path))
    engine = create_engine(url, pool_size=8, max_overflow=24, connect_args={"timeout": BUSY_TIMEOUT_S})
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", _on_begin)
    return engine


def _on_connect(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver begins nothing by itself: see _on_begin
    # cache_size: each connection has its own, and the kernel keeps the file's pages anyway
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "cache_size = -256"):
        connection.execute(f"PRAGMA {pragma}").close()


def _on_begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("mgpu_begin", "BEGIN"))
