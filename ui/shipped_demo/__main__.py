"""Pack the database and the rollouts of a demo to ship with tagrpo: `python -m ui.shipped_demo DATABASE`."""

import io
import re
import sqlite3
import sys
import tarfile
import tempfile
from collections.abc import Callable
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

    Paths omit the parents of the demo's folder; with other paths of this machine the pack is refused.
    """
    Database.open(database, read_only=True).close()  # one of this version
    home = database.resolve().parent
    refused: list[str] = []

    def placeless(text: str, where: str) -> str:
        if text == str(home.parent):  # the folder in which the demo's commands ran
            return "."
        text = text.replace(f"{home}/", f"{home.name}/")
        if path := _MACHINE.search(text):
            refused.append(f"{where}: contains the local path {path[1]!r}, which must not be published.")
        return text

    content = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=content, mode="w:xz") as archive:
        copy = Path(folder, "tagrpo.db")
        with closing(sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            connection.execute("VACUUM INTO ?", (str(copy),))
        with closing(sqlite3.connect(copy)) as connection:
            records = _prepare_copy(connection, placeless)
        _add(archive, copy.name, copy.read_bytes())
        for name, place in sorted(records.items()):
            for file in sorted(place.iterdir()):
                data = file.read_bytes()
                if file.suffix in (".json", ".jsonl"):
                    data = placeless(data.decode(), str(file)).encode()
                _add(archive, f"{name}/{file.name}", data)
    if refused:
        raise InputError(refused[0])
    if len(content.getvalue()) > most_bytes:
        raise InputError(
            f"{database}: the pack has {len(content.getvalue()):,} bytes, more than the limit of "
            f"{most_bytes:,}. Run a demo with fewer steps, seeds or recipes."
        )
    write_file(target, lambda path: path.write_bytes(content.getvalue()), overwrite=True)


def _prepare_copy(connection: sqlite3.Connection, placeless: Callable[[str, str], str]) -> dict[str, Path]:
    """Shorten the paths in all rows; return the folder of each training by its name in the pack."""

    def shorten(value: Any, where: str) -> Any:
        if isinstance(value, str):
            return placeless(value, where)
        if not isinstance(value, bytes) or not value.startswith(_FRAME):
            return value
        text = zstandard.decompress(value).decode("latin-1")
        shortened = placeless(text, where)
        return value if shortened == text else zstandard.compress(shortened.encode("latin-1"), ZSTD_LEVEL)

    connection.create_function("shorten", 2, shorten)
    folders = "SELECT name, run_id, folder FROM train_folders JOIN runs ON id = run_id"
    records = {}
    for name, run_id, place in connection.execute(folders).fetchall():
        new = f"rollouts/{name}"
        records[new] = Path(place)
        connection.execute("UPDATE train_folders SET folder = ? WHERE run_id = ?", (new, run_id))
    made = "SELECT name, sql FROM sqlite_master WHERE type = ? ORDER BY name"
    triggers = connection.execute(made, ("trigger",)).fetchall()
    for name, _ in triggers:  # they forbid changes
        connection.execute(f'DROP TRIGGER "{name}"')
    for table, _ in connection.execute(made, ("table",)).fetchall():
        for _, column, *_ in connection.execute(f'PRAGMA table_info("{table}")').fetchall():
            if not table.startswith("sqlite_"):
                connection.execute(
                    f'UPDATE "{table}" SET "{column}" = shorten("{column}", ?) '
                    f"WHERE typeof(\"{column}\") IN ('text', 'blob')",
                    (f"{table}.{column}",),
                )
    for _, sql in triggers:
        connection.execute(sql)
    connection.commit()
    connection.execute("PRAGMA journal_mode = WAL")
    return records


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)  # without time and owner, so that equal content gives equal packs
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


if __name__ == "__main__":
    pack(Path(sys.argv[1]), SHIPPED)
