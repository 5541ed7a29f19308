"""Reviews that were withdrawn."""

import sqlalchemy as sa
from alembic import op

from service.database.migrations.withdrawing import CHANGED

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "review_withdrawals",
        sa.Column("review_id", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["review_id"], ["reviews.id"], name=op.f("fk_review_withdrawals_review_id_reviews")
        ),
        sa.PrimaryKeyConstraint("review_id", name=op.f("pk_review_withdrawals")),
    )
    connection = op.get_bind()
    for statement in CHANGED:
        connection.exec_driver_sql(statement)
