"""Access to the server's database: sessions, a stamp that changes with it, cached results, added reviews."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import streamlit as st
from sqlalchemy import text
from sqlalchemy.orm import Session

from service.database import Database, Place
from service.database.postgresql.server import watch_statements
from service.errors import DatabaseError
from ui.pages.state import results, settings
from ui.pages.widgets import layout

P = ParamSpec("P")
R = TypeVar("R")

REVIEW_TABLES = frozenset(
    {"reviews", "review_withdrawals", "human_grades", "human_grade_withdrawals", "candidates", "verdicts"}
    | {"proposals", "standings", "candidate_findings"}
)
"""The only tables that the UI adds rows to. Triggers forbid changes to rows that hold decisions and texts."""
TASKS = "tasks"
"""A run's tasks: an edited text opens its task again, so that it is judged when the run is resumed."""

_lock = threading.Lock()
_open: dict[Place, "_Opened"] = {}
_generations = 0


@contextmanager
def reading() -> Iterator[Session]:
    """One consistent, read-only view of the server's database.

    If it cannot be read, the page says what to do and stops.
    """
    place = settings.current().database
    try:
        with _opened(place).database.read() as session:
            yield session
    except DatabaseError as error:
        if isinstance(place, Path) and (not place.exists() or not place.stat().st_size):
            layout.empty_state(
                "There is no database here yet.",
                f"{place} does not exist or is empty. Import questions and reload this page, or open the "
                "demo's results:",
                commands=(settings.command("questions import FILE --name NAME"), "tagrpo ui --demo"),
            )
        else:
            layout.error_box("The database cannot be read.", str(error))
        st.stop()
        raise


def begin_page(heading: str, words: str) -> None:
    """Start a page with its title; if no database can be read, say what to do and stop."""
    layout.title(heading, words)
    with reading():
        pass


def stamp() -> str:
    """Return a text that changes whenever the database changes.

    Replacing the file counts as a change. The text is empty if there is no database.
    """
    try:
        return _opened(settings.current().database).stamp()
    except DatabaseError:  # `reading` reports it
        return ""


def fetch(function: Callable[Concatenate[Session, P], R], *arguments: P.args, **named: P.kwargs) -> R:
    """Return `function(session, *arguments)`, cached until the database changes.

    Results must be picklable (types from modules, not from a page's file); callers get a copy. The session is
    opened on a miss only. Fetch a page of rows, not a whole table.
    """

    def ask() -> R:
        with reading() as session:
            return function(session, *arguments, **named)

    code = getattr(function, "__code__", None)
    name = (function.__module__, function.__qualname__, code and code.co_filename)
    where = str(settings.current().database)
    return results.keep((name, where, stamp(), arguments, sorted(named.items())), ask)


def cached(function: Callable[Concatenate[Session, P], R]) -> Callable[P, R]:
    """Turn `function(session, *arguments)` into `function(*arguments)`, cached as by `fetch`."""

    @wraps(function)
    def kept(*arguments: P.args, **named: P.kwargs) -> R:
        return fetch(function, *arguments, **named)

    return kept


@contextmanager
def review_writer() -> Iterator[Session]:
    """One transaction that may add reviews, edits and human grades, on a server with --review.

    Raises:
        DatabaseError: the server is read-only, another process keeps the lock, or a statement would write to
            another table.
    """
    current = settings.current()
    if not current.review:
        raise DatabaseError("this UI is read-only. Start it with `tagrpo ui --review` to store decisions.")
    with (
        Database.open(current.database, create=False) as database,
        database.write() as session,
    ):
        watch_statements(session.connection(), _check_statement)
        yield session


def _check_statement(statement: str) -> None:
    """Refuse all statements but reading ones and those that a review needs."""
    verb, *words = statement.split(None, 3)
    adds = verb == "INSERT" and words[0] == "INTO" and words[1] in REVIEW_TABLES
    opens = verb == "UPDATE" and words[0] == TASKS
    if not (adds or opens) and verb != "SELECT":
        raise DatabaseError(f"the UI may only add reviews, so it rejects this statement: {verb}.")


def forget() -> None:
    """Close all databases and forget all results."""
    with _lock:
        for opened in _open.values():
            opened.close()
        _open.clear()
    results.forget()


class _Opened:
    """An open database, and the stamp of its changes.

    SQLite's `data_version` compares on one connection only, so a file has a connection for it. On a server,
    the transactions in its snapshot tell.
    """

    def __init__(self, place: Place, generation: int) -> None:
        self.identity = _identity(place)
        self.database = Database.open(place, read_only=True)
        self._generation = generation
        self._lock = threading.Lock()
        self._file = None
        if isinstance(place, Path):
            address = f"{place.resolve().as_uri()}?mode=ro"
            self._file = sqlite3.connect(
                address, uri=True, timeout=5, isolation_level=None, check_same_thread=False
            )

    def stamp(self) -> str:
        if self._file is not None:
            with self._lock:
                version = self._file.execute("PRAGMA data_version").fetchone()[0]
        else:
            with self.database.read() as session:
                version = session.scalar(text("SELECT CAST(pg_current_snapshot() AS text)"))
        return f"{self._generation}.{version}"

    def close(self) -> None:
        self.database.close()
        if self._file is not None:
            self._file.close()


def _opened(place: Place) -> _Opened:
    global _generations
    with _lock:
        if place in _open and _open[place].identity == _identity(place):
            return _open[place]
        _open.pop(place, None)  # not closed: another page may be reading from it
        _generations += 1
        _open[place] = _Opened(place, _generations)
        return _open[place]


def _identity(place: Place) -> tuple[int, int] | None:
    if not isinstance(place, Path) or not place.exists():
        return None
    status = place.stat()
    return status.st_dev, status.st_ino
