"""Runs the migrations in one transaction, from the files in the package (no alembic.ini, no source tree)."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy.engine import Connection


def alembic_config(connection: Connection | None = None) -> Config:
    """Return Alembic's configuration for the history that is shipped in the wheel."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def upgrade(connection: Connection) -> None:
    """Bring the database behind `connection` to the newest schema; the caller's transaction commits it."""
    command.upgrade(alembic_config(connection), "head")
