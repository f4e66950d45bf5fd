"""The schema. A row holds one value of the core: a column per field, JSON text where a field is itself a value.

`REVISION` names this schema; migrations/versions holds the steps that lead from older ones to it, and a test checks
that they end at the same place.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Dialect,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    event,
    literal_column,
    text,
)
from sqlalchemy.types import TypeDecorator

REVISION = "0008"


def written_out(text: str) -> str:
    """SQLite takes no lone surrogates: a byte that was not UTF-8 becomes `\\udcXX`."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


class Words(TypeDecorator[str]):
    """Text for people and filters, as `rows` writes it."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else written_out(value)


def _words(name: str) -> Column[str]:
    return Column(name, Words, nullable=False)


def _count(name: str) -> Column[int]:
    return Column(name, Integer, nullable=False)


def _moment(name: str, nullable: bool = True) -> Column[Any]:
    return Column(name, Float, nullable=nullable)


metadata = MetaData()

meta = Table(
    "meta",
    metadata,
    Column("database_id", String(32), primary_key=True),  # 128 random bits in hex: never the same for two databases
    _moment("created", nullable=False),
    Column("notified", Integer, nullable=False, server_default="0"),  # of audit: up to here `notify:` was told
)

# The table in which alembic keeps the revision: made here too, so that a fresh database needs no alembic.
schema_revision = Table(
    "alembic_version",
    metadata,
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)

jobs = Table(
    "jobs",
    metadata,
    Column("job_id", Integer, primary_key=True),
    Column("request_id", String, nullable=False, unique=True),
    _words("user"),
    _count("uid"),
    Column("spec", Text, nullable=False),
    Column("name", Words, nullable=False),  # of the spec, for filters; so is partition
    Column("partition", Words, nullable=False),
    Column("state", String, nullable=False),
    _moment("submit_time", nullable=False),
    _words("reason"),
    _words("detail"),
    _moment("start_time"),
    _moment("end_time"),
    Column("exit_code", Integer),
    _count("attempt"),
    _words("stop"),
    _moment("not_before", nullable=False),
    _count("failures"),
    Column("avoid", Text, nullable=False),
    Column("held", Words, nullable=False, server_default=""),
    Column("array_id", Integer),
    Column("array_index", Integer),
    Column("rest", Text),
    Column("dropped", Text),
    sqlite_autoincrement=True,  # the number of a deleted job is never given again
)

attempts = Table(
    "attempts",
    metadata,
    Column("job_id", Integer, ForeignKey("jobs.job_id"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("token", String, nullable=False),
    Column("state", String, nullable=False),
    _moment("created", nullable=False),
    _moment("started"),
    _moment("ended"),
    Column("exit_code", Integer),
    Column("failure", String, nullable=False),
    _words("reason"),
    Column("port", Integer),
)

parts = Table(
    "parts",
    metadata,
    Column("job_id", Integer, primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("rank", Integer, primary_key=True),
    _words("node"),
    _words("account"),
    Column("devices", Text, nullable=False),
    Column("uuids", Text, nullable=False),
    Column("state", String, nullable=False),
    _words("hostname"),
    _words("address"),
    Column("pid", Integer),
    Column("start_ticks", Integer),
    _words("boot_id"),
    Column("ready", Boolean, nullable=False),
    _moment("started"),
    _moment("ended"),
    Column("exit_code", Integer),
    _words("stop"),
    Column("failure", String, nullable=False),
    _words("reason"),
    _moment("lost_since"),
    Column("collected", Boolean, nullable=False),
    _moment("idle_since"),
    ForeignKeyConstraint(["job_id", "attempt"], ["attempts.job_id", "attempts.number"]),
)

holds = Table(
    "holds",
    metadata,
    Column("hold_id", Integer, primary_key=True),
    _words("node"),
    _words("uuid"),
    _count("job_id"),
    _count("attempt"),
    _count("rank"),
    _moment("released"),
    ForeignKeyConstraint(["job_id", "attempt", "rank"], ["parts.job_id", "parts.attempt", "parts.rank"]),
)

nodes = Table(
    "nodes",
    metadata,
    Column("name", Words, primary_key=True),
    Column("state", String, nullable=False),
    _words("reason"),
    _moment("since"),
    _moment("last_seen"),
    _count("failures"),
    Column("observation", Text),
    Column("marks", Text, nullable=False),
    Column("streaks", Text, nullable=False),
)

audit = Table(
    "audit",
    metadata,
    Column("audit_id", Integer, primary_key=True),
    _moment("at", nullable=False),
    _words("who"),
    _words("what"),
    Column("job_id", Integer),
    Column("node", Words),
    _words("detail"),
    Column("uid", Integer),
    Column("origin", Words, nullable=False, server_default=""),
    Column("result", Words, nullable=False, server_default=""),
)


@event.listens_for(audit, "after_create")
def _append_only(_table: Table, connection: Connection, **_more: Any) -> None:
    """What was done stays told, whatever becomes of the job or the node."""
    for verb, kept in (("UPDATE", "words"), ("DELETE", "rows")):
        refusal = "BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END"
        connection.execute(text(f"CREATE TRIGGER audit_keeps_{kept} BEFORE {verb} ON audit {refusal}"))


tokens = Table(
    "tokens",
    metadata,
    Column("token_id", String, primary_key=True),
    Column("digest", String, nullable=False),  # SHA-256 of its secret, in hex
    Column("uid", Integer, nullable=False),
    _words("user"),
    _words("name"),
    _moment("created", nullable=False),
    _moment("expires"),
    _moment("last_used"),
    _moment("revoked"),
)

# What probes told of GPUs, see core.usage and `samples`: which GPU a number stands for, the buckets, and what jobs made
# of what they held.
sampled_devices = Table(
    "sampled_devices",
    metadata,
    Column("number", Integer, primary_key=True),
    _words("node"),
    _words("uuid"),
    Column("shown_index", Integer),
    _moment("seen", nullable=False),  # to a day
)

samples = Table(
    "samples",
    metadata,
    Column("node", Words, primary_key=True),
    Column("length_s", Integer, primary_key=True),
    Column("start", Integer, primary_key=True),
    Column("entries", LargeBinary, nullable=False),
    sqlite_with_rowid=False,  # half the size
)

uses = Table(
    "uses",
    metadata,
    Column("job_id", Integer, primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("rank", Integer, primary_key=True),
    Column("measured_s", Float, nullable=False),
    Column("busy_s", Float, nullable=False),
    Column("idle_s", Float, nullable=False),
    Column("memory_mib", Integer),
    _moment("idle_since"),
    Column("quiet_s", Float, nullable=False),
    ForeignKeyConstraint(["job_id", "attempt", "rank"], ["parts.job_id", "parts.attempt", "parts.rank"]),
)

# SQLite uses a partial index only for a query that repeats its condition word for word: hence these names.
PENDING = text("state = 'PENDING'")
ACTIVE = text("state IN ('PENDING', 'RUNNING')")
ENDED = text("state NOT IN ('PENDING', 'RUNNING')")
OPEN_PART = text("(state <> 'ENDED' OR collected = 0)")
NOT_RELEASED = text("released IS NULL")
ACTIVE_TASK = text("(array_id IS NOT NULL AND state IN ('PENDING', 'RUNNING'))")
# of a spec: a client has to be with it. In a text within the JSON the quotes would look otherwise
ATTENDED: ColumnElement[bool] = literal_column(
    """(instr(spec, '"client_absence_s":') > 0 AND instr(spec, '"client_absence_s":null') = 0)"""
)

Index("jobs_pending", jobs.c.job_id, sqlite_where=PENDING)
Index("jobs_active", jobs.c.job_id, sqlite_where=ACTIVE)
Index("jobs_ended", jobs.c.end_time, jobs.c.job_id, sqlite_where=ENDED)
Index("jobs_task", jobs.c.array_id, jobs.c.array_index, unique=True, sqlite_where=text("array_id IS NOT NULL"))
Index("jobs_active_task", jobs.c.array_id, sqlite_where=ACTIVE_TASK)
Index("parts_open", parts.c.job_id, parts.c.attempt, parts.c.rank, sqlite_where=OPEN_PART)
Index("holds_device", holds.c.node, holds.c.uuid, unique=True, sqlite_where=NOT_RELEASED)  # one job per device
Index("holds_part", holds.c.job_id, holds.c.attempt, holds.c.rank)
Index("sampled_device", sampled_devices.c.node, sampled_devices.c.uuid, unique=True)
Index("audit_job", audit.c.job_id)
Index("audit_node", audit.c.node)
Index("audit_who", audit.c.who)
