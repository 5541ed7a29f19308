"""Access to the server's database: sessions, a stamp that changes with it, cached results, added reviews."""

import hashlib
import os
import pickle
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import streamlit as st
from sqlalchemy import event, text
from sqlalchemy.orm import Session

from service.database import Database, Place
from service.errors import DatabaseError
from ui.pages.state import settings
from ui.pages.widgets import layout

P = ParamSpec("P")
R = TypeVar("R")

_REVIEWS = ("reviews", "review_withdrawals", "human_grades", "human_grade_withdrawals")
REVIEW_TABLES = (*_REVIEWS, "candidates", "verdicts", "proposals", "standings", "candidate_findings")
"""The only tables that the UI adds rows to. Triggers forbid changes to rows that hold decisions and texts."""
TASKS = "tasks"
"""A run's tasks: an edited text opens its task again, so that it is judged when the run is resumed."""

_lock = threading.Lock()
_MOST_KEPT = 500
_making: dict[bytes, threading.Lock] = {}
_kept: OrderedDict[bytes, bytes] = OrderedDict()  # the least recently used first
_open: dict[tuple[Place, object], tuple[Database, sqlite3.Connection | None]] = {}


@contextmanager
def reading() -> Iterator[Session]:
    """One read-only view of the database; if it cannot be read, the page says what to do and stops."""
    place = settings.current().database
    try:
        with _opened(place)[0].read() as session:
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


def show_page(heading: str, words: str, body: Callable[[], None]) -> None:
    """Show a page with its title; if no database can be read, say what to do and stop.

    The body is a fragment: its widgets run it alone, without the navigation and the title.
    """
    layout.title(heading, words)
    with reading():
        pass
    st.fragment(body)()


def stamp() -> str:
    """Return a text that changes whenever the database changes or its file is replaced; "" without one."""
    try:
        database, file = _opened(settings.current().database)
        if file is not None:  # SQLite's `data_version` compares on one connection only
            with _lock:
                version = file.execute("PRAGMA data_version").fetchone()[0]
        else:
            with database.read() as session:
                version = session.scalar(text("SELECT CAST(pg_current_snapshot() AS text)"))
    except DatabaseError:  # `reading` reports it
        return ""
    return f"{id(database)}.{version}"


def keep(key: Any, make: Callable[[], R]) -> R:
    """Return the result of `make`, kept for each `repr(key)`; callers get a copy each."""
    name = hashlib.blake2b(repr(key).encode("utf-8", "replace")).digest()
    with _lock:
        making = _making.setdefault(name, threading.Lock())
    with making:  # what takes seconds is made once, though several tabs ask for it
        with _lock:
            written = _kept.get(name)
        if written is None:
            written = pickle.dumps(make())
        with _lock:
            _kept[name] = written
            _kept.move_to_end(name)
            if len(_kept) > _MOST_KEPT:
                _making.pop(_kept.popitem(last=False)[0], None)
    result: R = pickle.loads(written)
    return result


def fetch(function: Callable[Concatenate[Session, P], R], *arguments: P.args, **named: P.kwargs) -> R:
    """Return `function(session, *arguments)`, cached until the database changes; callers get a copy.

    Results must be picklable (types from modules, not from a page's file).
    """

    def ask() -> R:
        with reading() as session:
            return function(session, *arguments, **named)

    code = getattr(function, "__code__", None)
    name = (function.__module__, function.__qualname__, code and code.co_filename)
    where = str(settings.current().database)
    return keep((name, where, stamp(), arguments, sorted(named.items())), ask)


def cached(function: Callable[Concatenate[Session, P], R]) -> Callable[P, R]:
    """Turn `function(session, *arguments)` into `function(*arguments)`, cached as by `fetch`."""
    return partial(fetch, function)


@contextmanager
def review_writer() -> Iterator[Session]:
    """One transaction that may add reviews, edits and human grades, on a server with --review."""
    current = settings.current()
    if not current.review:
        raise DatabaseError("this UI is read-only. Start it with `tagrpo ui --review` to store decisions.")
    with Database.open(current.database, create=False) as database, database.write() as session:
        event.listen(session.connection(), "before_cursor_execute", _check_statement)
        yield session


def _check_statement(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
    """Refuse all statements but reading ones and those that a review needs."""
    verb, *words = statement.split(None, 3)
    adds = verb == "INSERT" and words[0] == "INTO" and words[1] in REVIEW_TABLES
    opens = verb == "UPDATE" and words[0] == TASKS
    if not (adds or opens) and verb != "SELECT":
        raise DatabaseError(f"the UI may only add reviews, so it rejects this statement: {verb}.")


def forget() -> None:
    """Close all databases and forget all results."""
    with _lock:
        for database, file in _open.values():
            database.close()
            if file is not None:
                file.close()
        _open.clear()
        _kept.clear()


def _opened(place: Place) -> tuple[Database, sqlite3.Connection | None]:
    """Return the open database, and for a file a connection whose `data_version` tells its changes.

    A replaced file stays open, since another page may be reading from it.
    """
    status = os.stat(place) if isinstance(place, Path) and os.path.exists(place) else None
    key = place, status and (status.st_dev, status.st_ino)
    with _lock:
        if key not in _open:
            database = Database.open(place, read_only=True)
            file: sqlite3.Connection | None = None
            if isinstance(place, Path):
                address = f"{place.resolve().as_uri()}?mode=ro"
                file = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
            _open[key] = database, file
        return _open[key]
