"""What can be changed of the stored state, inside one transaction that happens as a whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from sqlalchemy import Insert, Table, Update, bindparam, insert, update
from sqlalchemy.exc import IntegrityError

from mgpu.core.model import Attempt, AttemptState, Audit, DeviceUuid, Job, JobId, NodeName, Part
from mgpu.core.observation import Node
from mgpu.store import tables
from mgpu.store.reading import Reader
from mgpu.store.rows import to_row


class HoldConflict(Exception):
    """The plan was stale: another attempt has that device. Nothing of the refused attempt was stored."""

    def __init__(self, node: NodeName, uuid: DeviceUuid) -> None:
        super().__init__(f"{node}: {uuid} is held by another attempt")
        self.node = node
        self.uuid = uuid


class Writer(Reader):
    def add_job(self, job: Job) -> tuple[JobId, bool]:
        """The id of the new job (`job.job_id` is not looked at) and True, or that of the job which the same request
        made before and False."""
        known = self.job_by_request(job.request_id)
        if known is not None:
            return known.job_id, False
        row = _job_row(job)
        del row["job_id"]
        key = self._connection.execute(_insert(tables.jobs), row).inserted_primary_key
        assert key is not None
        return JobId(key[0]), True

    def save_job(self, job: Job) -> None:
        self._update(tables.jobs, _job_row(job), "job_id")

    def add_attempt(self, attempt: Attempt, parts: Iterable[Part]) -> None:
        """With its parts and a hold for each of their devices. Raises HoldConflict and stores nothing of it if one of
        the devices is taken; the transaction goes on."""
        with self._connection.begin_nested():
            self._connection.execute(_insert(tables.attempts), to_row(attempt))
            for part in parts:
                self._connection.execute(_insert(tables.parts), to_row(part))
                if part.state.holds_devices:
                    self._hold(part)

    def _hold(self, part: Part) -> None:
        key = {"node": part.node, "job_id": part.job_id, "attempt": part.attempt, "rank": part.rank}
        for uuid in part.uuids:
            try:
                self._connection.execute(_insert(tables.holds), {"uuid": uuid, **key})
            except IntegrityError as error:
                if "holds.uuid" not in str(error.orig):
                    raise
                raise HoldConflict(part.node, uuid) from error

    def save_attempt(self, attempt: Attempt) -> None:
        self._update(tables.attempts, to_row(attempt), "job_id", "number")

    def save_part(self, part: Part) -> None:
        """A part that has ended gives its devices back."""
        self._update(tables.parts, to_row(part), "job_id", "attempt", "rank")
        if part.state is AttemptState.ENDED:
            which = {"job": part.job_id, "number": part.attempt, "of_rank": part.rank, "at": part.ended or 0.0}
            self._connection.execute(_RELEASE, which)

    def save_node(self, node: Node) -> None:
        """New or known."""
        if not self._updated(tables.nodes, to_row(node), "name"):
            self._connection.execute(_insert(tables.nodes), to_row(node))

    def audit(self, entry: Audit) -> None:
        self._connection.execute(_insert(tables.audit), to_row(entry))

    def _update(self, table: Table, row: dict[str, Any], *key: str) -> None:
        if self._updated(table, row, *key) != 1:
            raise LookupError(f"no row of {table.name} with {[row[name] for name in key]}")

    def _updated(self, table: Table, row: dict[str, Any], *key: str) -> int:
        parameters = {_KEY + name if name in key else name: value for name, value in row.items()}
        return self._connection.execute(_update(table, tuple(row), key), parameters).rowcount


_RELEASE = (
    update(tables.holds)
    .where(
        tables.holds.c.job_id == bindparam("job"),
        tables.holds.c.attempt == bindparam("number"),
        tables.holds.c.rank == bindparam("of_rank"),
        tables.NOT_RELEASED,
    )
    .values(released=bindparam("at"))
)

_KEY = "key_"  # before the name of a parameter that says which row


# Statements are made once: building one costs more than SQLite takes to run it.


@cache
def _insert(table: Table) -> Insert:
    return insert(table)


@cache
def _update(table: Table, columns: tuple[str, ...], key: tuple[str, ...]) -> Update:
    where = [table.c[name] == bindparam(_KEY + name) for name in key]
    return update(table).where(*where).values({name: bindparam(name) for name in columns if name not in key})


def _job_row(job: Job) -> dict[str, Any]:
    return {**to_row(job), "name": job.spec.name, "partition": job.spec.request.partition}
