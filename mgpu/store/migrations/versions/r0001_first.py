"""The first schema."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _texts(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def _counts(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Integer, nullable=False) for name in names]


def _moments(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Float) for name in names]


def _word(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.String, nullable=False)


def _meta() -> None:
    op.create_table(
        "meta",
        sa.Column("database_id", sa.String(32), primary_key=True),
        sa.Column("created", sa.Float, nullable=False),
    )
    op.execute("INSERT INTO meta VALUES (lower(hex(randomblob(16))), strftime('%s', 'now'))")


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("job_id", sa.Integer, primary_key=True),
        sa.Column("request_id", sa.String, nullable=False, unique=True),
        *_texts("user"),
        *_counts("uid"),
        *_texts("spec", "name", "partition"),
        _word("state"),
        sa.Column("submit_time", sa.Float, nullable=False),
        *_texts("reason", "detail"),
        *_moments("start_time", "end_time"),
        sa.Column("exit_code", sa.Integer),
        *_counts("attempt"),
        *_texts("stop"),
        sa.Column("not_before", sa.Float, nullable=False),
        *_counts("failures"),
        *_texts("avoid"),
        sqlite_autoincrement=True,
    )
    op.create_index("jobs_pending", "jobs", ["job_id"], sqlite_where=sa.text("state = 'PENDING'"))
    op.create_index("jobs_active", "jobs", ["job_id"], sqlite_where=sa.text("state IN ('PENDING', 'RUNNING')"))


def _attempts() -> None:
    op.create_table(
        "attempts",
        sa.Column("job_id", sa.Integer, sa.ForeignKey("jobs.job_id"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        _word("token"),
        _word("state"),
        sa.Column("created", sa.Float, nullable=False),
        *_moments("started", "ended"),
        sa.Column("exit_code", sa.Integer),
        _word("failure"),
        *_texts("reason"),
    )


def _parts() -> None:
    op.create_table(
        "parts",
        sa.Column("job_id", sa.Integer, primary_key=True),
        sa.Column("attempt", sa.Integer, primary_key=True),
        sa.Column("rank", sa.Integer, primary_key=True),
        *_texts("node", "account", "devices", "uuids"),
        _word("state"),
        *_texts("hostname", "address"),
        sa.Column("pid", sa.Integer),
        sa.Column("start_ticks", sa.Integer),
        *_texts("boot_id"),
        sa.Column("ready", sa.Boolean, nullable=False),
        *_moments("started", "ended"),
        sa.Column("exit_code", sa.Integer),
        *_texts("stop"),
        _word("failure"),
        *_texts("reason"),
        *_moments("lost_since"),
        sa.Column("collected", sa.Boolean, nullable=False),
        sa.ForeignKeyConstraint(["job_id", "attempt"], ["attempts.job_id", "attempts.number"]),
    )
    still_open = sa.text("(state <> 'ENDED' OR collected = 0)")
    op.create_index("parts_open", "parts", ["job_id", "attempt", "rank"], sqlite_where=still_open)


def _holds() -> None:
    op.create_table(
        "holds",
        sa.Column("hold_id", sa.Integer, primary_key=True),
        *_texts("node", "uuid"),
        *_counts("job_id", "attempt", "rank"),
        *_moments("released"),
        sa.ForeignKeyConstraint(["job_id", "attempt", "rank"], ["parts.job_id", "parts.attempt", "parts.rank"]),
    )
    not_released = sa.text("released IS NULL")
    op.create_index("holds_device", "holds", ["node", "uuid"], unique=True, sqlite_where=not_released)
    op.create_index("holds_part", "holds", ["job_id", "attempt", "rank"])


def _nodes() -> None:
    op.create_table(
        "nodes",
        sa.Column("name", sa.Text, primary_key=True),
        _word("state"),
        *_texts("reason"),
        *_moments("since", "last_seen"),
        *_counts("failures"),
        sa.Column("observation", sa.Text),
    )


def _audit() -> None:
    op.create_table(
        "audit",
        sa.Column("audit_id", sa.Integer, primary_key=True),
        sa.Column("at", sa.Float, nullable=False),
        *_texts("who", "what"),
        sa.Column("job_id", sa.Integer),
        sa.Column("node", sa.Text),
        *_texts("detail"),
    )
    op.create_index("audit_job", "audit", ["job_id"])
    op.create_index("audit_node", "audit", ["node"])


def upgrade() -> None:
    for make in (_meta, _jobs, _attempts, _parts, _holds, _nodes, _audit):
        make()
