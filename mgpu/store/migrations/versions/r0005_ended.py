"""Jobs that ended, in the order in which they did."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    ended = sa.text("state NOT IN ('PENDING', 'RUNNING')")
    op.create_index("jobs_ended", "jobs", ["end_time", "job_id"], sqlite_where=ended)
