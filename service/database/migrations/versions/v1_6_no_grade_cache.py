"""Grades are computed again, not cached."""

from alembic import op

revision = "1.6"
down_revision = "1.4"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Remove the cache."""
    op.drop_table("verdict_cache")
