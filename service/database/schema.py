"""Create the schema of a new database from the tables of all packages.

The tables are the schema: a change to one of them needs a new revision. Triggers are declared next to the
tables (`service.database.triggers`).
"""

from importlib import import_module

from sqlalchemy import text
from sqlalchemy.engine import Connection

from service.database.base import Base

TABLES = (
    "service.questions.tables",
    "service.runs.tables",
    "service.asks.tables",
    "evaluator.grading.versions",
    "evaluator.evals.tables",
    "rephraser.tables",
    "trainer_adapter.record.tables",
)
"""Modules of tables, by name: this room imports none that stands on it, yet every database has all tables."""

HEAD_REVISION = "1.6"

# As Alembic names and spells it, so that it could migrate databases.
_VERSION_TABLE = """
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
)
"""


def load_tables() -> None:
    """Have the tables of all rooms in the metadata."""
    for module in TABLES:
        import_module(module)


def create_schema(connection: Connection) -> None:
    """Make all tables in an empty database; the caller's transaction commits them."""
    load_tables()
    Base.metadata.create_all(connection, checkfirst=False)
    connection.execute(text(_VERSION_TABLE))
    connection.execute(text("INSERT INTO alembic_version VALUES (:name)"), {"name": HEAD_REVISION})
