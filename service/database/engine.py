"""Open the database: its location, schema version and transactions."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import ClassVar, TypeVar

from sqlalchemy import Engine, event, inspect
from sqlalchemy.engine import Connection, ExceptionContext
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from service.database import schema
from service.database.place import Place, parse_place
from service.errors import ConnectionLostError, DatabaseError

R = TypeVar("R")


class Database(ABC):
    """An open database. Use `with db.read() as s` and `with db.write() as s`; both are one transaction."""

    VACUUM: ClassVar[tuple[str, ...]]

    def __init__(self, place: Place, engine: Engine, *, read_only: bool) -> None:
        self.place, self.engine, self.read_only = place, engine, read_only
        event.listen(engine, "handle_error", self._explain)

    @staticmethod
    def open(
        place: str | Place, *, create: bool = True, read_only: bool = False, upgrade: bool = False
    ) -> "Database":
        """Open the database at a path or URL; a new or empty one gets its tables.

        With `create=False` a file that cannot be written, as in a shared folder of results, is opened for
        reading; `write` then says so. Only `upgrade` brings an older schema to the newest revision.
        """
        from service.database.postgresql import PostgresDatabase
        from service.database.sqlite import SqliteDatabase

        place = parse_place(place)
        database = (
            SqliteDatabase(place, create=create, read_only=read_only)
            if isinstance(place, Path)
            else PostgresDatabase(place, read_only=read_only)
        )
        try:
            database._check_schema(create=create, upgrade=upgrade)
        except BaseException:
            database.close()
            raise
        return database

    def close(self) -> None:
        self.engine.dispose()

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self) -> AbstractContextManager[Session]:
        """Open a consistent read-only view of the database."""
        return self._session(write=False)

    def write(self) -> AbstractContextManager[Session]:
        """Open one transaction that takes the write lock; it commits at the end, or rolls back on error."""
        if self.read_only:
            raise DatabaseError(
                f"{self.place}: the database cannot be written (it was opened read-only). Check the "
                "permissions of the file and of its folder, or choose another one with --db."
            )
        return self._session(write=True)

    def repeat(self, transaction: Callable[[Session], R], *, write: bool, tries: int = 3) -> R:
        """Run `transaction`, and again if a server ended the connection within it.

        A transaction that was cut off has written nothing, so it may run twice.
        """
        try:
            with self.write() if write else self.read() as session:
                return transaction(session)
        except ConnectionLostError:
            if tries == 1:
                raise
        return self.repeat(transaction, write=write, tries=tries - 1)

    def vacuum(self) -> tuple[int, int]:
        """Return unused space to the disk; return the bytes of the database before and after."""
        before = self.size()
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            for statement in self.VACUUM:
                connection.exec_driver_sql(statement)
        return before, self.size()

    @abstractmethod
    def size(self) -> int:
        """Return the bytes of the database."""

    @abstractmethod
    def integrity_report(self, *, whole: bool = False) -> list[str]:
        """Return what is wrong with the file, one sentence each; empty when all is well.

        `whole` compares indexes with their tables too, which takes several times as long.
        """

    @abstractmethod
    def _transaction(self, *, write: bool) -> AbstractContextManager[Connection]:
        """Open a transaction; one that writes takes the write lock at once."""

    @abstractmethod
    def _describe(self, error: DBAPIError) -> Exception | None:
        """Turn an error into one that says what to do; None if it is a bug of ours."""

    @contextmanager
    def _session(self, *, write: bool) -> Iterator[Session]:
        with (
            self._transaction(write=write) as connection,
            Session(connection, expire_on_commit=False) as session,
        ):
            yield session
            session.flush()

    def _explain(self, context: ExceptionContext) -> None:
        """Raise an actionable error instead of the database's."""
        error = context.sqlalchemy_exception
        if isinstance(error, DBAPIError) and (description := self._describe(error)) is not None:
            raise description

    def _check_schema(self, *, create: bool, upgrade: bool) -> None:
        newest = schema.HEAD_REVISION
        with self._transaction(write=False) as connection:
            revision = self._revision(connection)
        if revision == newest:
            return
        if revision is None and (self.read_only or not create):
            raise DatabaseError(
                f"{self.place}: the database is empty. Fill it with `tagrpo questions import`, or choose "
                "another one with --db."
            )
        if self.read_only or (revision is not None and not upgrade):
            raise DatabaseError(
                f"{self.place}: the database is from an older tagrpo (schema {revision}, this version "
                f"has {newest}). Back it up with `tagrpo db backup FILE`, then run `tagrpo db upgrade`, or "
                "upgrade the copy with --db FILE if you cannot write the original."
            )
        with self._transaction(write=True) as connection:
            # Another process may have been quicker; the write lock is ours now, so look again.
            revision = self._revision(connection)
            if revision is None:
                schema.create_schema(connection)
            else:
                schema.migrate(connection)

    def _revision(self, connection: Connection) -> str | None:
        """Return the schema's revision, None of an empty file."""
        tables = inspect(connection).get_table_names()
        if not tables:
            return None
        if "alembic_version" not in tables:
            kind = "an SQLite" if isinstance(self.place, Path) else "a PostgreSQL"
            raise DatabaseError(
                f"{self.place}: {kind} database that is not from tagrpo. Choose another one with --db."
            )
        revision = str(connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar())
        if revision not in (*schema.UPGRADABLE, schema.HEAD_REVISION):
            raise DatabaseError(
                f"{self.place}: written by another version of tagrpo (schema {revision}, this version has "
                f"{schema.HEAD_REVISION}). Upgrade with `pip install -U tagrpo`, or choose another file "
                "with --db."
            )
        return revision
