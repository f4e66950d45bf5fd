"""Jobs that are held."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # a column that is added with its value: to make the table of jobs anew would drop what others refer to
    op.add_column("jobs", sa.Column("held", sa.Text, nullable=False, server_default=""))
