"""Open the database: its location, schema version and transactions."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeVar

from sqlalchemy import inspect
from sqlalchemy.engine import Connection
from sqlalchemy.orm import Session

from service.database import schema, sqlite
from service.database.place import DatabaseServer, Place, parse_place
from service.database.postgresql import PostgresDatabase
from service.database.sqlite import SqliteDatabase
from service.errors import ConnectionLostError, DatabaseError

R = TypeVar("R")

_TRIES = 3


class Database:
    """An open database. Use `with db.read() as s` and `with db.write() as s`; both are one transaction."""

    def __init__(self, connections: SqliteDatabase | PostgresDatabase) -> None:
        self.place: Place = connections.place
        self.read_only = connections.read_only
        self.connections = connections

    @classmethod
    def open(
        cls, place: str | Place, *, create: bool = True, read_only: bool = False, upgrade: bool = False
    ) -> "Database":
        """Open the database at a path or URL; a new or empty one gets its tables.

        With `create=False` a file that cannot be written, as in a shared folder of results, is opened for
        reading; `write` then says so. Only `upgrade` brings an older schema to the newest revision.
        """
        place = parse_place(place)
        database = cls(
            PostgresDatabase(place, read_only=read_only)
            if isinstance(place, DatabaseServer)
            else SqliteDatabase(place, create=create, read_only=read_only)
        )
        try:
            database._check_schema(create=create, upgrade=upgrade)
        except BaseException:
            database.close()
            raise
        return database

    def close(self) -> None:
        self.connections.engine.dispose()

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self) -> AbstractContextManager[Session]:
        """Open a consistent read-only view of the database."""
        return self._transaction(write=False)

    def write(self) -> AbstractContextManager[Session]:
        """Open one transaction that takes the write lock; it commits at the end, or rolls back on error."""
        return self._transaction(write=True)

    def repeat(self, transaction: Callable[[Session], R], *, write: bool) -> R:
        """Run `transaction`, and again if a server ended the connection within it.

        A transaction that was cut off has written nothing, so it may run twice.
        """
        for tries_left in reversed(range(_TRIES)):
            try:
                with self._transaction(write=write) as session:
                    return transaction(session)
            except ConnectionLostError:
                if not tries_left:
                    raise
        raise AssertionError

    @contextmanager
    def _transaction(self, *, write: bool) -> Iterator[Session]:
        with (
            self._connection(write=write) as connection,
            Session(connection, expire_on_commit=False) as session,
        ):
            yield session
            session.flush()

    @contextmanager
    def _connection(self, *, write: bool) -> Iterator[Connection]:
        if write and self.read_only:
            raise DatabaseError(
                f"{self.place}: the database cannot be written (it was opened read-only). Check the "
                "permissions of the file and of its folder, or choose another one with --db."
            )
        with self.connections.explained(), self.connections.connection(write=write) as connection:
            yield connection

    def _check_schema(self, *, create: bool, upgrade: bool) -> None:
        newest = schema.HEAD_REVISION
        with self._connection(write=False) as connection:
            revision = self._revision(connection)
        if revision == newest:
            return
        if revision is None and (self.read_only or not create):
            raise DatabaseError(
                f"{self.place}: the database is empty. Fill it with `tagrpo questions import`, or choose "
                "another one with --db."
            )
        if self.read_only or (revision is not None and not upgrade):
            locked_up = isinstance(self.place, Path) and not sqlite.can_be_written(self.place)
            copied = "Copy it to a folder where you have write access. " if locked_up else ""
            raise DatabaseError(
                f"{self.place}: the database is from an older tagrpo (schema {revision}, this version "
                f"has {newest}). {copied}Back it up with `tagrpo db backup FILE`, then run `tagrpo "
                "db upgrade`."
            )
        with self._connection(write=True) as connection:
            # Another process may have been quicker; the write lock is ours now, so look again.
            revision = self._revision(connection)
            if revision is None:
                self.connections.check_before_schema(connection)
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

    def vacuum(self) -> tuple[int, int]:
        """Return unused space to the disk; return the bytes of the database before and after."""
        before = self._size()
        self.connections.run_alone(*self.connections.VACUUM)
        return before, self._size()

    def _size(self) -> int:
        with self._connection(write=False) as connection:
            return self.connections.size(connection)

    def integrity_report(self, *, whole: bool = False) -> list[str]:
        """Return what is wrong with the file, one sentence each; empty when all is well.

        `whole` compares indexes with their tables too, which takes several times as long.
        """
        problems: list[str] = []
        try:
            with self._connection(write=False) as connection:
                problems += self.connections.integrity_report(connection, whole=whole)
        except DatabaseError:  # SQLite cannot even end the transaction over damaged pages
            if not problems:
                raise
        return problems
