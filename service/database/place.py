"""Location of a database: an SQLite file, or a PostgreSQL URL."""

import os
import re
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from service.errors import DatabaseError

EXAMPLE = "postgresql+psycopg://USER@HOST/NAME"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://?")
_DRIVER = "postgresql+psycopg"
_SERVERS = ("postgresql", "postgres", _DRIVER)


Place = Path | URL
"""A file, or a database of a PostgreSQL server; `str` of it shows no password."""


def parse_place(text: str | Place) -> Place:
    """Return the place that a path or URL names."""
    if not isinstance(text, str):
        return text
    match = _SCHEME.match(text)
    if match is None:
        return Path(text)
    scheme = match[1].lower()
    if scheme == "sqlite":
        return Path(text.removeprefix(f"{match[1]}:///"))
    if scheme not in _SERVERS:
        raise DatabaseError(f"--db {scheme}://...: not supported. Give a file, or {EXAMPLE}.")
    try:
        url = make_url(text).set(drivername=_DRIVER)
    except (ArgumentError, ValueError):
        raise DatabaseError(f"--db {scheme}://...: not a database URL. Give {EXAMPLE}.") from None
    # SQLAlchemy hides a password only before the host.
    password = url.normalized_query.get("password", [None])[-1]
    url = url.set(password=password).difference_update_query(["password"])
    if not url.database:
        raise DatabaseError(f"{url}: the URL names no database. Give {EXAMPLE}.")
    return url


def locate_database(option: str | Place | None) -> Place:
    """Return where the database is: the option, else `TAGRPO_DB`, else `./tagrpo.db`."""
    return parse_place(option or os.environ.get("TAGRPO_DB") or "tagrpo.db")


def without_password(place: Place) -> Place:
    """Return the place for a command to copy, where a hidden password would be taken for the real one."""
    return place if isinstance(place, Path) else place._replace(password=None)


def absolute(place: Place) -> Place:
    """Return the same place, seen from any folder."""
    return place.absolute() if isinstance(place, Path) else place
