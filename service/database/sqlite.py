"""SQLite: pragmas, transaction modes, errors, and network file systems, which lack shared memory for WAL."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DatabaseError as SqlError
from sqlalchemy.pool import QueuePool

from service.errors import DatabaseError
from service.writing import write_file

BUSY_TIMEOUT_S = 60
NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "ceph", "glusterfs", "afs", "pvfs2"}
    | {"orangefs", "panfs", "wekafs", "ocfs2", "gfs2", "ncpfs", "davfs", "fuse"}
)
JOURNAL = "TAGRPO_JOURNAL"
ROLLBACK, WAL = "rollback", "wal"
WAYS_OUT = (
    "Copy it to a local disk with `tagrpo db backup FILE` and pass the copy with --db, or set "
    f"{JOURNAL}={ROLLBACK} to use it here with one process at a time"
)


class SqliteDatabase:
    """The connections to a database in a file."""

    VACUUM = ("VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)")

    def __init__(self, place: Path, *, create: bool, read_only: bool) -> None:
        """Open a file, for reading alone if it cannot be written and need not be made."""
        check_file(place, create=create and not read_only)
        read_only = read_only or (not create and not can_be_written(place))
        if not read_only or is_open_elsewhere(place):
            check_place(place)
        self.place, self.read_only = place, read_only
        self.engine = _create_engine(place, read_only=read_only)

    def explained(self) -> AbstractContextManager[None]:
        """Turn SQLite errors into actionable messages."""
        return explained(self.place)

    @contextmanager
    def connection(self, *, write: bool) -> Iterator[Connection]:
        """One transaction; one that writes takes the write lock at once."""
        with self.engine.connect() as connection, connection.begin():
            # A deferred transaction that turns into a write can fail at once with "locked".
            connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
            yield connection

    def run_alone(self, *statements: str) -> None:
        """Run statements that cannot stand in a transaction, such as VACUUM."""
        with self.explained(), closing(self.engine.raw_connection()) as connection:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)

    def check_before_schema(self, connection: Connection) -> None:
        """Nothing stands against tables in a file that is empty."""

    def integrity_report(self, connection: Connection, *, whole: bool) -> list[str]:
        """Return what SQLite's checks of pages and references complain about; empty when all is well.

        `whole` compares indexes with their tables too.
        """
        check = "integrity_check" if whole else "quick_check"
        problems: list[str] = []
        try:
            rows = connection.exec_driver_sql(f"PRAGMA {check}(20)")
            problems += [str(row[0]) for row in rows if row[0] != "ok"]
        except SqlError as error:  # pages so bad that the check itself ends at them
            problems.append(str(error.orig))
        if problems:
            return problems  # references cannot be followed over damaged pages
        broken: list[Any] = list(connection.exec_driver_sql("PRAGMA foreign_key_check").fetchmany(20))
        return [f"{row[0]} row {row[1]} refers to a missing row of {row[2]}" for row in broken]

    def size(self, connection: Connection) -> int:
        """Return the bytes of the file and of its write-ahead log."""
        whole = self.place.resolve()
        log = whole.with_name(f"{whole.name}-wal")
        return whole.stat().st_size + (log.stat().st_size if log.exists() else 0)


def _create_engine(path: Path, *, read_only: bool) -> Engine:
    """Return an engine on `path`; connections use WAL, foreign keys and a busy time-out of 60 s.

    With `TAGRPO_JOURNAL=rollback` it is a rollback journal, for file systems that know no WAL.

    WAL with synchronous=NORMAL: a killed process loses nothing that was committed; a power cut may lose
    the last commits but never damages the file.
    """

    on_network = network_file_system(path) is not None

    def connect() -> sqlite3.Connection:
        mode = "ro" if read_only else "rwc"
        if read_only and not is_open_elsewhere(path) and (not can_be_written(path) or on_network):
            mode += "&immutable=1"  # else SQLite would want to make the files of the WAL beside it
        connection = sqlite3.connect(
            f"{path.resolve().as_uri()}?mode={mode}",
            uri=True,
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.execute("PRAGMA foreign_keys = ON")
        # Without it REPLACE deletes rows behind the back of the append-only triggers.
        connection.execute("PRAGMA recursive_triggers = ON")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute("PRAGMA cache_size = -16384")
        if not read_only:
            _set_journal(connection, path)
        return connection

    # SQLAlchemy takes a URL without a file for an in-memory database and would share its connections.
    return create_engine("sqlite://", creator=connect, poolclass=QueuePool, pool_size=8, max_overflow=56)


def _set_journal(connection: sqlite3.Connection, path: Path) -> None:
    if chosen_journal() == ROLLBACK:
        wanted, synchronous = "delete", "FULL"
    else:
        wanted, synchronous = "wal", "NORMAL"
    (mode,) = connection.execute(f"PRAGMA journal_mode = {wanted}").fetchone()
    if mode != wanted:
        connection.close()
        raise DatabaseError(
            f"{path}: SQLite does not support the required journal here ({mode} instead of {wanted}). "
            f"{WAYS_OUT}."
        )
    connection.execute(f"PRAGMA synchronous = {synchronous}")


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn SQLite errors into actionable messages."""
    try:
        yield
    except (SqlError, sqlite3.Error) as error:
        description = describe_error(error, path)
        if description is None:
            raise
        raise description from error


def describe_error(error: SqlError | sqlite3.Error, path: Path) -> DatabaseError | None:
    """Turn an SQLite error into one that says what to do, or None where it is a bug of ours."""
    text = str(error.orig if isinstance(error, SqlError) else error)
    kind = network_file_system(path)
    if "locking protocol" in text or ("disk I/O error" in text and kind is not None):
        where = f" on {kind}" if kind is not None else ""
        return DatabaseError(f"{path}: SQLite's locks do not work{where} ({text}). {WAYS_OUT}.")
    if "unable to open" in text and is_open_elsewhere(path) and not can_be_written(path):
        return DatabaseError(
            f"{path}: its last changes are in {path.name}-wal, which SQLite cannot read in a read-only "
            "folder. Copy the file and its -wal file to a writable folder."
        )
    described = (message for words, message in _DESCRIPTIONS.items() if any(word in text for word in words))
    message = next(described, None)
    return None if message is None else DatabaseError(f"{path}: {message.format(text=text)}")


_DESCRIPTIONS = {
    ("disk I/O error",): "{text}; the last step was not written. Free space on its disk or in your quota, or "
    "check in `dmesg` whether the disk fails. Then run the same command again to resume. `tagrpo db check` "
    "reports whether the file is intact.",
    ("disk is full",): "{text}; the last step was not written. Free space on its disk and run the same "
    "command again to resume.",
    ("readonly", "read-only"): "the database cannot be written ({text}). Check the permissions of the file "
    "and of its folder, or choose another one with --db.",
    ("not a database",): "not an SQLite database. Choose another one with --db.",
    ("malformed", "corrupt"): "the database is damaged ({text}). Keep a copy of the file and of its -wal "
    "file, and check the damage with `tagrpo db check`. Then restore a backup, or try "
    "`sqlite3 FILE .recover`.",
    ("unable to open",): "the database cannot be opened ({text}). Check that its folder exists.",
    ("locked", "busy"): f"another process has locked the database for {BUSY_TIMEOUT_S} s. Try again.",
}
"""What SQLite's errors mean and what to do, by words in them."""


def can_be_written(path: Path) -> bool:
    """Say whether this process may write a database and the files that SQLite keeps beside it."""
    return os.access(path, os.W_OK) and os.access(path.resolve().parent, os.W_OK)


def is_open_elsewhere(path: Path) -> bool:
    """Say whether somebody has it open for writing, or died at it: then there may be a WAL to be read."""
    whole = path.resolve()
    return any(whole.with_name(f"{whole.name}{end}").exists() for end in ("-wal", "-journal"))


def check_file(path: Path, *, create: bool) -> None:
    """Refuse a path that cannot hold the database, before SQLite makes a file there."""
    if path.is_dir():
        raise DatabaseError(f"{path}: is a folder. Give a file with --db.")
    if not path.exists():
        if not create:
            raise DatabaseError(
                f"{path}: there is no database here. Create one with `tagrpo questions import`, or choose "
                "another one with --db or TAGRPO_DB."
            )
        if not path.parent.exists():
            raise DatabaseError(f"{path}: the folder {path.parent} does not exist. Create it first.")
        if not os.access(path.parent, os.W_OK):
            raise DatabaseError(
                f"{path}: the folder {path.parent} is not writable. Choose another file with --db."
            )


def network_file_system(path: Path) -> str | None:
    """Return the type of the network file system that holds the path; None: it is local, or not known.

    The mount with the longest path counts, and the last of those on one place.
    """
    import psutil  # takes longer to load than most commands need

    whole = path.resolve()
    mounts = [each for each in psutil.disk_partitions(all=True) if whole.is_relative_to(each.mountpoint)]
    if not mounts:
        return None
    kind: str = max(reversed(mounts), key=lambda each: len(each.mountpoint)).fstype
    return kind if kind in NETWORK or kind.startswith("fuse.") else None


def chosen_journal() -> str:
    """Return `wal`, or `rollback` where the environment says so."""
    journal = os.environ.get(JOURNAL, WAL).lower()
    if journal not in (WAL, ROLLBACK):
        raise DatabaseError(f"{JOURNAL}={journal}: give {WAL} (the default) or {ROLLBACK}.")
    return journal


def check_place(path: Path) -> None:
    """Refuse WAL on a network file system, before SQLite writes anything there."""
    kind = network_file_system(path)
    if kind is not None and chosen_journal() == WAL:
        raise DatabaseError(
            f"{path}: is on a network file system ({kind}), where SQLite's write-ahead log can lose or "
            f"damage data. {WAYS_OUT}."
        )


def back_up(path: Path, target: Path) -> int:
    """Copy a database of any revision consistently, even while others write; return its bytes.

    The copy appears under its name only when it is whole and sound.
    """
    check_file(path, create=False)
    if not target.parent.is_dir():  # perhaps a disk that is not mounted
        raise DatabaseError(f"{target}: the folder {target.parent} does not exist. Create it first.")
    with explained(path):
        write_file(target, lambda part: _copy(path, part), overwrite=None)
    return target.stat().st_size


def _copy(path: Path, part: Path) -> None:
    source = f"{path.resolve().as_uri()}?mode=ro"
    with (
        closing(sqlite3.connect(source, uri=True, timeout=BUSY_TIMEOUT_S)) as reading,
        closing(sqlite3.connect(part)) as writing,
    ):
        reading.backup(writing)  # in one step: it reads one state, and keeps no writer waiting
        problems = writing.execute("PRAGMA quick_check(1)").fetchone()
        # Otherwise, opening the copy on a read-only disk would need files next to it.
        writing.execute("PRAGMA journal_mode = DELETE")
    if problems != ("ok",):
        raise DatabaseError(f"{path}: damaged ({problems[0]}); no copy was made. Run `tagrpo db check`.")
