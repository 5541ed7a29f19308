"""Alembic's entry point: runs on the connection that `schema` hands over."""

from alembic import context

from service.database.base import Base

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=Base.metadata, transactional_ddl=False)
# The caller holds the transaction (BEGIN IMMEDIATE), so that two processes never migrate at once.
context.run_migrations()
