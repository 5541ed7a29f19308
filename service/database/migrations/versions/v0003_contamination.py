"""Contamination checks of question sets and neighbor sets against benchmarks."""

import sqlalchemy as sa
from alembic import op

from service.database.sqlite import append_only_triggers

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "contamination_checks",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("set_name", sa.String(), nullable=False),
        sa.Column("set_hash", sa.String(), nullable=False),
        sa.Column("benchmark", sa.String(), nullable=False),
        sa.Column("problems_hash", sa.String(), nullable=False),
        sa.Column("settings", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_contamination_checks")),
    )
    op.create_index(
        op.f("ix_contamination_checks_problems_hash"), "contamination_checks", ["problems_hash"], unique=False
    )
    op.create_table(
        "overlaps",
        sa.Column("check_id", sa.Integer(), nullable=False),
        sa.Column("source_id", sa.String(), nullable=False),
        sa.Column("problem_id", sa.String(), nullable=False),
        sa.Column("measure", sa.String(), nullable=False),
        sa.Column("score", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["check_id"], ["contamination_checks.id"], name=op.f("fk_overlaps_check_id_contamination_checks")
        ),
        sa.PrimaryKeyConstraint("check_id", "source_id", "problem_id", name=op.f("pk_overlaps")),
        sqlite_with_rowid=False,
    )
    for table in ("contamination_checks", "overlaps"):
        for statement in append_only_triggers(table):
            op.execute(statement)
