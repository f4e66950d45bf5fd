"""Who asked for what, from where, and what came of it, for good; tokens; how far events were told to `notify:`; no
exported values in the rows of jobs that are over."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("audit", sa.Column("uid", sa.Integer))
    for name in ("origin", "result"):
        op.add_column("audit", sa.Column(name, sa.Text, nullable=False, server_default=""))
    op.create_index("audit_who", "audit", ["who"])
    for verb, kept in (("UPDATE", "words"), ("DELETE", "rows")):
        op.execute(
            f"CREATE TRIGGER audit_keeps_{kept} BEFORE {verb} ON audit "
            "BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END"
        )
    op.add_column("meta", sa.Column("notified", sa.Integer, nullable=False, server_default="0"))
    # what happened before nobody asked to be told of
    op.execute("UPDATE meta SET notified = (SELECT coalesce(max(audit_id), 0) FROM audit)")
    op.execute(
        "UPDATE jobs SET spec = json_set(spec, '$.env', json('{}')) "
        "WHERE state NOT IN ('PENDING', 'RUNNING') AND json_extract(spec, '$.env') <> '{}'"
    )
    op.create_table(
        "tokens",
        sa.Column("token_id", sa.String, primary_key=True),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("uid", sa.Integer, nullable=False),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("expires", sa.Float),
        sa.Column("last_used", sa.Float),
        sa.Column("revoked", sa.Float),
    )
