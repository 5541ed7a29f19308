"""Unpacking the demo that ships with tagrpo, on first use, to a folder of the user's."""

import hashlib
import io
import os
import shutil
import sqlite3
import tempfile
import zipfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zstandard

from service.database import Database
from service.database.base import ZSTD_LEVEL
from service.database.engine import HEAD_REVISION
from service.errors import InputError
from ui.shipped_demo.packing import read_manifest

SHIPPED = Path(__file__).with_name("demo.zip")


@dataclass(frozen=True)
class ShippedDemo:
    """The unpacked database, and what the pages say about it."""

    database: Path
    words: str


def shipped_demo(pack: Path = SHIPPED) -> ShippedDemo:
    """Return the shipped demo's database, unpacked where that was not done yet.

    It lies below `XDG_CACHE_HOME` or `~/.cache`; where that cannot be written to, in the folder of temporary
    files. Its folder is named after the pack and the schema, so that another version of tagrpo unpacks its
    own.

    Raises:
        InputError: the pack is damaged, or there is no place to unpack it to.
    """
    manifest = read_manifest(pack)
    digest = hashlib.sha256(pack.read_bytes()).hexdigest()[:12]
    name = f"demo-{digest}-{HEAD_REVISION}"
    words = _words(manifest)
    tried = []
    for place in _places():
        target = place / name / "tagrpo.db"
        if target.is_file():
            return ShippedDemo(target, words)
        try:
            _unpack_folder(pack, target.parent)
        except OSError as error:
            tried.append(f"{place} ({error.strerror or error})")
            continue
        return ShippedDemo(target, words)
    raise InputError(
        f"the shipped demo cannot be unpacked to {' or '.join(tried)}; set XDG_CACHE_HOME to a folder."
    )


def unpack(pack: Path, target: Path) -> None:
    """Write the database of a pack to `target`, a new file, and bring it up to date.

    Raises:
        InputError: the pack is damaged.
        OSError: the file cannot be written.
    """
    manifest = read_manifest(pack)
    with zipfile.ZipFile(pack) as archive, closing(sqlite3.connect(target)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")  # thrown away where it does not come to its end
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        for table in manifest["tables"]:
            connection.execute(table["sql"])
            _fill(connection, table, archive.read(f"{table['name']}.parquet"))
        for sql in manifest["after"]:
            connection.execute(sql)
        connection.commit()
    Database.open(target, create=False).close()


def _places() -> list[Path]:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    user = f"tagrpo-{os.getuid()}" if hasattr(os, "getuid") else "tagrpo"
    return [Path(home) / "tagrpo", Path(tempfile.gettempdir()) / user]


def _unpack_folder(pack: Path, folder: Path) -> None:
    """Unpack into a folder that appears with the finished database in it; two may do so at a time."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if hasattr(os, "getuid") and folder.parent.stat().st_uid != os.getuid():
        raise PermissionError(None, "the folder is another user's")
    made = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=folder.parent))
    try:
        unpack(pack, made / "tagrpo.db")
        try:
            made.rename(folder)
        except OSError:
            if not (folder / "tagrpo.db").is_file():  # else another process was quicker
                raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _fill(connection: sqlite3.Connection, table: dict[str, Any], data: bytes) -> None:
    from pyarrow import parquet

    found = parquet.read_table(io.BytesIO(data))
    columns = [column.to_pylist() for column in found.columns]
    if found.column_names != table["columns"] or found.num_rows != table["rows"]:
        raise InputError(f"the pack is damaged: {table['name']} is not as its manifest says.")
    compress = zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress
    for place, name in enumerate(table["columns"]):
        if name in table["framed"]:
            columns[place] = [None if value is None else compress(value) for value in columns[place]]
    marks = ", ".join("?" * len(columns))
    names = ", ".join(f'"{name}"' for name in table["columns"])
    connection.executemany(
        f'INSERT INTO "{table["name"]}" ({names}) VALUES ({marks})', zip(*columns, strict=True)
    )


def _words(manifest: dict[str, Any]) -> str:
    version = manifest["versions"].get("tagrpo")
    made = f", tagrpo {version}" if version else ""
    return (
        f"Results of a real demo run ({manifest['made_on']}{made}) on a small world of word problems: too "
        "small to prove anything."
    )
