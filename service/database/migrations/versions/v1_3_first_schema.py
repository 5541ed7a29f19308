"""The oldest schema that is upgraded. A new database gets the newest one whole, from the tables."""

revision = "1.3"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nothing comes before it."""
