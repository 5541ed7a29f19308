"""The database's location: its state, how to detect changes, and which writes are allowed."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal

from sqlalchemy import inspect, text
from sqlalchemy.orm import Session

from service.database import Database, Place
from service.database.engine import HEAD_REVISION, KNOWN_REVISIONS, UNRELEASED
from service.database.postgresql import PostgresDatabase
from service.database.postgresql.server import watch_statements
from service.errors import DatabaseError

Condition = Literal["ready", "missing", "empty", "older", "unreleased", "newer", "foreign", "unreadable"]

REVIEW_TABLES = frozenset(
    {
        "reviews",
        "review_withdrawals",
        "human_grades",
        "human_grade_withdrawals",
        "candidates",
        "verdicts",
        "proposals",
    }
)
"""The only tables that the UI adds rows to; triggers forbid changes to their rows."""
TASKS = "tasks"
"""A run's tasks, which an edited text opens again."""

_READS = frozenset(
    {
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
        sqlite3.SQLITE_TRANSACTION,
        sqlite3.SQLITE_SAVEPOINT,
    }
)
_WRITES = frozenset({sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE})
_REVISION = "SELECT version_num FROM alembic_version"
_SNAPSHOT = text("SELECT CAST(pg_current_snapshot() AS text)")


def condition(place: Place) -> Condition:
    """Return the state of a location without changing anything there.

    Raises:
        DatabaseError: a server cannot be reached, or does not let this role in.
    """
    if not isinstance(place, Path):
        with (
            closing(PostgresDatabase(place, read_only=True)) as server,
            server.explained(),
            server.connection(write=False) as connection,
        ):
            tables = set(inspect(connection).get_table_names())
            return _condition(tables, lambda: connection.exec_driver_sql(_REVISION).scalar())
    if not place.exists():
        return "missing"
    try:
        with closing(_connect(place)) as file:
            tables = {row[0] for row in file.execute("SELECT name FROM sqlite_master")}
            return _condition(tables, lambda: (file.execute(_REVISION).fetchone() or ("",))[0])
    except sqlite3.Error:
        return "unreadable"


def _condition(tables: set[str], revision: Callable[[], object]) -> Condition:
    if not tables:
        return "empty"
    if "alembic_version" not in tables:
        return "foreign"
    version = str(revision())
    if version == HEAD_REVISION:
        return "ready"
    if version in UNRELEASED:
        return "unreleased"
    return "older" if version in KNOWN_REVISIONS else "newer"


class FileWatch:
    """Detect changes of a file by SQLite's `data_version`, which compares on one connection only."""

    def __init__(self, path: Path) -> None:
        self._connection = _connect(path)
        self._lock = threading.Lock()

    def stamp(self) -> str:
        """Return a text that changes whenever the database changes."""
        with self._lock:
            return str(self._connection.execute("PRAGMA data_version").fetchone()[0])

    def close(self) -> None:
        self._connection.close()


class ServerWatch:
    """Detect changes of a database on a server by the transactions in its snapshot."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def stamp(self) -> str:
        """Return a text that changes whenever the database changes."""
        with self._database.read() as session:
            return str(session.scalar(_SNAPSHOT))

    def close(self) -> None:
        """Nothing to close: its connections belong to the database."""


@contextmanager
def restrict_to_reviews(session: Session) -> Iterator[None]:
    """Refuse all other writes of a session; triggers may count what is added."""
    connection = session.connection()
    file = connection.connection.driver_connection
    if not isinstance(file, sqlite3.Connection):
        watch_statements(connection, _refuse_others)
        yield
        session.flush()
        return
    for opened in ("text_letters", "json_each('[]')"):  # opening these takes more rights
        file.execute(f"SELECT 1 FROM {opened} LIMIT 0")
    file.set_authorizer(_only_reviews)
    try:
        yield
        session.flush()
    finally:
        file.set_authorizer(None)


def _refuse_others(statement: str) -> None:
    words = statement.split(None, 3)
    adds = [word.upper() for word in words[:2]] == ["INSERT", "INTO"] and words[2] in REVIEW_TABLES
    opens = words[0].upper() == "UPDATE" and words[1] == TASKS
    if not (adds or opens) and words[0].upper() != "SELECT":
        raise DatabaseError(f"the UI only adds reviews, so this statement is refused: {words[0]}.")


def _only_reviews(
    action: int, table: str | None, _column: str | None, _schema: str | None, trigger: str | None
) -> int:
    adds = action == sqlite3.SQLITE_INSERT and table in REVIEW_TABLES
    opens = (
        action == sqlite3.SQLITE_UPDATE and table == TASKS
    )  # an edited text is judged when its run goes on
    counts = action in (sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE) and trigger is not None
    # A trigger fills the index of letters, which keeps its pages in tables of its own.
    pages = action in _WRITES and table is not None and table.startswith("text_letters_")
    version = action == sqlite3.SQLITE_PRAGMA and table == "data_version"
    fine = action in _READS or adds or opens or counts or pages or version
    return sqlite3.SQLITE_OK if fine else sqlite3.SQLITE_DENY


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.resolve().as_uri()}?mode=ro",
        uri=True,
        timeout=5,
        isolation_level=None,
        check_same_thread=False,
    )
