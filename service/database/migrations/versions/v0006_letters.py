"""An index of letters for searches in texts, made from what is stored and kept by triggers from here on."""

from alembic import op

from service.database.migrations.letters import CREATE, FILL, TRIGGERS

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    connection = op.get_bind()
    for statement in (*CREATE, *FILL, *TRIGGERS):
        connection.exec_driver_sql(statement)
