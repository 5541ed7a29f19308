"""Log-ratios of single tokens of a training's responses."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "rollout_tokens",
        sa.Column("rollout_id", sa.Integer(), nullable=False),
        sa.Column("ratios", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["rollout_id"], ["rollouts.id"], name=op.f("fk_rollout_tokens_rollout_id_rollouts")
        ),
        sa.PrimaryKeyConstraint("rollout_id", name=op.f("pk_rollout_tokens")),
    )
