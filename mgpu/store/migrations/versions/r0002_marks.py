"""What is held against a node or its GPUs: an operator's word, and jobs that failed there one after the other."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_NEW = ("marks", "streaks")


def upgrade() -> None:
    for name in _NEW:
        op.add_column("nodes", sa.Column(name, sa.Text))
    op.execute("UPDATE nodes SET marks = '[]', streaks = '[]'")
    with op.batch_alter_table("nodes") as table:
        for name in _NEW:
            table.alter_column(name, existing_type=sa.Text, nullable=False)
