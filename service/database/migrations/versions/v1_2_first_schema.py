"""The first schema. A new database gets it whole, from the tables; see `service.database.schema`."""

revision = "1.2"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nothing comes before it."""
