"""Opening the database: where it lies, its schema version, its transactions."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import inspect, text
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DatabaseError as SqlError
from sqlalchemy.orm import Session

from service.database import sqlite
from service.errors import DatabaseError

HEAD_REVISION = "0011"  # the newest file in migrations/versions
KNOWN_REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006", "0007", "0008", "0009", "0010", "0011")


def locate_database(option: str | Path | None) -> Path:
    """Return the database's path: the option, else `TAGRPO_DB`, else `./tagrpo.db`."""
    return Path(option or os.environ.get("TAGRPO_DB") or "tagrpo.db")


class Database:
    """An open database. Use `with db.read() as s` and `with db.write() as s`; both are one transaction."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self.read_only = read_only
        self._engine = sqlite.create_sqlite_engine(path, read_only=read_only)

    @classmethod
    def open(cls, path: str | Path, *, create: bool = True, read_only: bool = False) -> "Database":
        """Open the database at `path`, making or upgrading its schema where needed.

        With `create=False` one that cannot be written, as in a shared folder of results, is opened for
        reading; `write` then says so.

        Raises:
            DatabaseError: missing with `create=False`, not a tagrpo database, damaged, of a newer version,
                or not writable.
        """
        path = Path(path)
        sqlite.check_file(path, create=create and not read_only)
        read_only = read_only or (not create and not sqlite.can_be_written(path))
        database = cls(path, read_only=read_only)
        try:
            database._bring_up_to_date()
        except BaseException:
            database.close()
            raise
        return database

    def close(self) -> None:
        self._engine.dispose()

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def read(self) -> Iterator[Session]:
        """One consistent view of the database; nothing is written."""
        with self._transaction(write=False) as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """One transaction that takes the write lock at once; committed at the end, rolled back on error."""
        with self._transaction(write=True) as session:
            yield session

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
        try:
            with self._engine.connect() as connection:
                connection = connection.execution_options(**{sqlite.WRITE_OPTION: write})
                with connection.begin():
                    yield connection
        except (SqlError, sqlite3.Error) as error:
            explained = sqlite.describe_error(error, self.path)
            if explained is None:
                raise
            raise explained from error

    def _bring_up_to_date(self) -> None:
        with self._connection(write=False) as connection:
            revision = self._revision(connection)
        if revision == HEAD_REVISION:
            return
        if self.read_only:
            if revision is None:
                raise DatabaseError(
                    f"{self.path}: the database is empty; `tagrpo questions import` fills one, or name "
                    "another with --db."
                )
            copied = "" if sqlite.can_be_written(self.path) else "copy it to where you can write; "
            raise DatabaseError(
                f"{self.path}: the database is of an older tagrpo; {copied}`tagrpo runs list --db FILE` "
                "brings it up to date."
            )
        with self._connection(write=True) as connection:
            # Another process may have been quicker; the write lock is ours now, so look again.
            if self._revision(connection) != HEAD_REVISION:
                from service.database.migrations.upgrade import upgrade

                upgrade(connection)

    def _revision(self, connection: Connection) -> str | None:
        tables = inspect(connection).get_table_names()
        if not tables:
            return None
        if "alembic_version" not in tables:
            raise DatabaseError(
                f"{self.path}: an SQLite database, but not one of tagrpo. Name another with --db."
            )
        revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        if revision is not None and revision not in KNOWN_REVISIONS:
            raise DatabaseError(
                f"{self.path}: written by a newer tagrpo (schema {revision}, this one {HEAD_REVISION}). "
                "Upgrade with `pip install -U tagrpo`."
            )
        return None if revision is None else str(revision)

    def integrity_report(self) -> list[str]:
        """Return what is wrong with the file, one sentence each; empty when all is well."""
        with self._connection(write=False) as connection:
            return sqlite.integrity_report(connection)
