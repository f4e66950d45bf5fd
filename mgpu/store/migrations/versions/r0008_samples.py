"""What probes told of GPUs, by the minute and by the quarter of an hour; what jobs made of the GPUs that they held, and
since when they do nothing with them."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("parts", sa.Column("idle_since", sa.Float))
    op.create_table(
        "sampled_devices",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("uuid", sa.Text, nullable=False),
        sa.Column("shown_index", sa.Integer),
        sa.Column("seen", sa.Float, nullable=False),
    )
    op.create_index("sampled_device", "sampled_devices", ["node", "uuid"], unique=True)
    op.create_table(
        "samples",
        sa.Column("node", sa.Text, primary_key=True),
        sa.Column("length_s", sa.Integer, primary_key=True),
        sa.Column("start", sa.Integer, primary_key=True),
        sa.Column("entries", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "uses",
        sa.Column("job_id", sa.Integer, primary_key=True),
        sa.Column("attempt", sa.Integer, primary_key=True),
        sa.Column("rank", sa.Integer, primary_key=True),
        sa.Column("measured_s", sa.Float, nullable=False),
        sa.Column("busy_s", sa.Float, nullable=False),
        sa.Column("idle_s", sa.Float, nullable=False),
        sa.Column("memory_mib", sa.Integer),
        sa.Column("idle_since", sa.Float),
        sa.Column("quiet_s", sa.Float, nullable=False),
        sa.ForeignKeyConstraint(["job_id", "attempt", "rank"], ["parts.job_id", "parts.attempt", "parts.rank"]),
    )
