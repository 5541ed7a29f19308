"""Sums are made by queries, transactions keep standings instead of triggers, and grades are not cached."""

from alembic import op

revision = "1.5"
down_revision = "1.4"
branch_labels = None
depends_on = None

TRIGGERS = (
    *("questions_counted", "question_set_members_counted", "proposals_standing", "proposals_standing_gone"),
    *("verdicts_standing", "verdicts_findings", "reviews_standing", "reviews_withdrawn"),
    *("standings_counted", "standings_moved", "standings_gone"),
)


def upgrade() -> None:
    """Remove the triggers, the tables of sums and the cache of grades."""
    on_server = op.get_bind().dialect.name == "postgresql"
    for trigger in TRIGGERS:
        kind = f"FUNCTION IF EXISTS {trigger} CASCADE" if on_server else f"TRIGGER IF EXISTS {trigger}"
        op.execute(f"DROP {kind}")
    for table in (
        "question_labels",
        "question_set_counts",
        "run_spending",
        "standing_counts",
        "verdict_cache",
    ):
        op.drop_table(table)
    op.create_index("ix_questions_subject_level", "questions", ["subject", "level"])
