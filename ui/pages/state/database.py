"""Read access to the server's database: sessions, a stamp that changes with it, cached results."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import streamlit as st
from sqlalchemy.orm import Session

from service.database import Database, Place
from service.database.engine import OUT_OF_UNRELEASED
from service.errors import DatabaseError
from ui.pages.state import settings
from ui.pages.state.places import Condition, FileWatch, ServerWatch, condition, restrict_to_reviews
from ui.pages.state.results import Results
from ui.pages.widgets import layout

P = ParamSpec("P")
R = TypeVar("R")

_results = Results()
_lock = threading.Lock()
_open: dict[Place, "_Opened"] = {}


@contextmanager
def reading() -> Iterator[Session]:
    """One consistent, read-only view of the server's database.

    If it cannot be read, the page says what to do and stops.
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
        opened = _opened(settings.current().database)
        return "" if opened is None else opened.stamp()
    except DatabaseError:  # `reading` reports it
        return ""


def cached(function: Callable[Concatenate[Session, P], R]) -> Callable[P, R]:
    """Cache a query's results until the database changes.

    `function(session, *arguments)` becomes `function(*arguments)`: the session is opened on a miss only.
    Arguments must be hashable, results picklable (types from modules, not from a page's file); callers get a
    copy. Cache a page of rows, not a whole table.
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
    """One transaction that may add reviews, edits and human grades, on a server with --review.

    Raises:
        DatabaseError: the server is read-only, another process keeps the lock, or a statement would write to
            another table.
    """
    current = settings.current()
    if not current.review:
        raise DatabaseError("this UI is read-only. Start it with `tagrpo ui --review` to store decisions.")
    if condition(current.database) != "ready":
        raise DatabaseError(f"{current.database}: reviews cannot be written to this database.")
    with (
        Database.open(current.database, create=False) as database,
        database.write() as session,
        restrict_to_reviews(session),
    ):
        yield session


def forget() -> None:
    """Close all databases and forget all results."""
    with _lock:
        for opened in _open.values():
            opened.close()
        _open.clear()
    _results.clear()


class _Opened:
    """An open database, and the stamp of its changes."""

    def __init__(self, place: Place, generation: int) -> None:
        self.identity = _identity(place)
        self.database = Database.open(place, read_only=True)
        self._watch = FileWatch(place) if isinstance(place, Path) else ServerWatch(self.database)
        self._generation = generation

    def stamp(self) -> str:
        return f"{self._generation}.{self._watch.stamp()}"

    def close(self) -> None:
        self.database.close()
        self._watch.close()


_generations = 0


def _opened(path: Place) -> _Opened | None:
    """Return the open database, opening it (again) if needed; None if it cannot be read."""
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


def _identity(path: Place) -> tuple[int, int] | None:
    if not isinstance(path, Path):
        return None
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _say_why_not(path: Place, state: Condition) -> None:
    if state == "missing":
        layout.empty_state(
            "There is no database here yet.",
            f"{path} does not exist. Import questions and reload this page, or look at the demo's results:",
            commands=(settings.command("questions import FILE --name NAME"), "tagrpo ui --demo"),
        )
    elif state == "empty":
        layout.empty_state(
            "The database is empty.",
            f"{path} contains no tables. Import questions and reload this page:",
            commands=(settings.command("questions import FILE --name NAME"),),
        )
    elif state == "older":
        layout.empty_state(
            "The database has an older schema.",
            "The UI never changes it. Back it up, upgrade it, and reload this page:",
            commands=(settings.command("db backup FILE"), settings.command("db upgrade")),
        )
    elif state == "unreleased":
        layout.empty_state(
            "The database was written before the first release of tagrpo.",
            "Export its neighbor sets with the version that wrote it. Then import them with this version "
            "into a new --db, along with the other files.",
            commands=OUT_OF_UNRELEASED,
        )
    elif state == "newer":
        layout.error_box(
            "The database was written by a newer tagrpo.", "Upgrade with `pip install -U tagrpo`."
        )
    elif state == "foreign":
        layout.error_box("This database does not belong to tagrpo.", f"{path}: choose another one with --db.")
    else:
        layout.error_box(
            "The database cannot be read.",
            f"{path}: check that it is an SQLite file and that you may read it.",
        )
