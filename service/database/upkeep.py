"""Maintain a database: backup while others write, size, integrity."""

import contextlib
import os
import sqlite3
from pathlib import Path

from service.database import sqlite
from service.database.engine import Database
from service.database.place import DatabaseServer, Place
from service.errors import DatabaseError, InputError


def back_up(path: Path, target: Path) -> int:
    """Copy a database of any revision as it is at one moment, whoever writes meanwhile; return its bytes.

    The copy appears under its name only when it is whole and sound.

    Raises:
        DatabaseError: there is none, it is damaged, or the copy cannot be written.
        InputError: `target` is there already.
    """
    sqlite.check_file(path, create=False)
    if target.exists():
        raise InputError(f"{target}: the file exists. Choose another path, or remove the file first.")
    if not target.parent.is_dir():
        raise DatabaseError(f"{target}: the folder {target.parent} does not exist. Create it first.")
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with sqlite.explained(path):
            _copy(path, part)
        target.touch(exist_ok=False)  # what came up meanwhile is not replaced
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return target.stat().st_size


def _copy(path: Path, part: Path) -> None:
    source = f"{path.resolve().as_uri()}?mode=ro"
    with (
        contextlib.closing(sqlite3.connect(source, uri=True, timeout=sqlite.BUSY_TIMEOUT_S)) as reading,
        contextlib.closing(sqlite3.connect(part)) as writing,
    ):
        reading.backup(writing)  # in one step: it reads one state, and keeps no writer waiting
        problems = writing.execute("PRAGMA quick_check(1)").fetchone()
        # Else opening the copy where nothing can be written would need files beside it.
        writing.execute("PRAGMA journal_mode = DELETE")
    if problems != ("ok",):
        raise DatabaseError(f"{path}: damaged ({problems[0]}); no copy was made. Run `tagrpo db check`.")
    with part.open("rb") as file:
        os.fsync(file.fileno())


def vacuum(place: Place) -> tuple[int, int]:
    """Return unused space to the disk; return the bytes of the database before and after."""
    with Database.open(place, create=False) as database:
        before = database.size()
        on_server = isinstance(place, DatabaseServer)
        database.connections.run_alone(
            *(("VACUUM (ANALYZE)",) if on_server else ("VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"))
        )
        return before, database.size()
