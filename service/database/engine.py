"""Opening the database: where it lies, its schema version, its transactions."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import inspect, text
from sqlalchemy.engine import Connection
from sqlalchemy.orm import Session

from service.database import sqlite
from service.database.filesystem import ROLLBACK, check_place, chosen_journal
from service.database.single_use import SingleUse
from service.errors import DatabaseError

KNOWN_REVISIONS = ("1.0",)
"""The schema's revisions, as in migrations/versions, the newest last."""

HEAD_REVISION = KNOWN_REVISIONS[-1]
UNRELEASED = tuple(f"{number:04}" for number in range(1, 12))
"""Revisions of before the first schema. Databases of these are refused, not migrated."""

OUT_OF_UNRELEASED = (
    "tagrpo sets export NAME FOLDER",  # with the version that wrote it; the others with this one
    "tagrpo sets import FOLDER",
    "tagrpo questions import FILE",
    "tagrpo rollouts import FOLDER",
)
"""What takes the content of such a database to a new one."""


def locate_database(option: str | Path | None) -> Path:
    """Return the database's path: the option, else `TAGRPO_DB`, else `./tagrpo.db`."""
    return Path(option or os.environ.get("TAGRPO_DB") or "tagrpo.db")


class Database:
    """An open database. Use `with db.read() as s` and `with db.write() as s`; both are one transaction."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self.read_only = read_only
        self._use = SingleUse(path) if not read_only and chosen_journal() == ROLLBACK else None
        self._engine = sqlite.create_sqlite_engine(path, read_only=read_only)

    @classmethod
    def open(cls, path: str | Path, *, create: bool = True, read_only: bool = False) -> "Database":
        """Open the database at `path`; a new or empty one gets its tables, none is ever upgraded.

        With `create=False` one that cannot be written, as in a shared folder of results, is opened for
        reading; `write` then says so.

        Raises:
            DatabaseError: missing with `create=False`, not a tagrpo database, damaged, of another version,
                not writable, or on a network file system without `TAGRPO_JOURNAL=rollback`.
        """
        return cls._open(path, create=create, read_only=read_only, upgrade=False)

    @classmethod
    def upgrade(cls, path: str | Path) -> "Database":
        """Open the database at `path` and bring its schema to the newest revision."""
        return cls._open(path, create=False, read_only=False, upgrade=True)

    @classmethod
    def _open(cls, path: str | Path, *, create: bool, read_only: bool, upgrade: bool) -> "Database":
        path = Path(path)
        sqlite.check_file(path, create=create and not read_only)
        read_only = read_only or (not create and not sqlite.can_be_written(path))
        if not read_only or sqlite.is_open_elsewhere(path):
            check_place(path)
        database = cls(path, read_only=read_only)
        try:
            database._check_schema(upgrade=upgrade)
        except BaseException:
            database.close()
            raise
        return database

    def close(self) -> None:
        self._engine.dispose()
        if self._use is not None:
            self._use.release()

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
        with sqlite.explained(self.path), self._engine.connect() as connection:
            connection = connection.execution_options(**{sqlite.WRITE_OPTION: write})
            with connection.begin():
                yield connection

    def run_alone(self, *statements: str) -> None:
        """Run statements that cannot stand in a transaction, such as VACUUM."""
        with sqlite.explained(self.path), closing(self._engine.raw_connection()) as connection:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)

    def _check_schema(self, *, upgrade: bool) -> None:
        with self._connection(write=False) as connection:
            revision = self._revision(connection)
        if revision == HEAD_REVISION:
            return
        if self.read_only and revision is None:
            raise DatabaseError(
                f"{self.path}: the database is empty; `tagrpo questions import` fills one, or name "
                "another with --db."
            )
        if self.read_only or (revision is not None and not upgrade):
            copied = "" if sqlite.can_be_written(self.path) else "copy it to where you can write; "
            raise DatabaseError(
                f"{self.path}: the database is of an older tagrpo (schema {revision}, this one "
                f"{HEAD_REVISION}); {copied}`tagrpo db backup FILE` keeps it as it is, `tagrpo db upgrade` "
                "brings it up to date."
            )
        with self._connection(write=True) as connection:
            # Another process may have been quicker; the write lock is ours now, so look again.
            revision = self._revision(connection)
            if revision != HEAD_REVISION:
                from service.database.schema import create_schema, migrate

                (create_schema if revision is None else migrate)(connection)

    def _revision(self, connection: Connection) -> str | None:
        """Return the schema's revision, None of an empty file."""
        tables = inspect(connection).get_table_names()
        if not tables:
            return None
        if "alembic_version" not in tables:
            raise DatabaseError(
                f"{self.path}: an SQLite database, but not one of tagrpo. Name another with --db."
            )
        revision = str(connection.execute(text("SELECT version_num FROM alembic_version")).scalar())
        if revision in UNRELEASED:
            export, *imports = OUT_OF_UNRELEASED
            raise DatabaseError(
                f"{self.path}: written by a tagrpo of before the first release (schema {revision}), which "
                f"this one does not read. Export its neighbor sets with the version that wrote it (`{export} "
                f"--db {self.path}`), then bring them into a new database with this one, and the rest from "
                f"its files: {', '.join(f'`{command}`' for command in imports)}."
            )
        if revision not in KNOWN_REVISIONS:
            raise DatabaseError(
                f"{self.path}: written by a newer tagrpo (schema {revision}, this one {HEAD_REVISION}). "
                "Upgrade with `pip install -U tagrpo`."
            )
        return revision

    def integrity_report(self, *, whole: bool = False) -> list[str]:
        """Return what is wrong with the file, one sentence each; empty when all is well.

        `whole` compares indexes with their tables too, which takes several times as long.
        """
        problems: list[str] = []
        try:
            with self._connection(write=False) as connection:
                problems += sqlite.integrity_report(connection, whole=whole)
        except DatabaseError:  # SQLite cannot even end the transaction over damaged pages
            if not problems:
                raise
        return problems
