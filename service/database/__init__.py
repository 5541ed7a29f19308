"""One database by path or URL: SQLAlchemy 2 over SQLite or PostgreSQL, migrated by Alembic."""

from service.database.base import Base, columns_of, in_parts, upsert, utc_now
from service.database.engine import Database
from service.database.place import Place, Server, locate_database

__all__ = [
    "Base",
    "Database",
    "Place",
    "Server",
    "columns_of",
    "in_parts",
    "locate_database",
    "upsert",
    "utc_now",
]
