"""Pack the database and the rollouts of a demo to ship with tagrpo: `python -m ui.shipped_demo DATABASE`."""

import io
import re
import sqlite3
import sys
import tarfile
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import zstandard

from service.database import Database
from service.database.base import ZSTD_LEVEL
from service.errors import InputError
from service.writing import write_file
from ui.shipped_demo.unpacking import SHIPPED

MOST_BYTES = 4_000_000
"""Maximum bytes of a pack: it is part of the wheel."""

_FRAME = b"\x28\xb5\x2f\xfd"  # start of a zstd frame
_MACHINE = re.compile(r"""(?:^|["'\s=])(/(?:home|Users|root|tmp|mnt|work|scratch)/[^"'\s]*)""")
"""A path that reveals the machine on which a file was made."""


def pack(database: Path, target: Path, *, most_bytes: int = MOST_BYTES) -> None:
    """Pack `database` and the rollouts of its trainings into `target`, replacing it.

    Paths omit the parents of the demo's folder, so that the pack does not reveal where it was made.

    Raises:
        DatabaseError: not a database of this version of tagrpo.
        InputError: it contains other paths of this machine, or the pack has more than `most_bytes`.
    """
    Database.open(database, read_only=True).close()  # one of this version
    home = database.resolve().parent
    content = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=content, mode="w:xz") as archive:
        copy = Path(folder, "tagrpo.db")
        with closing(sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            connection.execute("VACUUM INTO ?", (str(copy),))
        with closing(sqlite3.connect(copy)) as connection:
            records = _prepare_copy(connection, home)
        _add(archive, copy.name, copy.read_bytes())
        for name, place in sorted(records.items()):
            for file in sorted(place.iterdir()):
                data = file.read_bytes()
                if file.suffix in (".json", ".jsonl"):
                    data = _placeless(data.decode(), home, str(file)).encode()
                _add(archive, f"{name}/{file.name}", data)
    if len(content.getvalue()) > most_bytes:
        raise InputError(
            f"{database}: the pack has {len(content.getvalue()):,} bytes, more than the limit of "
            f"{most_bytes:,}. Run a demo with fewer steps, seeds or recipes."
        )
    write_file(target, lambda path: path.write_bytes(content.getvalue()), overwrite=True)


def _prepare_copy(connection: sqlite3.Connection, home: Path) -> dict[str, Path]:
    """Shorten the paths in all rows; return the folder of each training by its name in the pack."""
    refused: list[str] = []

    def placeless(value: Any, where: str) -> Any:
        framed = isinstance(value, bytes) and value.startswith(_FRAME)
        if not framed and not isinstance(value, str):
            return value
        text = zstandard.decompress(value).decode("latin-1") if framed else value
        try:
            shortened = _placeless(text, home, where)
        except InputError as error:  # SQLite would replace its message
            refused.append(str(error))
            return value
        if shortened == text:
            return value
        return zstandard.compress(shortened.encode("latin-1"), ZSTD_LEVEL) if framed else shortened

    connection.create_function("placeless", 2, placeless)
    records = {}
    for run_id, name, place in connection.execute(
        "SELECT id, name, folder FROM train_folders JOIN runs ON id = run_id"
    ).fetchall():
        records[f"rollouts/{name}"] = Path(place)
        connection.execute(
            "UPDATE train_folders SET folder = ? WHERE run_id = ?", (f"rollouts/{name}", run_id)
        )
    made = "SELECT name, sql FROM sqlite_master WHERE type = ? ORDER BY name"
    triggers = connection.execute(made, ("trigger",)).fetchall()
    for name, _ in triggers:  # they forbid changes
        connection.execute(f'DROP TRIGGER "{name}"')
    for table, _ in connection.execute(made, ("table",)).fetchall():
        if not table.startswith("sqlite_"):
            for column in [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]:
                connection.execute(
                    f'UPDATE "{table}" SET "{column}" = placeless("{column}", ?) '
                    f"WHERE typeof(\"{column}\") IN ('text', 'blob')",
                    (f"{table}.{column}",),
                )
    for _, sql in triggers:
        connection.execute(sql)
    if refused:
        raise InputError(refused[0])
    connection.commit()
    connection.execute("PRAGMA journal_mode = WAL")
    return records


def _placeless(text: str, home: Path, where: str) -> str:
    """Return a text with the demo's folder shortened to its name; refuse other paths of this machine."""
    if text == str(home.parent):  # the folder in which the demo's commands ran
        return "."
    text = text.replace(f"{home}/", f"{home.name}/")
    if path := _MACHINE.search(text):
        raise InputError(f"{where}: contains the local path {path[1]!r}, which must not be published.")
    return text


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)  # without time and owner, so that equal content gives equal packs
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


if __name__ == "__main__":
    pack(Path(sys.argv[1]), SHIPPED)
