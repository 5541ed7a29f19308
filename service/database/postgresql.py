"""PostgreSQL: connections, errors, and transactions that survive a restart of the server where they can.

Writers take one lock of the database (an advisory one), so that one writes at a time, as on SQLite: what a
transaction reads is what it writes upon, on any number of hosts. Readers see one state and wait for nobody.
"""

import json
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from typing import Any

from sqlalchemy import URL, create_engine, event
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError, OperationalError

from service.database.engine import Database
from service.errors import ConnectionLostError, DatabaseError
from service.hashing import whole_characters

WRITE_LOCK = 0x7461677270  # "tagrp"
RECONNECT_S = 60.0
"""As long as a writer waits for another one, it waits for a server that restarts."""

LOCK_TIMEOUT_S = 60
_LOST = ("08", "57P", "53300")
"""States of a lost connection, and of a server that has too many."""

# Set anew by a start, and where the server recovers from a crash.
_LIFE = "concat(pg_postmaster_start_time(), ' ', (SELECT stats_reset FROM pg_stat_bgwriter))"
_TAKE_LOCK = f"SELECT pg_current_xact_id()::text FROM pg_advisory_xact_lock({WRITE_LOCK})"
_WRITTEN = "SELECT pg_current_wal_insert_lsn()::text"
# A server that crashed gives numbers of transactions anew where their log was not on disk: its first
# checkpoint then lies before what was logged, or the number is still to be given.
_STATUS = (
    f"SELECT CASE WHEN {_LIFE} <> %(life)s AND (checkpoint_lsn < %(written)s::text::pg_lsn "
    "OR %(number)s::text::xid8 >= pg_snapshot_xmax(pg_current_snapshot())) "
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


class PostgresDatabase(Database):
    """A database on a server."""

    VACUUM = ("VACUUM (ANALYZE)",)
    place: URL

    def __init__(self, place: URL, *, read_only: bool) -> None:
        if find_spec("psycopg") is None:
            raise DatabaseError(f"{place}: needs psycopg. Install the extra `postgresql` (docs/install.md).")
        self._reached = False
        engine = create_engine(
            place,
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
        # Rows of one INSERT go in one statement, which saves round trips.
        engine.dialect.use_insertmanyvalues_wo_returning = True
        event.listen(engine, "connect", self._prepare)
        super().__init__(place, engine, read_only=read_only)

    @contextmanager
    def _transaction(self, *, write: bool) -> Iterator[Connection]:
        """Open a transaction; if its connection is lost in the commit, ask the server what became of it."""
        with self._begin(write=write) as connection:
            try:
                yield connection
                transaction = dict(connection.info)
                if write:
                    transaction["written"] = connection.exec_driver_sql(_WRITTEN).scalar_one()
            except BaseException:
                with suppress(DatabaseError, DBAPIError):  # the first error counts
                    connection.rollback()
                raise
            try:
                connection.commit()
            except ConnectionLostError:
                if not write or not self._was_committed(transaction):
                    raise

    def _begin(self, *, write: bool) -> Connection:
        """Return a connection in a transaction; its `info` has the number of one that writes.

        A server that was reached before is waited for.
        """
        patience = time.monotonic() + RECONNECT_S
        while True:
            try:
                with ExitStack() as opened:
                    connection = opened.enter_context(self.engine.connect())
                    if write:
                        connection.info["number"] = connection.exec_driver_sql(_TAKE_LOCK).scalar_one()
                    else:
                        connection.exec_driver_sql(_READ_ONE_STATE)
                    opened.pop_all()
                self._reached = True
                return connection
            except ConnectionLostError:
                if not self._reached or time.monotonic() > patience:
                    raise
            time.sleep(0.2)

    def _was_committed(self, transaction: dict[str, Any]) -> bool:
        """Ask what became of a transaction whose connection was lost in the commit.

        While the server has not ended that transaction, it holds the write lock.
        """
        for write in (False, True):
            with self._begin(write=write) as connection:
                status = connection.exec_driver_sql(_STATUS, transaction).scalar_one_or_none()
            if status != "in progress":
                break
        return status == "committed"

    def _prepare(self, connection: Any, record: Any) -> None:
        """Check a new connection, note the server's start time, and read whole sums as int."""
        from psycopg.adapt import Loader

        class NumberLoader(Loader):  # type: ignore[misc]
            def load(self, data: Any) -> int | float:
                digits = bytes(data)
                return int(digits) if digits.lstrip(b"-").isdigit() else float(digits)

        if (encoding := connection.info.parameter_status("server_encoding")) != "UTF8":
            raise DatabaseError(
                f"{self.place}: the encoding is {encoding}. Create another database: `createdb -E UTF8 -T "
                "template0 NAME`."
            )
        connection.adapters.register_loader("numeric", NumberLoader)
        with connection.transaction():
            (record.info["life"],) = connection.execute(f"SELECT {_LIFE}").fetchone()

    def _describe(self, error: DBAPIError) -> Exception | None:
        state: str | None = getattr(error.orig, "sqlstate", None)
        if state == "22003":  # a number is too large
            return OverflowError(str(error.orig))  # as SQLite's driver says it
        lines = [line.strip() for line in str(error.orig).splitlines() if line.strip()]
        text = (lines or [type(error.orig).__name__])[-1].rpartition("FATAL:")[2].strip()
        role = self.place.username or "of this login"
        for pattern, message in _DESCRIPTIONS.items():
            if match := re.search(pattern, f"{state} {' '.join(lines)}"):
                return DatabaseError(f"{self.place}: {message.format(*match.groups(), text=text, role=role)}")
        without_state = state is None and isinstance(error, OperationalError)
        if error.connection_invalidated or without_state or (state or "").startswith(_LOST):
            return ConnectionLostError(
                f"{self.place}: the server cannot be reached, or closed the connection ({text}). The last "
                "step was not written. When the server is available, run the same command again to resume."
            )
        return None

    def integrity_report(self, *, whole: bool = False) -> list[str]:
        """Return nothing: a server checks its pages and indexes itself (`pg_amcheck`)."""
        return []

    def size(self) -> int:
        with self._transaction(write=False) as connection:
            size = connection.exec_driver_sql("SELECT pg_database_size(current_database())")
            return int(size.scalar_one())


_DESCRIPTIONS = {
    "^25006": "the database cannot be written ({text}).",
    "^42501": "{text}. The role {role} lacks the permission. Ask the owner to grant it, or use another role "
    "in --db.",
    "^55P03": f"another process has locked the database for {LOCK_TIMEOUT_S} s. Try again.",
    "^53100": "the server's disk is full ({text}); the last step was not written. Free space there and run "
    "the same command again to resume.",
    "password authentication failed|no password supplied": "{text}. Keep the password in ~/.pgpass or "
    "PGPASSWORD, not in the URL.",
    '^(?:None|3D000) .*database "(.+)" does not exist': "{text}. Create it: `createdb {0}`.",
    '^None .*role "(.+)" does not exist': "{text}. Create it: `createuser {0}`.",
}
"""What the server's errors mean and what to do, by the server's name of an error and words in it."""


def to_json(value: Any) -> str:
    """Return JSON that PostgreSQL reads.

    The character 0, and halves of a surrogate pair, which it cannot keep, become U+FFFD.
    """
    text = whole_characters(json.dumps(value, ensure_ascii=False))
    return _NUL.sub(r"\1\\ufffd", text)
