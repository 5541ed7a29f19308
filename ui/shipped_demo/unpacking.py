"""Unpack the demo that ships with tagrpo, on first use, to a folder of the user."""

import json
import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import zstandard

from service.database import Database
from service.database.base import ZSTD_LEVEL
from service.database.engine import HEAD_REVISION
from service.errors import InputError
from service.hashing import file_sha256
from trainer_adapter.record import RolloutRecord, RolloutWriter
from trainer_adapter.record.rollout import COLUMNS
from ui.shipped_demo.packing import LETTERS, read_pack

SHIPPED = Path(__file__).with_name("demo.json.xz")


@dataclass(frozen=True)
class ShippedDemo:
    """The unpacked database, and its description on the pages."""

    database: Path
    words: str


def shipped_demo(pack: Path = SHIPPED) -> ShippedDemo:
    """Return the shipped demo's database, unpacked if necessary.

    It is below `XDG_CACHE_HOME` or `~/.cache`; if that is not writable, in the folder of temporary files. Its
    folder is named after the pack and the schema, so that each version of tagrpo unpacks its own.

    Raises:
        InputError: the pack is damaged, or there is no place to unpack it to.
    """
    digest = file_sha256(pack)[:12]
    tried = []
    for place in _places():
        target = place / f"demo-{digest}-{HEAD_REVISION}" / "tagrpo.db"
        try:
            if not target.is_file():
                _unpack_folder(pack, target.parent)
        except OSError as error:
            tried.append(f"{place} ({error.strerror or error})")
            continue
        return ShippedDemo(target, _words(target))
    raise InputError(
        f"the shipped demo cannot be unpacked to {' or '.join(tried)}. Set XDG_CACHE_HOME to a folder."
    )


def unpack(pack: Path, target: Path, *, home: Path | None = None) -> None:
    """Write the database of a pack to `target`, a new file, and its rollouts to folders next to it.

    Args:
        home: the folder that the caller moves all of it to; the database names it.

    Raises:
        InputError: the pack is damaged, or made by another version of tagrpo.
        OSError: the file cannot be written.
    """
    tables, records = read_pack(pack)
    Database.open(target).close()
    with closing(sqlite3.connect(target)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")  # the file is discarded if unpacking fails
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        later = _put_off(connection)
        for table, columns in tables.items():
            rows = zip(*(_values(column) for column in columns.values()), strict=True)
            names = ", ".join(f'"{name}"' for name in columns)
            marks = ", ".join("?" * len(columns))
            connection.executemany(f'INSERT INTO "{table}" ({names}) VALUES ({marks})', rows)
        for run_id, record in records.items():
            _write_record(target.parent / "rollouts" / record["run"], record)
            place = (home or target.parent).resolve() / "rollouts" / record["run"]
            connection.execute("INSERT INTO train_folders VALUES (?, ?)", (run_id, str(place)))
        for sql in later:
            connection.execute(sql)
        connection.commit()
        connection.execute("PRAGMA journal_mode = WAL")


def _write_record(folder: Path, record: dict[str, Any]) -> None:
    rows = zip(*(record["rollouts"][name] for name in COLUMNS), strict=True)
    about = {name: record[name] for name in ("spec", "versions")}
    with RolloutWriter(folder, record["run"], **about, background=False) as writer:
        for step, of_step in groupby(
            (RolloutRecord(**dict(zip(COLUMNS, row, strict=True))) for row in rows), key=attrgetter("step")
        ):
            writer.write(step, of_step)
        for step, metrics in record["metrics"]:
            writer.write_metrics(step, metrics)


def _put_off(connection: sqlite3.Connection) -> list[str]:
    """Drop indexes and triggers that slow down the import, and return the SQL that restores them.

    Indexes are built faster afterwards, and triggers would count the rows twice. The triggers that fill the
    index of letters stay, since it is not packed.
    """
    made = connection.execute(
        "SELECT type, name, sql FROM sqlite_master WHERE type IN ('index', 'trigger') AND sql IS NOT NULL"
    ).fetchall()
    put_off = [(kind, name, sql) for kind, name, sql in made if not any(table in sql for table in LETTERS)]
    for kind, name, _ in put_off:
        connection.execute(f'DROP {kind} "{name}"')
    return [sql for _, _, sql in put_off]


def _values(column: dict[str, Any]) -> list[Any]:
    """Return a column's values as the database has them."""
    if column["kind"] == "plain":
        return list(column["values"])
    compress = zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress if column["kind"] == "frames" else bytes
    return [None if text is None else compress(text.encode("latin-1")) for text in column["values"]]


def _places() -> list[Path]:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    user = f"tagrpo-{os.getuid()}" if hasattr(os, "getuid") else "tagrpo"
    return [Path(home) / "tagrpo", Path(tempfile.gettempdir()) / user]


def _unpack_folder(pack: Path, folder: Path) -> None:
    """Unpack into a folder that appears only when complete; two processes may do so at once."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if hasattr(os, "getuid") and folder.parent.stat().st_uid != os.getuid():
        raise PermissionError(None, "the folder belongs to another user")
    made = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=folder.parent))
    try:
        unpack(pack, made / "tagrpo.db", home=folder)
        try:
            made.rename(folder)
        except OSError:
            if not (folder / "tagrpo.db").is_file():  # otherwise another process was faster
                raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _words(database: Path) -> str:
    made_on, _, versions = describe(database)
    made = f", tagrpo {versions['tagrpo']}" if "tagrpo" in versions else ""
    return (
        f"Results of a real demo run ({made_on}{made}) in a small world of word problems, too small to "
        "prove anything."
    )


def describe(database: Path) -> tuple[str, dict[str, int], dict[str, str]]:
    """Return the day of a database's newest run, the number of runs by kind, and their versions."""
    with closing(sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True)) as connection:
        kinds = dict(
            connection.execute("SELECT kind, count(*) FROM runs GROUP BY kind ORDER BY kind").fetchall()
        )
        created_at, versions = connection.execute(
            "SELECT created_at, versions FROM runs ORDER BY created_at DESC, id LIMIT 1"
        ).fetchone()
    return created_at[:10], kinds, json.loads(versions)
