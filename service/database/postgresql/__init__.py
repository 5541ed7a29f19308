"""A database of a PostgreSQL server: connections, transactions, what its errors mean."""

from service.database.postgresql.server import PostgresDatabase

__all__ = ["PostgresDatabase"]
