"""Location of a database: an SQLite file, or a PostgreSQL URL."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from service.errors import DatabaseError

EXAMPLE = "postgresql+psycopg://USER@HOST/NAME"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://?")
_DRIVER = "postgresql+psycopg"
_SERVERS = ("postgresql", "postgres", _DRIVER)


@dataclass(frozen=True)
class DatabaseServer:
    """A database of a PostgreSQL server. Its text names no password, so that it can be printed."""

    url: URL

    def __repr__(self) -> str:
        return f"Server({self})"

    def __str__(self) -> str:
        query = {key: value for key, value in self.url.query.items() if key != "password"}
        return self.url._replace(password=None).set(query=query).render_as_string(hide_password=True)

    @property
    def whole(self) -> str:
        """The URL with its password, to be given on and never to be shown."""
        return self.url.render_as_string(hide_password=False)

    def absolute(self) -> "DatabaseServer":
        """The same place, seen from any folder."""
        return self


Place = Path | DatabaseServer


def parse_place(text: str | Path | DatabaseServer) -> Place:
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
    if not url.database:
        raise DatabaseError(f"{DatabaseServer(url)}: the URL names no database. Give {EXAMPLE}.")
    return DatabaseServer(url)


def locate_database(option: str | Path | DatabaseServer | None) -> Place:
    """Return where the database is: the option, else `TAGRPO_DB`, else `./tagrpo.db`."""
    return parse_place(option or os.environ.get("TAGRPO_DB") or "tagrpo.db")
