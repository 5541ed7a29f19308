"""Grades counted by where the answer was found, made from what is stored and kept by a trigger."""

import sqlalchemy as sa
from alembic import op

from service.database.migrations.sourcing import COUNT, TRIGGER

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "grade_sources",
        sa.Column("run_problem_id", sa.Integer(), nullable=False),
        sa.Column("grader_id", sa.Integer(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("grades", sa.Integer(), nullable=False),
        sa.Column("correct", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("run_problem_id", "grader_id", "source", name=op.f("pk_grade_sources")),
        sqlite_with_rowid=False,
    )
    connection = op.get_bind()
    connection.exec_driver_sql(f"INSERT INTO grade_sources {COUNT}")
    connection.exec_driver_sql(TRIGGER)
