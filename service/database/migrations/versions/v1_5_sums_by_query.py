"""Costs and questions are counted by queries; the tables of their counts go."""

from alembic import op

revision = "1.5"
down_revision = "1.4"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Remove the tables and the triggers that filled two of them."""
    on_server = op.get_bind().dialect.name == "postgresql"
    for trigger in ("questions_counted", "question_set_members_counted"):
        op.execute(f"DROP FUNCTION {trigger} CASCADE" if on_server else f"DROP TRIGGER {trigger}")
    for table in ("question_labels", "question_set_counts", "run_spending"):
        op.drop_table(table)
    op.create_index("ix_questions_subject_level", "questions", ["subject", "level"])
