"""Arrays, and the tasks of them."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_NEW = {"array_id": sa.Integer, "array_index": sa.Integer, "rest": sa.Text, "dropped": sa.Text}


def upgrade() -> None:
    for name, kind in _NEW.items():
        op.add_column("jobs", sa.Column(name, kind))
    tasks = sa.text("array_id IS NOT NULL")
    op.create_index("jobs_task", "jobs", ["array_id", "array_index"], unique=True, sqlite_where=tasks)
    active = sa.text("(array_id IS NOT NULL AND state IN ('PENDING', 'RUNNING'))")
    op.create_index("jobs_active_task", "jobs", ["array_id"], sqlite_where=active)
