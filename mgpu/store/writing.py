"""What can be changed of the stored state, inside one transaction that happens as a whole or not at all."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from sqlalchemy import Connection, Table, bindparam, insert, update

from mgpu import clock
from mgpu.core.lifecycle import Happening, milestones
from mgpu.core.model import Attempt, AttemptState, Audit, DeviceUuid, Job, JobId, JobState, NodeName, Part
from mgpu.core.observation import Node
from mgpu.core.token import Token
from mgpu.store import tables
from mgpu.store.reading import Reader
from mgpu.store.rows import changes, to_row
from mgpu.store.statement import Statement


class HoldConflict(Exception):
    """The plan was stale: another attempt has that device. Nothing of the refused attempt was stored."""

    def __init__(self, node: NodeName, uuid: DeviceUuid) -> None:
        super().__init__(f"{node}: {uuid} is held by another attempt")
        self.node = node
        self.uuid = uuid


class Writer(Reader):
    """`before` is the value as this transaction read it: then only the columns that differ are written."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.touched: set[JobId] = set()  # see Store.take_touched
        self.happenings: list[Happening] = []  # see Store.listen
        self.spent: set[str] = set()  # exported values of jobs that are over
        self.changed: set[JobId] = set()  # in whatever way

    def add_job(self, job: Job) -> tuple[JobId, bool]:
        """The id of the new job (`job.job_id` is not looked at) and True, or that of the job which the same request
        made before and False."""
        known = self.job_by_request(job.request_id)
        if known is not None:
            return known.job_id, False
        row = {**to_row(job), **_for_filters(job)}
        del row["job_id"]
        job_id = JobId(self._insert(tables.jobs, row))
        self.touched.add(job_id)
        self.changed.add(job_id)
        return job_id, True

    def save_job(self, job: Job, before: Job | None = None) -> None:
        row = to_row(job) if before is None else changes(job, before)
        self.changed.add(job.job_id)
        if "spec" in row:
            row.update(_for_filters(job))
        self._update(tables.jobs, row, {"job_id": job.job_id})
        if before is not None and (job.state is not before.state or job.start_time != before.start_time):
            for happening in milestones(before, job, clock.now()):
                self._tell(happening)
        if job.state.final and job.spec.exports and job.array_id is None:  # those of a task are its array's
            self.spent.add(job.spec.exports)
        if before is None or JobState.PENDING in (before.state, job.state) or _told_to_others(before, job):
            self.touched.add(job.job_id)

    def add_attempt(self, attempt: Attempt, parts: Iterable[Part]) -> None:
        """With its parts and a hold for each of their devices. Raises HoldConflict and stores nothing of it if one of
        the devices is taken; the transaction goes on."""
        self.changed.add(attempt.job_id)
        with self.as_a_whole():
            self._insert(tables.attempts, to_row(attempt))
            for part in parts:
                self._insert(tables.parts, to_row(part))
                if part.state.holds_devices:
                    self._hold(part)

    @contextmanager
    def as_a_whole(self) -> Iterator[None]:
        """All of it or, after a HoldConflict, nothing; the transaction goes on."""
        self._driver.execute("SAVEPOINT whole")
        told = len(self.happenings)
        try:
            yield
        except HoldConflict:
            del self.happenings[told:]
            self._driver.execute("ROLLBACK TO whole")
            self._driver.execute("RELEASE whole")
            raise
        self._driver.execute("RELEASE whole")

    def _hold(self, part: Part) -> None:
        key = {"node": part.node, "job_id": part.job_id, "attempt": part.attempt, "rank": part.rank, "released": None}
        for uuid in part.uuids:
            try:
                self._insert(tables.holds, {"uuid": uuid, **key})
            except sqlite3.IntegrityError as error:
                if "holds.uuid" not in str(error):
                    raise
                raise HoldConflict(part.node, uuid) from error

    def save_attempt(self, attempt: Attempt, before: Attempt | None = None) -> None:
        row = to_row(attempt) if before is None else changes(attempt, before)
        self._update(tables.attempts, row, {"job_id": attempt.job_id, "number": attempt.number})

    def save_part(self, part: Part, before: Part | None = None) -> None:
        """A part that has ended gives its devices back."""
        key = {"job_id": part.job_id, "attempt": part.attempt, "rank": part.rank}
        self.changed.add(part.job_id)
        self._update(tables.parts, to_row(part) if before is None else changes(part, before), key)
        if part.state is AttemptState.ENDED and (before is None or before.state is not AttemptState.ENDED):
            _RELEASE.run(self._driver, {**key, "at": part.ended or 0.0})

    def save_node(self, node: Node, before: Node | None = None) -> None:
        """New or known."""
        name = tables.written_out(node.name)
        row = to_row(node) if before is None else changes(node, before)
        if not self._updated(tables.nodes, row, {"name": name}):
            self._insert(tables.nodes, to_row(node))

    def audit(self, entry: Audit, job: Job | None = None) -> None:
        """`job` as it is since then, for who listens."""
        self._tell(Happening(entry, job))

    def _tell(self, happening: Happening) -> None:
        self._insert(tables.audit, to_row(happening.entry))
        self.happenings.append(happening)

    def add_token(self, token: Token) -> None:
        self._insert(tables.tokens, to_row(token))

    def save_token(self, token: Token, before: Token) -> None:
        self._update(tables.tokens, changes(token, before), {"token_id": token.token_id})

    def _insert(self, table: Table, row: dict[str, Any]) -> int:
        """The row's number."""
        number = _insert(table, tuple(row)).run(self._driver, row).lastrowid
        assert number is not None
        return number

    def _update(self, table: Table, row: dict[str, Any], key: dict[str, Any]) -> None:
        if self._updated(table, row, key) != 1:
            raise LookupError(f"no row of {table.name} with {list(key.values())}")

    def _updated(self, table: Table, row: dict[str, Any], key: dict[str, Any]) -> int:
        names = tuple(name for name in row if name not in key)
        if not names:
            return 1
        values = {**row, **{_KEY + name: value for name, value in key.items()}}
        return _update(table, names, tuple(key)).run(self._driver, values).rowcount


_holds = tables.holds
_RELEASE = Statement(
    update(_holds)
    .where(
        _holds.c.job_id == bindparam("job_id"),
        _holds.c.attempt == bindparam("attempt"),
        _holds.c.rank == bindparam("rank"),
        tables.NOT_RELEASED,
    )
    .values(released=bindparam("at"))
)

_KEY = "key_"  # before the name of a parameter that says which row


@cache
def _insert(table: Table, names: tuple[str, ...]) -> Statement:
    return Statement(insert(table).values({name: bindparam(name) for name in names}))


@cache
def _update(table: Table, names: tuple[str, ...], key: tuple[str, ...]) -> Statement:
    where = [table.c[name] == bindparam(_KEY + name) for name in key]
    return Statement(update(table).where(*where).values({name: bindparam(name) for name in names}))


def _told_to_others(before: Job, job: Job) -> bool:
    """What jobs that depend on it wait for."""
    return job.state is not before.state or job.start_time != before.start_time


def _for_filters(job: Job) -> dict[str, Any]:
    """Columns of their own for what lists are filtered by."""
    return {"name": tables.written_out(job.spec.name), "partition": tables.written_out(job.spec.request.partition)}
