"""Reading the server's database from pages: sessions, a stamp that changes with it, results kept by stamp."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import wraps
from pathlib import Path
from typing import Concatenate, Literal, ParamSpec, TypeVar

import streamlit as st
from sqlalchemy.orm import Session

from service.database import Database
from service.database.engine import HEAD_REVISION, KNOWN_REVISIONS, OUT_OF_UNRELEASED, UNRELEASED
from service.errors import DatabaseError
from ui.pages.state import settings
from ui.pages.state.results import Results
from ui.pages.widgets import layout

P = ParamSpec("P")
R = TypeVar("R")

Condition = Literal["ready", "missing", "empty", "older", "unreleased", "newer", "foreign", "unreadable"]

REVIEW_TABLES = frozenset(
    {
        "reviews",
        "review_withdrawals",
        "human_grades",
        "human_grade_withdrawals",
        "candidates",
        "proposals",
    }
)
"""All that pages ever add rows to; triggers forbid to change any."""

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

_results = Results()
_lock = threading.Lock()
_open: dict[Path, "_Opened"] = {}


@contextmanager
def reading() -> Iterator[Session]:
    """One consistent, read-only view of the server's database.

    Where there is none that can be read, the page says what to do and ends here.
    """
    path = settings.current().database
    try:
        opened = _opened(path)
        if opened is None:
            state = condition(path)
            _say_why_not(path, state)
            st.stop()
            raise DatabaseError(f"{path}: {state}")  # without a browser nothing stops
        with opened.database.read() as session:
            yield session
    except DatabaseError as error:
        layout.error_box("The database cannot be read.", str(error))
        st.stop()
        raise


def stamp() -> int:
    """Return a number that is another one whenever the database has changed since the last call.

    SQLite's `data_version` compares only on one connection, so one is kept; a file put in the place of the
    old one counts as a change. Where there is no database to read it is 0.
    """
    opened = _opened(settings.current().database)
    return 0 if opened is None else opened.stamp()


def cached(function: Callable[Concatenate[Session, P], R]) -> Callable[P, R]:
    """Keep a query's results as long as the database stays as it is.

    `function(session, *arguments)` becomes `function(*arguments)`: the session is opened on a miss only.
    Arguments must be hashable, results picklable (types from modules, not from a page's file); callers get a
    copy. A page of rows is a fair result, a whole table is not.
    """
    code = function.__code__ if hasattr(function, "__code__") else None
    name = (function.__module__, function.__qualname__, code.co_filename if code else "")

    @wraps(function)
    def kept(*arguments: P.args, **named: P.kwargs) -> R:
        def ask() -> R:
            with reading() as session:
                return function(session, *arguments, **named)

        where = str(settings.current().database)
        key = (name, where, stamp(), arguments, tuple(sorted(named.items())))
        return _results.get(key, ask)

    return kept


@contextmanager
def review_writer() -> Iterator[Session]:
    """One transaction that may add reviews, mended texts and people's grades, on a server with --review.

    Raises:
        DatabaseError: the server is read-only, another process keeps the lock, or a statement would write to
            another table.
    """
    current = settings.current()
    if not current.review:
        raise DatabaseError("these pages only read; start them with `tagrpo ui --review` to decide.")
    if condition(current.database) != "ready":
        raise DatabaseError(f"{current.database}: not a database that reviews can be written to.")
    with Database.open(current.database, create=False) as database, database.write() as session:
        connection = session.connection().connection.driver_connection
        if not isinstance(connection, sqlite3.Connection):
            raise DatabaseError("reviews need SQLite.")
        connection.execute("SELECT 1 FROM text_letters LIMIT 0")  # opening an index takes more rights
        connection.set_authorizer(_only_reviews)
        try:
            yield session
            session.flush()
        finally:
            connection.set_authorizer(None)


def _only_reviews(
    action: int, table: str | None, _column: str | None, _schema: str | None, trigger: str | None
) -> int:
    adds = action == sqlite3.SQLITE_INSERT and table in REVIEW_TABLES
    counts = action in (sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE) and trigger is not None
    # The index of letters, which a trigger fills, keeps its pages in tables of its own.
    pages = action in _WRITES and table is not None and table.startswith("text_letters_")
    version = action == sqlite3.SQLITE_PRAGMA and table == "data_version"
    fine = action in _READS or adds or counts or pages or version
    return sqlite3.SQLITE_OK if fine else sqlite3.SQLITE_DENY


def condition(path: Path) -> Condition:
    """Say what lies at `path`, without changing anything there."""
    if not path.exists():
        return "missing"
    try:
        with closing(_connect(path)) as connection:
            tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
            if not tables:
                return "empty"
            if "alembic_version" not in tables:
                return "foreign"
            row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.Error:
        return "unreadable"
    revision = "" if row is None else str(row[0])
    if revision == HEAD_REVISION:
        return "ready"
    if revision in UNRELEASED:
        return "unreleased"
    return "older" if revision in KNOWN_REVISIONS else "newer"


def forget() -> None:
    """Close all databases and forget all results."""
    with _lock:
        for opened in _open.values():
            opened.close()
        _open.clear()
    _results.clear()


class _Opened:
    """An open database, with the connection whose `data_version` tells changes."""

    def __init__(self, path: Path, generation: int) -> None:
        self.identity = _identity(path)
        self.database = Database.open(path, read_only=True)
        self._watch = _connect(path)
        self._generation = generation
        self._lock = threading.Lock()

    def stamp(self) -> int:
        with self._lock:
            version = self._watch.execute("PRAGMA data_version").fetchone()[0]
        return (self._generation << 32) + int(version)

    def close(self) -> None:
        self.database.close()
        self._watch.close()


_generations = 0


def _opened(path: Path) -> _Opened | None:
    """Return the open database, opening it (again) where that is needed; None where it is not to be read."""
    global _generations
    with _lock:
        kept = _open.get(path)
        if kept is not None:
            if kept.identity == _identity(path):
                return kept
            del _open[path]  # not closed: another page may be reading from it
        if condition(path) != "ready":
            return None
        _generations += 1
        _open[path] = _Opened(path, _generations)
        return _open[path]


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.resolve().as_uri()}?mode=ro",
        uri=True,
        timeout=5,
        isolation_level=None,
        check_same_thread=False,
    )


def _say_why_not(path: Path, state: Condition) -> None:
    if state == "missing":
        layout.empty_state(
            "There is no database here yet.",
            f"Nothing lies at {path}. Import questions, and reload this page:",
            commands=(f"tagrpo questions import FILE --name NAME --db {path}", "tagrpo demo"),
        )
    elif state == "empty":
        layout.empty_state(
            "The database is empty.",
            f"{path} holds no tables. Import questions, and reload this page:",
            commands=(f"tagrpo questions import FILE --name NAME --db {path}",),
        )
    elif state == "older":
        layout.empty_state(
            "The database is of an older version.",
            "These pages never change it. Any command that opens it for writing brings it up to date:",
            commands=(f"tagrpo runs list --db {path}",),
        )
    elif state == "unreleased":
        layout.empty_state(
            "The database was written before the first release of tagrpo.",
            "Its neighbor sets can be exported with the version that wrote it. The other commands, with this "
            "version and a new --db, read them back, and the rest from its files:",
            commands=OUT_OF_UNRELEASED,
        )
    elif state == "newer":
        layout.error_box(
            "The database was written by a newer tagrpo.", "Upgrade with `pip install -U tagrpo`."
        )
    elif state == "foreign":
        layout.error_box(
            "This is an SQLite database, but not one of tagrpo.", f"{path}: name another one with --db."
        )
    else:
        layout.error_box(
            "The database cannot be read.", f"{path}: is it an SQLite file, and may this user read it?"
        )
