"""PostgreSQL: connections, transactions and errors."""

from service.database.postgresql.server import PostgresDatabase

__all__ = ["PostgresDatabase"]
