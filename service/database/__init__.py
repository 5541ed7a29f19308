"""One database by path: SQLAlchemy 2 over SQLite, migrated by Alembic."""

from service.database.base import Base, CompressedText, utc_now
from service.database.engine import Database, locate_database

__all__ = ["Base", "CompressedText", "Database", "locate_database", "utc_now"]
