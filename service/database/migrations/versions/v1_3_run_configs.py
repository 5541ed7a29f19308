"""Runs keep their config in place of the words of a command."""

import sqlalchemy as sa
from alembic import op

revision = "1.3"
down_revision = "1.2"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the new table; words of commands as they were are not read any more."""
    op.drop_table("run_commands")
    op.create_table(
        "run_configs",
        sa.Column("run_id", sa.String(), sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("folder", sa.String(), nullable=False),
        sa.Column("config", sa.JSON(), nullable=False),
    )
