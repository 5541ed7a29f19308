"""SQLite: pragmas, transaction modes, errors, and network file systems, which lack shared memory for WAL."""

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import create_engine
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool

from service.database.engine import Database
from service.errors import DatabaseError
from service.writing import write_file

BUSY_TIMEOUT_S = 60
NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "ceph", "glusterfs", "afs", "pvfs2"}
    | {"orangefs", "panfs", "wekafs", "ocfs2", "gfs2", "ncpfs", "davfs", "fuse"}
)
JOURNAL = "TAGRPO_JOURNAL"
WAYS_OUT = (
    "Copy it to a local disk with `tagrpo db backup FILE` and pass the copy with --db, or set "
    f"{JOURNAL}=rollback to use it here with one process at a time"
)


class SqliteDatabase(Database):
    """A database in a file."""

    VACUUM = ("VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)")
    place: Path

    def __init__(self, place: Path, *, create: bool, read_only: bool) -> None:
        """Open a file, for reading alone if it cannot be written and need not be made."""
        check_file(place, create=create and not read_only)
        read_only = read_only or (not create and not can_be_written(place))
        if not read_only or is_open_elsewhere(place):
            check_place(place)
        # SQLAlchemy takes a URL without a file for an in-memory database and would share its connections.
        engine = create_engine(
            "sqlite://", creator=self._connect, poolclass=QueuePool, pool_size=8, max_overflow=56
        )
        super().__init__(place, engine, read_only=read_only)

    def _connect(self) -> sqlite3.Connection:
        """Return a connection with WAL, or with a rollback journal if `TAGRPO_JOURNAL` says so.

        WAL with synchronous=NORMAL: a killed process loses nothing that was committed; a power cut may lose
        the last commits but never damages the file.
        """
        path, mode = self.place, "ro" if self.read_only else "rwc"
        needs_no_wal = self.read_only and not is_open_elsewhere(path)
        if needs_no_wal and (not can_be_written(path) or network_file_system(path) is not None):
            mode += "&immutable=1"  # otherwise SQLite would create the files of the WAL next to it
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
        if self.read_only:
            return connection
        journal, synchronous = ("wal", "NORMAL") if uses_wal() else ("delete", "FULL")
        (mode,) = connection.execute(f"PRAGMA journal_mode = {journal}").fetchone()
        if mode != journal:
            connection.close()
            raise DatabaseError(
                f"{path}: SQLite does not support the required journal here ({mode} instead of {journal}). "
                f"{WAYS_OUT}."
            )
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        return connection

    @contextmanager
    def _transaction(self, *, write: bool) -> Iterator[Connection]:
        with self.engine.connect() as connection, connection.begin():
            # A deferred transaction that turns into a write can fail at once with "locked".
            connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
            yield connection

    def _describe(self, error: DBAPIError) -> Exception | None:
        return describe_error(error.orig, self.place)

    def integrity_report(self, *, whole: bool = False) -> list[str]:
        check = "integrity_check" if whole else "quick_check"
        with self.engine.connect() as connection:
            try:
                rows = connection.exec_driver_sql(f"PRAGMA {check}(20)").all()
            except DatabaseError as error:
                if type(error.__cause__) is not sqlite3.DatabaseError:  # such as a lock
                    raise
                return [str(error.__cause__)]  # pages so bad that the check itself ends at them
            if problems := [str(row[0]) for row in rows if row[0] != "ok"]:
                return problems  # references cannot be followed over damaged pages
            broken = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchmany(20)
            return [f"{row[0]} row {row[1]} refers to a missing row of {row[2]}" for row in broken]

    def size(self) -> int:
        """Return the bytes of the file and of its write-ahead log."""
        whole = self.place.resolve()
        log = whole.with_name(f"{whole.name}-wal")
        return whole.stat().st_size + (log.stat().st_size if log.exists() else 0)


def describe_error(error: BaseException | None, path: Path) -> DatabaseError | None:
    """Turn an SQLite error into one that says what to do, or None where it is a bug of ours."""
    for words, message in _DESCRIPTIONS.items():
        if re.search(words, str(error)):
            return DatabaseError(f"{path}: {message.format(text=error)}")
    return None


_DESCRIPTIONS = {
    "locking protocol": f"SQLite's locks do not work here ({{text}}). {WAYS_OUT}.",
    "disk I/O error": "{text}; the last step was not written. Free space on its disk or in your quota, check "
    "in `dmesg` whether the disk fails, or move the file from a network file system to a local disk. Then "
    "run the same command again to resume. `tagrpo db check` reports whether the file is intact.",
    "disk is full": "{text}; the last step was not written. Free space on its disk and run the same "
    "command again to resume.",
    "readonly|read-only": "the database cannot be written ({text}). Check the permissions of the file "
    "and of its folder, or choose another one with --db.",
    "not a database": "not an SQLite database. Choose another one with --db.",
    "malformed|corrupt": "the database is damaged ({text}). Keep a copy of the file and of its -wal "
    "file, and check the damage with `tagrpo db check`. Then restore a backup, or try "
    "`sqlite3 FILE .recover`.",
    "unable to open": "the database cannot be opened ({text}). Check that its folder is writable. "
    "If a -wal file is next to the database, copy both to a folder where you have write access.",
    "locked|busy": f"another process has locked the database for {BUSY_TIMEOUT_S} s. Try again.",
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
    if not create and not path.exists():
        raise DatabaseError(
            f"{path}: there is no database here. Create one with `tagrpo questions import`, or choose "
            "another one with --db or TAGRPO_DB."
        )
    if not path.parent.exists():
        raise DatabaseError(f"{path}: the folder {path.parent} does not exist. Create it first.")


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


def uses_wal() -> bool:
    """Return whether files get a write-ahead log, as the environment says."""
    journal = os.environ.get(JOURNAL, "wal").lower()
    if journal not in ("wal", "rollback"):
        raise DatabaseError(f"{JOURNAL}={journal}: give wal (the default) or rollback.")
    return journal == "wal"


def check_place(path: Path) -> None:
    """Refuse WAL on a network file system, before SQLite writes anything there."""
    if uses_wal() and (kind := network_file_system(path)) is not None:
        raise DatabaseError(
            f"{path}: is on a network file system ({kind}), where SQLite's write-ahead log can lose or "
            f"damage data. {WAYS_OUT}."
        )


def back_up(path: Path, target: Path) -> int:
    """Copy a database of any version consistently, even while others write; return the copy's bytes.

    The copy appears under its name only when it is complete.
    """
    check_file(path, create=False)
    if not target.parent.is_dir():  # perhaps a disk that is not mounted
        raise DatabaseError(f"{target}: the folder {target.parent} does not exist. Create it first.")
    try:
        write_file(target, lambda part: _copy(path, part), overwrite=None)
    except sqlite3.Error as error:
        raise describe_error(error, path) or error from error
    return target.stat().st_size


def _copy(path: Path, part: Path) -> None:
    source = f"{path.resolve().as_uri()}?mode=ro"
    with (
        closing(sqlite3.connect(source, uri=True, timeout=BUSY_TIMEOUT_S)) as reading,
        closing(sqlite3.connect(part)) as writing,
    ):
        # Page by page, unlike VACUUM INTO, so that the check also finds the damage of the source.
        reading.backup(writing)
        (problem,) = writing.execute("PRAGMA quick_check(1)").fetchone()
        # Otherwise, opening the copy on a read-only disk would need files next to it.
        writing.execute("PRAGMA journal_mode = DELETE")
    if problem != "ok":
        raise DatabaseError(f"{path}: damaged ({problem}); no copy was made. Run `tagrpo db check`.")
