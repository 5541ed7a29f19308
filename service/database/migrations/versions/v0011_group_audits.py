"""Audits of groups: an audit says whether it drew candidates or questions with their accepted neighbors."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # The unique constraint gets a column, so the table is made anew: its rows go out and come back under the
    # same keys, and what refers to them is checked at the end of the transaction.
    connection = op.get_bind()
    connection.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
    connection.exec_driver_sql("CREATE TEMPORARY TABLE audits_before AS SELECT * FROM audits")
    op.drop_table("audits")
    op.create_table(
        "audits",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("seed", sa.Integer(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_audits_run_id_runs")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audits")),
        sa.UniqueConstraint("run_id", "kind", "seed", "size", name=op.f("uq_audits_run_id_kind_seed_size")),
    )
    connection.exec_driver_sql(
        "INSERT INTO audits (id, run_id, kind, seed, size, created_at) "
        "SELECT id, run_id, 'candidates', seed, size, created_at FROM audits_before"
    )
    connection.exec_driver_sql("DROP TABLE audits_before")
