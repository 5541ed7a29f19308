"""Counts and standings for pages, made from what is stored and kept by triggers from here on."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from service.database.migrations.counting import COUNTED, TRIGGERS

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

COUNTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    # table: its key, all of it text, and its whole numbers
    "question_labels": (("subject", "level"), ("questions",)),
    "run_cell_counts": (("run_id", "kind", "state"), ("cells",)),
    "run_spending": (
        ("run_id", "kind", "model"),
        ("requests", "prompt_tokens", "completion_tokens", "pico_usd", "unpriced"),
    ),
    "run_minutes": (("run_id", "minute"), ("filled", "failed", "completion_tokens", "pico_usd")),
    "standing_counts": (
        ("run_id", "proposer", "strategy", "strategy_hash", "model", "status"),
        ("candidates",),
    ),
    "candidate_findings": (("name", "question_id", "candidate_id", "run_id"), ()),
    "train_metric_names": (("run_id", "name"), ()),
}


def upgrade() -> None:
    for name, (key, numbers) in COUNTS.items():
        _create(
            name,
            *(sa.Column(column, sa.String(), nullable=False) for column in key),
            *(sa.Column(column, sa.Integer(), nullable=False) for column in numbers),
            key=key,
        )
    _create_counts_of_sets()
    _create_sample_counts()
    _create_standings()
    _create_rollout_groups()
    _create_indices()
    # Filled before the triggers are there: one pass over each table instead of one call for each row.
    connection = op.get_bind()
    for table, query in COUNTED.items():
        connection.exec_driver_sql(f"INSERT INTO {table} {query}")
    _drop_indices()
    for trigger in TRIGGERS:
        connection.exec_driver_sql(trigger)


def _create(name: str, *columns: sa.Column[Any], key: tuple[str, ...]) -> None:
    op.create_table(
        name,
        *columns,
        sa.PrimaryKeyConstraint(*key, name=op.f(f"pk_{name}")),
        sqlite_with_rowid=False,
    )


def _create_counts_of_sets() -> None:
    op.create_table(
        "question_set_counts",
        *(sa.Column(name, sa.Integer(), nullable=False) for name in ("set_id", "members", "held")),
        sa.PrimaryKeyConstraint("set_id", name=op.f("pk_question_set_counts")),
    )


def _create_sample_counts() -> None:
    op.create_table(
        "sample_counts",
        sa.Column("run_problem_id", sa.Integer(), nullable=False),
        *(
            sa.Column(name, sa.Integer(), nullable=False)
            for name in ("samples", "truncated", "refused", "told", "tokens")
        ),
        sa.PrimaryKeyConstraint("run_problem_id", name=op.f("pk_sample_counts")),
    )
    _create(
        "grade_counts",
        *(
            sa.Column(name, sa.Integer(), nullable=False)
            for name in ("run_problem_id", "grader_id", "correct", "wrong", "unknown")
        ),
        key=("run_problem_id", "grader_id"),
    )


def _create_standings() -> None:
    texts = ("candidate_id", "proposer", "strategy", "strategy_hash", "model", "status")
    op.create_table(
        "standings",
        sa.Column("proposal_id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("question_id", sa.String(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.String(), nullable=False) for name in texts),
        sa.Column("verdict_id", sa.Integer(), nullable=True),
        sa.Column("review_id", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("proposal_id", name=op.f("pk_standings")),
    )


def _create_rollout_groups() -> None:
    numbers = (
        *("responses", "prompts", "correct", "wrong", "unknown"),
        *("original_correct", "original_wrong", "original_unknown", "truncated", "timeouts", "tokens"),
    )
    _create(
        "rollout_groups",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("question_id", sa.String(), nullable=False),
        *(sa.Column(name, sa.Integer(), nullable=False) for name in numbers),
        *(sa.Column(f"reward_{name}", sa.Double(), nullable=False) for name in ("sum", "least", "most")),
        sa.Column("kind", sa.String(), nullable=False),
        key=("run_id", "step", "question_id"),
    )


def _create_indices() -> None:
    for table, columns in (
        ("standings", ("candidate_id", "run_id")),
        ("standings", ("question_id", "run_id", "ordinal")),
        ("standings", ("status", "question_id", "strategy", "model", "run_id")),
        ("standings", ("strategy", "question_id")),
        ("standings", ("model", "question_id")),
        ("standings", ("run_id", "question_id", "ordinal", "status", "candidate_id")),
        ("candidate_findings", ("run_id", "name", "candidate_id")),
        ("rollout_groups", ("run_id", "kind", "step", "question_id")),
        ("rollout_groups", ("run_id", "question_id", "step")),
        ("questions", ("subject", "id")),
        ("questions", ("level", "id")),
        ("reviews", ("reviewer", "candidate_id")),
        ("runs", ("kind", "created_at")),
        ("rollouts", ("prompt_id", "shard_id")),
        ("neighbor_set_questions", ("question_id", "set_id")),
        ("neighbor_set_members", ("candidate_id", "set_id")),
    ):
        op.create_index(op.f(f"ix_{table}_{'_'.join(columns)}"), table, list(columns), unique=False)


def _drop_indices() -> None:
    for table, column in (
        ("questions", "subject"),
        ("rollouts", "prompt_id"),
        ("neighbor_set_questions", "question_id"),
        ("neighbor_set_members", "candidate_id"),
        ("samples", "truncated"),  # counted now
        ("grades", "run_problem_id_grader_id_value"),  # likewise
    ):
        op.drop_index(f"ix_{table}_{column}", table)
