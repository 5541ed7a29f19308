"""Pack a demo: every row of every table and every rollout of its trainings, by columns, as one JSON text.

The text is compressed as a whole. A pack has no schema, since tagrpo creates it. Texts that the database
compresses one by one are packed plain. Only the index of letters is left out; triggers rebuild it.
"""

import json
import lzma
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import zstandard

from service.database.engine import HEAD_REVISION
from service.errors import InputError
from service.writing import write_file
from trainer_adapter.record.reading import Record, read_rollouts
from trainer_adapter.record.rollout import COLUMNS

FORMAT = 3
MOST_BYTES = 2_500_000
"""Maximum bytes of a pack: it is part of the wheel."""

LETTERS = ("text_letters", "searched_texts")
"""Prefix of the tables of the index of letters."""

_FRAME = b"\x28\xb5\x2f\xfd"  # start of a zstd frame
_MACHINE = re.compile(r"""(?:^|["'\s=])(/(?:home|Users|root|tmp|mnt|work|scratch)/[^"'\s]*)""")
"""A path that reveals the machine on which a file was made."""


def pack(database: Path, target: Path, *, folder: Path | None = None, most_bytes: int = MOST_BYTES) -> None:
    """Pack `database` into `target`, replacing it.

    The demo's folder is stored without its parent folders in every row, so that the pack does not reveal
    where it was made.

    Args:
        folder: in which the demo ran; by default the database's own folder.

    Raises:
        InputError: not a database of this version of tagrpo, one that cannot be packed, one that contains
            this machine's paths, or a pack of more than `most_bytes`.
    """
    if not database.is_file():
        raise InputError(f"{database}: no such file. Run `tagrpo demo` to create a demo database.")
    folder = (folder or database.parent).resolve()
    with closing(sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True)) as connection:
        connection.execute("BEGIN")  # one view of it, in case something writes meanwhile
        _check(connection, database)
        tables = {name: _columns(connection, name, folder) for name in table_names(connection)}
        records = {
            run_id: _record(Path(place), folder)
            for run_id, place in connection.execute("SELECT run_id, folder FROM train_folders ORDER BY 1")
        }
    content = {"format": FORMAT, "revision": HEAD_REVISION, "tables": tables, "records": records}
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    data = lzma.compress(text.encode("utf-8", "surrogatepass"))
    if len(data) > most_bytes:
        raise InputError(
            f"{database}: the pack has {len(data):,} bytes, more than the limit of {most_bytes:,}. Run a "
            "demo with fewer steps, seeds or recipes."
        )
    write_file(target, lambda path: path.write_bytes(data), overwrite=True)


def read_pack(pack: Path) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """Return the tables of a pack by name, each as a dict of its columns, and the records by run.

    A column has `values` and their `kind`: `plain` (JSON values), `bytes` (as Latin-1), or `frames` (texts to
    compress, as Latin-1). A record has the content of `run.json`, the `metrics` of each step, and the
    `rollouts` by column.

    Raises:
        InputError: not a pack, or a pack of another version of tagrpo.
    """
    try:
        content = json.loads(lzma.decompress(pack.read_bytes()).decode("utf-8", "surrogatepass"))
        made = content["format"], content["revision"]
        tables: dict[str, dict[str, Any]] = content["tables"]
        records: dict[str, dict[str, Any]] = content.get("records", {})
    except (OSError, KeyError, TypeError, ValueError, lzma.LZMAError) as error:
        raise InputError(f"{pack}: not a packed database ({error}).") from error
    if made != (FORMAT, HEAD_REVISION):
        raise InputError(
            f"{pack}: the pack has format {made[0]} and schema {made[1]}, but this version of tagrpo needs "
            f"format {FORMAT} and schema {HEAD_REVISION}."
        )
    return tables, records


def _check(connection: sqlite3.Connection, database: Path) -> None:
    try:
        (revision,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        (runs,) = connection.execute("SELECT count(*) FROM runs").fetchone()
    except sqlite3.Error as error:
        raise InputError(f"{database}: not a tagrpo database ({error}).") from error
    if revision != HEAD_REVISION:
        raise InputError(f"{database}: has schema {revision}, but only schema {HEAD_REVISION} can be packed.")
    if not runs:
        raise InputError(f"{database}: contains no runs. Pack the database of a demo.")


def table_names(connection: sqlite3.Connection) -> list[str]:
    """Return the names of the tables to pack."""
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
    skipped = ("sqlite_", "alembic_version", "train_folders", *LETTERS)
    return [name for (name,) in names if not name.startswith(skipped)]


def _columns(connection: sqlite3.Connection, table: str, folder: Path) -> dict[str, Any]:
    names = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
    order = ", ".join(str(place + 1) for place in range(len(names)))
    rows = connection.execute(f'SELECT * FROM "{table}" ORDER BY {order}').fetchall()
    return {
        name: _column([row[place] for row in rows], folder, f"{table}.{name}")
        for place, name in enumerate(names)
    }


def _record(place: Path, folder: Path) -> dict[str, Any]:
    """Return all that the record in a folder holds."""
    record = Record(place)
    rollouts = list(read_rollouts(place))
    about = json.dumps({"run": record.run.name, "spec": record.run.spec, "versions": record.run.versions})
    return {
        **json.loads(_placeless(about, folder, f"{place}/run.json")),
        "metrics": list(record.metrics().items()),
        "rollouts": {name: [getattr(rollout, name) for rollout in rollouts] for name in COLUMNS},
    }


def _column(values: list[Any], folder: Path, where: str) -> dict[str, Any]:
    blobs = [value for value in values if isinstance(value, bytes)]
    if not blobs:
        return {"kind": "plain", "values": [_placeless(value, folder, where) for value in values]}
    if len(blobs) + values.count(None) < len(values):
        raise InputError(f"{where} contains values of several types, which cannot be packed.")
    frames = all(blob.startswith(_FRAME) for blob in blobs)
    plain = zstandard.ZstdDecompressor().decompress if frames else bytes
    texts = [None if value is None else plain(value).decode("latin-1") for value in values]
    return {
        "kind": "frames" if frames else "bytes",
        "values": [_placeless(text, folder, where) for text in texts],
    }


def _placeless(value: Any, folder: Path, where: str) -> Any:
    """Return a value with the demo's folder shortened to its name; refuse other paths of this machine."""
    if not isinstance(value, str):
        return value
    if value == str(folder.parent):  # the folder in which the demo's commands ran
        return "."
    text = value.replace(f"{folder}/", f"{folder.name}/")
    if path := _MACHINE.search(text):
        raise InputError(
            f"{where}: a row contains the local path {path[1]!r}, which must not be published. Pass the "
            "demo's folder with --folder."
        )
    return text
