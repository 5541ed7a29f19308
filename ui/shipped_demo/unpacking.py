"""Unpack the demo that ships with tagrpo, on first use, to a folder of the user."""

import json
import lzma
import os
import shutil
import sqlite3
import tarfile
import tempfile
from contextlib import closing
from pathlib import Path

from service.database.schema import HEAD_REVISION
from service.errors import InputError
from service.hashing import file_sha256

DEMO_FOLDERS = ("tagrpo-demo", "tagrpo-demo-quick")
SHIPPED = Path(__file__).with_name("demo.tar.xz")


def demo_database() -> tuple[Path, str]:
    """Return the database of the newest demo in this folder, else of the shipped one with its description."""
    demos = [path for folder in DEMO_FOLDERS if (path := Path(folder, "tagrpo.db")).exists()]
    return (max(demos, key=lambda path: path.stat().st_mtime), "") if demos else shipped_demo()


def shipped_demo(pack: Path = SHIPPED) -> tuple[Path, str]:
    """Return the shipped demo's database, unpacked if necessary, and its description on the pages.

    It is below `XDG_CACHE_HOME` or `~/.cache`; each version of tagrpo unpacks its own.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "tagrpo")
    folder = cache / f"demo-{file_sha256(pack)[:12]}-{HEAD_REVISION}"
    database = folder / "tagrpo.db"
    try:
        if not database.is_file():
            _unpack_once(pack, folder)
    except OSError as error:
        raise InputError(
            f"the shipped demo cannot be unpacked to {cache} ({error.strerror or error}). "
            "Set XDG_CACHE_HOME to another folder."
        ) from error
    return database, _describe(database)


def unpack(pack: Path, folder: Path, *, home: Path | None = None) -> Path:
    """Unpack a demo into a folder and return its database.

    The database names `home`, to which the caller moves the folder.
    """
    try:
        with tarfile.open(pack, "r:xz") as archive:
            archive.extractall(folder, filter="data")
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise InputError(f"{pack}: not a packed demo ({error}).") from error
    database = folder / "tagrpo.db"
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(
            "UPDATE train_folders SET folder = ? || folder", (f"{(home or folder).resolve()}/",)
        )
    return database


def _unpack_once(pack: Path, folder: Path) -> None:
    """Unpack into a folder that appears only when complete; two processes may do so at once."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=folder.parent))
    try:
        unpack(pack, made, home=folder)
        try:
            made.rename(folder)
        except OSError:
            if not (folder / "tagrpo.db").is_file():  # otherwise another process was faster
                raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _describe(database: Path) -> str:
    with closing(sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True)) as connection:
        created_at, versions = connection.execute(
            "SELECT created_at, versions FROM runs ORDER BY created_at DESC, id LIMIT 1"
        ).fetchone()
    made = json.loads(versions).get("tagrpo")
    return (
        f"Results of a real demo run ({created_at[:10]}{f', tagrpo {made}' if made else ''}) in a small "
        "world of word problems, too small to prove anything."
    )
