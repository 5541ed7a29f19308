"""Searches read the texts; the index of three letters in a row goes."""

from alembic import op

revision = "1.4"
down_revision = "1.3"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Remove the index, its triggers and its table."""
    for table in ("questions", "candidates"):
        sqlite = op.get_bind().dialect.name == "sqlite"
        op.execute(f"DROP TRIGGER {table}_searched" if sqlite else f"DROP INDEX IF EXISTS {table}_letters")
    op.execute("DROP TABLE IF EXISTS text_letters")
    op.drop_table("searched_texts")
