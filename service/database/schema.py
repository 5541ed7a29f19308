"""The schema: made whole in a new database, from the tables of all rooms; an older one is migrated.

The tables are the schema, so a new column stands in its table's class and, once databases of an earlier
revision are about, in a migration for these (`migrations/versions`). Triggers are declared next to the tables
(`service.database.triggers`).
"""

from importlib import import_module
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy.engine import Connection

from service.database.base import Base

TABLES = (
    "service.questions.images.store",
    "service.questions.tables",
    "service.questions.contamination.store",
    "service.runs.tables",
    "service.asks.tables",
    "evaluator.grading.versions",
    "evaluator.evals.tables",
    "rephraser.tables",
    "trainer_adapter.record.tables",
)
"""Modules of tables, by name: this room imports none that stands on it, yet every database has all tables."""


def load_tables() -> None:
    """Have the tables of all rooms in the metadata."""
    for module in TABLES:
        import_module(module)


def create_schema(connection: Connection) -> None:
    """Make all tables in an empty database; the caller's transaction commits them."""
    load_tables()
    Base.metadata.create_all(connection, checkfirst=False)
    command.stamp(alembic_config(connection), "head")


def migrate(connection: Connection) -> None:
    """Bring the database to the newest revision, by Alembic; the caller's transaction commits it."""
    command.upgrade(alembic_config(connection), "head")


def alembic_config(connection: Connection | None = None) -> Config:
    """Return Alembic's configuration for the history that is shipped in the wheel (no alembic.ini)."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
