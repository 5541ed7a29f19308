"""Training runs: metrics of steps, rollouts, their prompts and texts."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "train_steps",
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("metrics", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_train_steps_run_id_runs")),
        sa.PrimaryKeyConstraint("run_id", "step", name=op.f("pk_train_steps")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "rollout_shards",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("content", sa.String(), nullable=False),
        sa.Column("rows", sa.Integer(), nullable=False),
        sa.Column("imported_at", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_rollout_shards_run_id_runs")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rollout_shards")),
    )
    op.create_index(op.f("ix_rollout_shards_run_id_step"), "rollout_shards", ["run_id", "step"], unique=True)
    op.create_table(
        "rollout_prompts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.Column("question_id", sa.String(), nullable=False),
        sa.Column("variant", sa.Integer(), nullable=False),
        sa.Column("neighbor_id", sa.String(), nullable=True),
        sa.Column("strategy", sa.String(), nullable=True),
        sa.Column("text", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_rollout_prompts_run_id_runs")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rollout_prompts")),
    )
    op.create_index(op.f("ix_rollout_prompts_run_id_key"), "rollout_prompts", ["run_id", "key"], unique=True)
    op.create_index(
        op.f("ix_rollout_prompts_run_id_question_id_variant"),
        "rollout_prompts",
        ["run_id", "question_id", "variant"],
        unique=False,
    )
    op.create_table(
        "rollouts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("shard_id", sa.Integer(), nullable=False),
        sa.Column("prompt_id", sa.Integer(), nullable=False),
        sa.Column("group", sa.Integer(), nullable=False),
        sa.Column("session", sa.Integer(), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("truncated", sa.Boolean(), nullable=False),
        sa.Column("reward", sa.Double(), nullable=False),
        sa.Column("grade", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("extracted", sa.String(), nullable=True),
        sa.Column("advantage", sa.Double(), nullable=True),
        sa.Column("old_log_prob", sa.Double(), nullable=True),
        sa.Column("sampling_log_prob", sa.Double(), nullable=True),
        sa.Column("ref_log_prob", sa.Double(), nullable=True),
        sa.Column("entropy", sa.Double(), nullable=True),
        sa.Column("weights_version", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["shard_id"], ["rollout_shards.id"], name=op.f("fk_rollouts_shard_id_rollout_shards")
        ),
        sa.ForeignKeyConstraint(
            ["prompt_id"], ["rollout_prompts.id"], name=op.f("fk_rollouts_prompt_id_rollout_prompts")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rollouts")),
    )
    op.create_index(op.f("ix_rollouts_shard_id"), "rollouts", ["shard_id"], unique=False)
    op.create_index(op.f("ix_rollouts_prompt_id"), "rollouts", ["prompt_id"], unique=False)
    op.create_table(
        "rollout_texts",
        sa.Column("rollout_id", sa.Integer(), nullable=False),
        sa.Column("text", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["rollout_id"], ["rollouts.id"], name=op.f("fk_rollout_texts_rollout_id_rollouts")
        ),
        sa.PrimaryKeyConstraint("rollout_id", name=op.f("pk_rollout_texts")),
    )
