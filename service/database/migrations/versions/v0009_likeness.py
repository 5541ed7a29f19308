"""How alike a candidate's wording is to its question's, and the success counts of published neighbors."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("candidates", sa.Column("likeness", sa.Double(), nullable=True))
    op.add_column("neighbor_set_members", sa.Column("successes", sa.JSON(), nullable=True))
