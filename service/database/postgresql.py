"""PostgreSQL: connections, errors, and transactions that survive a restart of the server where they can.

Writers take one lock of the database (an advisory one), so that one writes at a time, as on SQLite: what a
transaction reads is what it writes upon, on any number of hosts. Readers see one state and wait for nobody.
"""

import json
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from typing import Any

from sqlalchemy import create_engine, event, text
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError, OperationalError

from service.database.place import DatabaseServer
from service.errors import ConnectionLostError, DatabaseError
from service.hashing import whole_characters

WRITE_LOCK = 0x7461677270  # "tagrp"
RECONNECT_S = 60.0
"""As long as a writer waits for another one, it waits for a server that restarts."""

LOCK_TIMEOUT_S = 60
_PAUSE_S = 0.2
_NUMBER_TOO_LARGE = "22003"
_OF_CONNECTION = ("08", "57P")
_TOO_MANY = "53300"
# Set anew by a start, and where the server recovers from a crash.
_LIFE = "concat(pg_postmaster_start_time(), ' ', (SELECT stats_reset FROM pg_stat_bgwriter))"
_TAKE_LOCK = f"SELECT pg_current_xact_id()::text FROM pg_advisory_xact_lock({WRITE_LOCK})"
_WRITTEN = "SELECT pg_current_wal_insert_lsn()::text"
# A server that crashed gives numbers of transactions anew where their log was not on disk: its first
# checkpoint then lies before what was logged.
_STATUS = (
    f"SELECT CASE WHEN {_LIFE} <> %(life)s AND checkpoint_lsn < %(written)s::text::pg_lsn "
    "THEN 'aborted' ELSE pg_xact_status(%(number)s::text::xid8) END FROM pg_control_checkpoint()"
)
_READ_ONE_STATE = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_SETTINGS = {
    "lock_timeout": f"{LOCK_TIMEOUT_S}s",
    # A host that lost its power keeps the lock for a minute, not for two hours.
    "tcp_keepalives_idle": "20",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "4",
}
_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")  # not behind an odd number of backslashes, which is text


class PostgresDatabase:
    """The connections to a database on a server."""

    VACUUM = ("VACUUM (ANALYZE)",)

    def __init__(self, place: DatabaseServer, *, read_only: bool) -> None:
        if find_spec("psycopg") is None:
            raise DatabaseError(f"{place}: PostgreSQL requires psycopg: pip install 'tagrpo[postgresql]'.")
        self.place, self.read_only = place, read_only
        self._reached = False
        self.engine = create_engine(
            place.url,
            isolation_level="READ COMMITTED",
            pool_size=8,
            max_overflow=56,
            use_insertmanyvalues=True,
            json_serializer=to_json,
            connect_args={
                "application_name": "tagrpo",
                "connect_timeout": 10,
                "options": " ".join(f"-c {name}={value}" for name, value in _SETTINGS.items()),
            },
        )
        event.listen(self.engine, "connect", _read_numbers)
        event.listen(self.engine, "connect", _note_life)
        # Rows of one INSERT go in one statement, so that what counts them runs once.
        self.engine.dialect.use_insertmanyvalues_wo_returning = True

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn server errors into actionable messages.

        Raises:
            OverflowError: a number has more digits than the server holds, as SQLite's driver says it.
        """
        try:
            yield
        except DBAPIError as error:
            if isinstance(error.orig, sqlite3.Error):  # of a file that is read meanwhile, which explains it
                raise
            if _state_of(error) == _NUMBER_TOO_LARGE:
                raise OverflowError(str(error.orig)) from None
            description = _describe(error, self.place)
            if description is None:
                raise
            raise description from None

    @contextmanager
    def connection(self, *, write: bool) -> Iterator[Connection]:
        """One transaction; where its connection ends in the commit, the server is asked what became of it."""
        connection, transaction = self._begin(write=write and not self.read_only)
        try:
            try:
                yield connection
                if transaction is not None:
                    transaction["written"] = connection.exec_driver_sql(_WRITTEN).scalar_one()
            except BaseException:
                with suppress(DBAPIError):
                    connection.rollback()
                raise
            try:
                connection.commit()
            except DBAPIError as error:
                if transaction is None or not _is_lost(error) or not self._was_committed(transaction):
                    raise
        finally:
            connection.close()

    def _begin(self, *, write: bool) -> tuple[Connection, dict[str, str] | None]:
        """Return a connection in a transaction; where it writes, with its number and the server's life.

        A server that was reached before is waited for.
        """
        patience = time.monotonic() + RECONNECT_S
        while True:
            with ExitStack() as opened:
                transaction: dict[str, str] | None = None
                try:
                    connection = opened.enter_context(self.engine.connect())
                    connection.begin()
                    if write:
                        number = connection.exec_driver_sql(_TAKE_LOCK).scalar_one()
                        transaction = {"number": number, "life": connection.info["life"]}
                    else:
                        connection.exec_driver_sql(_READ_ONE_STATE)
                except DBAPIError as error:
                    if not self._reached or not _is_lost(error) or time.monotonic() > patience:
                        raise
                else:
                    opened.pop_all()
                    self._reached = True
                    return connection, transaction
            time.sleep(_PAUSE_S)

    def _was_committed(self, transaction: dict[str, str]) -> bool:
        """Ask what became of a transaction whose connection ended in the commit.

        Where the server crashed before anything of it was on disk, its number is given to another one.
        """
        patience = time.monotonic() + RECONNECT_S
        while True:
            connection, _ = self._begin(write=False)
            with connection:
                status = connection.exec_driver_sql(_STATUS, transaction).scalar()
            if status != "in progress" or time.monotonic() > patience:
                return bool(status == "committed")
            time.sleep(_PAUSE_S)

    def run_alone(self, *statements: str) -> None:
        """Run statements that cannot stand in a transaction, such as VACUUM."""
        with self.explained(), self.engine.connect() as connection:
            alone = connection.execution_options(isolation_level="AUTOCOMMIT")
            for statement in statements:
                alone.exec_driver_sql(statement)

    def check_before_schema(self, connection: Connection) -> None:
        """Refuse a database that cannot hold every text."""
        encoding = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
        if encoding != "UTF8":
            raise DatabaseError(
                f"{self.place}: the encoding is {encoding}. Create another database: `createdb -E UTF8 -T "
                "template0 NAME`."
            )

    def integrity_report(self, connection: Connection, *, whole: bool) -> list[str]:
        """Return indexes that a statement left unfinished; pages are the server's (`pg_amcheck`)."""
        names = connection.execute(
            text("SELECT CAST(indexrelid::regclass AS text) FROM pg_index WHERE NOT indisvalid ORDER BY 1")
        ).scalars()
        return [f"index {name} is not valid. Rebuild it: REINDEX INDEX {name}" for name in names]

    def size(self, connection: Connection) -> int:
        """Return the bytes of the database."""
        return int(connection.exec_driver_sql("SELECT pg_database_size(current_database())").scalar_one())


def _state_of(error: DBAPIError) -> str | None:
    """Return the five characters of an error by which the server names it; None: it came from elsewhere."""
    return getattr(error.orig, "sqlstate", None)


def _is_lost(error: DBAPIError) -> bool:
    """Say whether the server cannot be reached, or this connection to it is gone."""
    state = _state_of(error)
    if error.connection_invalidated or state == _TOO_MANY:
        return True
    if state is not None:
        return state.startswith(_OF_CONNECTION)
    return isinstance(error, OperationalError)


def _describe(error: DBAPIError, place: DatabaseServer) -> DatabaseError | None:
    """Turn an error into one that says what to do, or None where it is a bug of ours."""
    lines = [line.strip() for line in str(error.orig).splitlines() if line.strip()]
    text, state = (lines[-1] if lines else type(error.orig).__name__), _state_of(error)
    whole = " ".join(lines)
    reason = text.rpartition("FATAL:")[2].strip()
    if "password" in whole and ("authentication failed" in whole or "no password supplied" in whole):
        return DatabaseError(
            f"{place}: {reason}. Keep the password in ~/.pgpass or PGPASSWORD, not in the URL."
        )
    if "does not exist" in whole and "database" in reason and state in (None, "3D000"):
        return DatabaseError(f"{place}: {reason}. Create it: `createdb {place.url.database}`.")
    if state is None and "role" in reason and "does not exist" in reason:
        return DatabaseError(f"{place}: {reason}. Create it: `createuser {place.url.username or ''}`.")
    if state in _DESCRIPTIONS:
        role = place.url.username or "of this login"
        return DatabaseError(f"{place}: {_DESCRIPTIONS[state].format(text=text, role=role)}")
    if _is_lost(error):
        return ConnectionLostError(
            f"{place}: the server cannot be reached, or closed the connection ({reason}). The last step was "
            "not written. When the server is available, run the same command again to resume."
        )
    return None


_DESCRIPTIONS: dict[str | None, str] = {
    "25006": "the database cannot be written ({text}).",
    "42501": "{text}. The role {role} lacks the permission. Ask the owner to grant it, or use another role "
    "in --db.",
    "55P03": f"another process has locked the database for {LOCK_TIMEOUT_S} s. Try again.",
    "53100": "the server's disk is full ({text}); the last step was not written. Free space there and run "
    "the same command again to resume.",
}
"""What the server's errors mean and what to do, by the server's names of them."""


def to_json(value: Any) -> str:
    """Return JSON that PostgreSQL reads.

    The character 0, and halves of a surrogate pair, which it cannot keep, become U+FFFD.
    """
    text = whole_characters(json.dumps(value, ensure_ascii=False))
    return _NUL.sub(r"\1\\ufffd", text)


def _read_numbers(connection: Any, _: Any) -> None:
    """Have sums of whole numbers, which the server calls numeric, read as such."""
    from psycopg.adapt import Loader

    class NumberLoader(Loader):  # type: ignore[misc]
        def load(self, data: Any) -> int | float:
            digits = bytes(data)
            return int(digits) if digits.lstrip(b"-").isdigit() else float(digits)

    connection.adapters.register_loader("numeric", NumberLoader)


def _note_life(connection: Any, record: Any) -> None:
    """Note which life of the server a connection is to; none outlives it."""
    with connection.transaction():
        (record.info["life"],) = connection.execute(f"SELECT {_LIFE}").fetchone()


def watch_statements(connection: Connection, check: Any) -> None:
    """Have `check(statement)` called before each statement of a connection."""

    @event.listens_for(connection, "before_cursor_execute")
    def before(_c: Any, _cursor: Any, statement: str, _p: Any, _x: Any, _many: bool) -> None:
        check(statement)
