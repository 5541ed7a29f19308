"""Eval runs: problems, samples with their texts and grades, and the cache of verdicts."""

import sqlalchemy as sa
from alembic import op

from service.database.sqlite import append_only_triggers

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

APPEND_ONLY = ("problems", "samples", "sample_texts", "grades")


def upgrade() -> None:
    op.create_table(
        "graders",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("version", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_graders")),
        sa.UniqueConstraint("version", name=op.f("uq_graders_version")),
    )
    op.create_table(
        "problems",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("text", sa.String(), nullable=False),
        sa.Column("answer", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("tolerance", sa.String(), nullable=True),
        sa.Column("created_at", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_problems")),
    )
    op.create_table(
        "run_problems",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("problem_id", sa.String(), nullable=False),
        sa.Column("group_id", sa.String(), nullable=False),
        sa.Column("variant", sa.Integer(), nullable=False),
        sa.Column("source_id", sa.String(), nullable=True),
        sa.Column("strategy", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(
            ["problem_id"], ["problems.id"], name=op.f("fk_run_problems_problem_id_problems")
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_run_problems_run_id_runs")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run_problems")),
    )
    op.create_index(op.f("ix_run_problems_problem_id"), "run_problems", ["problem_id"], unique=False)
    op.create_index(
        op.f("ix_run_problems_run_id_group_id_variant"),
        "run_problems",
        ["run_id", "group_id", "variant"],
        unique=True,
    )
    op.create_index(
        op.f("ix_run_problems_run_id_position"), "run_problems", ["run_id", "position"], unique=True
    )
    op.create_index(op.f("ix_run_problems_source_id"), "run_problems", ["source_id"], unique=False)
    op.create_table(
        "verdict_cache",
        sa.Column("grader_id", sa.Integer(), nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.Column("value", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["grader_id"], ["graders.id"], name=op.f("fk_verdict_cache_grader_id_graders")
        ),
        sa.PrimaryKeyConstraint("grader_id", "key", name=op.f("pk_verdict_cache")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "samples",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_problem_id", sa.Integer(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("cell_id", sa.Integer(), nullable=True),
        sa.Column("seed", sa.Integer(), nullable=True),
        sa.Column("stop_reason", sa.String(), nullable=False),
        sa.Column("prompt_tokens", sa.Integer(), nullable=True),
        sa.Column("completion_tokens", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(["cell_id"], ["cells.id"], name=op.f("fk_samples_cell_id_cells")),
        sa.ForeignKeyConstraint(
            ["run_problem_id"], ["run_problems.id"], name=op.f("fk_samples_run_problem_id_run_problems")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_samples")),
    )
    op.create_index(op.f("ix_samples_cell_id"), "samples", ["cell_id"], unique=False)
    op.create_index(
        op.f("ix_samples_run_problem_id_ordinal"), "samples", ["run_problem_id", "ordinal"], unique=True
    )
    op.create_index(
        "ix_samples_truncated",
        "samples",
        ["run_problem_id"],
        unique=False,
        sqlite_where=sa.text("stop_reason = 'length'"),
    )
    op.create_table(
        "grades",
        sa.Column("sample_id", sa.Integer(), nullable=False),
        sa.Column("grader_id", sa.Integer(), nullable=False),
        sa.Column("run_problem_id", sa.Integer(), nullable=False),
        sa.Column("value", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("extracted", sa.String(), nullable=True),
        sa.Column("source", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(["grader_id"], ["graders.id"], name=op.f("fk_grades_grader_id_graders")),
        sa.ForeignKeyConstraint(
            ["run_problem_id"], ["run_problems.id"], name=op.f("fk_grades_run_problem_id_run_problems")
        ),
        sa.ForeignKeyConstraint(["sample_id"], ["samples.id"], name=op.f("fk_grades_sample_id_samples")),
        sa.PrimaryKeyConstraint("sample_id", "grader_id", name=op.f("pk_grades")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        op.f("ix_grades_run_problem_id_grader_id_value"),
        "grades",
        ["run_problem_id", "grader_id", "value"],
        unique=False,
    )
    op.create_table(
        "sample_texts",
        sa.Column("sample_id", sa.Integer(), nullable=False),
        sa.Column("text", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["sample_id"], ["samples.id"], name=op.f("fk_sample_texts_sample_id_samples")
        ),
        sa.PrimaryKeyConstraint("sample_id", name=op.f("pk_sample_texts")),
    )

    for table in APPEND_ONLY:
        for statement in append_only_triggers(table):
            op.execute(statement)
