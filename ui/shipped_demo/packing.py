"""Packing a database: every row of every table in columns, without indexes, so that it is small.

A pack is a zip archive: `manifest.json` (the schema as SQL, where it came from, rows by table) and a parquet
file for each table. Texts that the database keeps compressed one by one are packed plain and compressed
together. Nothing is left out but the index of letters, which follows from the texts and is made anew.
"""

import io
import json
import re
import sqlite3
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zstandard

from service.errors import InputError
from service.writing import write_file

FORMAT = 1
NUMBERS, LETTERS = "searched_texts", "text_letters"
FILL = (
    f"""
    INSERT INTO {NUMBERS} (id, question_id)
    SELECT 2 * rowid, id FROM questions UNION ALL SELECT 2 * rowid + 1, question_id FROM candidates""",
    f"""
    INSERT INTO {LETTERS} (rowid, text)
    SELECT 2 * rowid, text || char(10) || answer FROM questions
    UNION ALL SELECT 2 * rowid + 1, text FROM candidates""",
)
"""What makes the index of letters anew. The numbers have to differ only; from here on they are counted up."""

MANIFEST = "manifest.json"
MOST_BYTES = 2_500_000
"""Of a pack: it is part of the wheel."""

_FRAME = b"\x28\xb5\x2f\xfd"  # how a zstd frame begins
_MACHINE = re.compile(r"""(?:^|["'\s=])(/(?:home|Users|root|tmp|mnt|work|scratch)/[^"'\s]*)""")
"""A path that tells of the machine on which something was made."""


def is_made(table: str) -> bool:
    """Say whether a table belongs to the index of letters: it is not packed, `FILL` makes it."""
    return table in (NUMBERS, LETTERS) or table.startswith(f"{LETTERS}_")


@dataclass(frozen=True)
class PackedTable:
    """A table as it was packed."""

    name: str
    rows: int
    size: int  # bytes


def pack(
    database: Path, target: Path, *, folder: Path | None = None, most_bytes: int = MOST_BYTES
) -> list[PackedTable]:
    """Pack `database` into `target`, which is replaced; return its tables, the largest first.

    The demo's folder is named without the folders above it, wherever its full path stands in a row: what
    ships must not tell where it was made.

    Args:
        folder: in which the demo ran; the database's own folder without it.

    Raises:
        InputError: no database of tagrpo, one that cannot be packed, one that holds this machine's paths, or
            a pack of more than `most_bytes`.
    """
    if not database.is_file():
        raise InputError(f"{database}: there is no such file; `tagrpo demo` makes a demo's database.")
    folder = (folder or database.parent).resolve()
    found: list[PackedTable] = []
    archive = io.BytesIO()
    with closing(sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True)) as connection:
        connection.execute("BEGIN")  # one view of it, should something write meanwhile
        manifest = _manifest(connection, database)
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as opened:
            for table in manifest["tables"]:
                packed = _packed(connection, table, folder)
                _write(opened, f"{table['name']}.parquet", packed)
                found.append(PackedTable(table["name"], table["rows"], len(packed)))
            _write(opened, MANIFEST, json.dumps(manifest, indent=1).encode())
    data = archive.getvalue()
    if len(data) > most_bytes:
        raise InputError(
            f"{database}: packed it takes {len(data):,} bytes, and {most_bytes:,} are the most to ship. "
            "Nothing is left out of a pack; make a demo with fewer steps, seeds or recipes."
        )
    write_file(target, lambda path: _put(path, data), overwrite=True)
    return sorted(found, key=lambda one: -one.size)


def read_manifest(pack: Path) -> dict[str, Any]:
    """Return what a pack says about itself.

    Raises:
        InputError: no pack, or one of a format that this version does not know.
    """
    try:
        with zipfile.ZipFile(pack) as opened:
            manifest: dict[str, Any] = json.loads(opened.read(MANIFEST))
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise InputError(f"{pack}: not a packed database ({error}).") from error
    if manifest.get("format") != FORMAT:
        raise InputError(f"{pack}: packed in format {manifest.get('format')}; this version reads {FORMAT}.")
    return manifest


def _manifest(connection: sqlite3.Connection, database: Path) -> dict[str, Any]:
    with _explained(database):
        kinds = {row[1]: row[2] for row in connection.execute("PRAGMA main.table_list")}
        schema = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
        revision = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        runs = connection.execute(
            "SELECT kind, count(*), max(created_at) FROM runs GROUP BY kind ORDER BY kind"
        ).fetchall()
    made = [sql for _, name, _, sql in schema if name in (NUMBERS, LETTERS)]
    schema = [row for row in schema if not is_made(row[1])]
    odd = [name for kind, name, _, _ in schema if kind == "table" and kinds.get(name) != "table"]
    if odd:
        raise InputError(f"{database}: {', '.join(odd)}: only ordinary tables can be packed.")
    if not runs:
        raise InputError(f"{database}: there is no run in it; pack the database of a demo.")
    tables = [
        {"name": name, "sql": sql, "columns": columns, "rows": rows, "framed": framed}
        for kind, name, _, sql in schema
        if kind == "table" and not name.startswith("sqlite_")
        for columns, rows, framed in [_shape(connection, name)]
    ]
    return {
        "format": FORMAT,
        "revision": revision[0],
        "made_on": max(day for _, _, day in runs)[:10],
        "runs": {kind: count for kind, count, _ in runs},
        "versions": _versions(connection),
        "tables": tables,
        # After the rows: indexes are built faster then, and triggers have nothing to count twice.
        "after": [
            *(made + list(FILL) if made else []),
            *(sql for kind, _, _, sql in schema if kind in ("index", "trigger", "view") and sql),
        ],
    }


def _versions(connection: sqlite3.Connection) -> dict[str, str]:
    """Return the versions of the newest run: what the demo was made with."""
    row = connection.execute("SELECT versions FROM runs ORDER BY created_at DESC, id LIMIT 1").fetchone()
    return dict(json.loads(row[0]))


def _shape(connection: sqlite3.Connection, table: str) -> tuple[list[str], int, list[str]]:
    """Return a table's columns, its number of rows, and the columns whose values are zstd frames."""
    info = connection.execute(f'PRAGMA table_info("{table}")').fetchall()
    columns = [row[1] for row in info]
    (rows,) = connection.execute(f'SELECT count(*) FROM "{table}"').fetchone()
    framed = []
    for column in columns:
        frames, blobs = connection.execute(
            f'SELECT sum(substr("{column}", 1, 4) = ?), count(*) FROM "{table}" '
            f"WHERE typeof(\"{column}\") = 'blob'",
            (_FRAME,),
        ).fetchone()
        if blobs and frames == blobs:
            framed.append(column)
    return columns, rows, framed


def _packed(connection: sqlite3.Connection, table: dict[str, Any], folder: Path) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    names = ", ".join(f'"{column}"' for column in table["columns"])
    order = ", ".join(str(place + 1) for place in range(len(table["columns"])))
    rows = connection.execute(f'SELECT {names} FROM "{table["name"]}" ORDER BY {order}').fetchall()
    arrays, encodings = {}, {}
    for place, column in enumerate(table["columns"]):
        values = [row[place] for row in rows]
        if column in table["framed"]:
            values = [None if value is None else _plain(value) for value in values]
        where = f"{table['name']}.{column}"
        values = [_placeless(value, folder, where) for value in values]
        try:
            array = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise InputError(f"{where} holds values of several types, which cannot be packed.") from error
        arrays[column] = array
        if pa.types.is_integer(array.type):
            encodings[column] = "DELTA_BINARY_PACKED"
        elif pa.types.is_floating(array.type):
            encodings[column] = "BYTE_STREAM_SPLIT"
    out = io.BytesIO()
    parquet.write_table(
        pa.table(arrays),
        out,
        compression="zstd",
        compression_level=19,
        use_dictionary=[column for column in arrays if column not in encodings],
        column_encoding=encodings or None,
        data_page_size=1 << 24,
        write_statistics=False,
    )
    return out.getvalue()


def _plain(frame: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompress(frame)


def _placeless(value: Any, folder: Path, where: str) -> Any:
    """Return a value with the demo's folder cut to its name; refuse one that holds another such path."""
    if not isinstance(value, str | bytes):
        return value
    text = value if isinstance(value, str) else value.decode("utf-8", "surrogateescape")
    text = text.replace(f"{folder}/", f"{folder.name}/")
    if found := _MACHINE.search(text):
        raise InputError(
            f"{where}: a row holds {found[1]!r}, a path of this machine, which must not ship. Name the "
            "folder in which the demo ran with --folder."
        )
    return text if isinstance(value, str) else text.encode("utf-8", "surrogateescape")


@contextmanager
def _explained(database: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise InputError(f"{database}: not a database of tagrpo ({error}).") from error


def _write(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    # A fixed time: the same database makes the same pack.
    archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data)


def _put(path: Path, data: bytes) -> None:
    path.write_bytes(data)
