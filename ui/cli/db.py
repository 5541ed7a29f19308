"""`tagrpo db`: check, back up, upgrade and copy the database."""

from pathlib import Path
from typing import Annotated

from typer import Argument

from service.errors import InputError
from ui.cli import output
from ui.cli.lazy import lazy_imports
from ui.cli.output import plural, terminal
from ui.cli.settings import db

with lazy_imports():
    from rephraser.sets import store as sets
    from service.database import copying, engine, place, schema, sqlite
    from service.questions import images


def check() -> None:
    """Check the whole database: pages, indexes, references, schema, images and published sets.

    Exit code 3: at least one problem was found.

    Example: tagrpo db check
    """
    with db.open(read_only=True) as database, terminal.progress("check") as bar:
        bar("pages, indexes and references", 0, None)
        problems = database.integrity_report(whole=True)
        with database.read() as session:
            problems += [] if problems else images.image_problems(session)
            headers = [] if problems else sets.list_sets(session)
            for number, header in enumerate(headers):
                bar(f"set {header.ref}", number, len(headers))
                problems += [f"set {header.ref}: {what}" for what in sets.verify(session, header.id).problems]
                bar(f"set {header.ref}", number + 1, len(headers))
    record = {"database": str(db.place), "revision": schema.HEAD_REVISION, "sets": len(headers)}
    terminal.show(record | {"problems": problems}, None if problems else "no problems found")
    if problems:
        way_back = "a set that differs from its published content was changed outside tagrpo; restore a dump"
        if isinstance(db.place, Path):
            way_back = "keep a copy of the file and of its -wal file, then restore a backup, or try "
            way_back += f"`sqlite3 {db.place} .recover`"
        raise output.needs_attention(f"{plural(len(problems), 'problem')}: {way_back}.")


def backup(target: Path) -> None:
    """Copy the database to a file while other processes keep writing.

    The copy is a consistent snapshot. If the command fails, no file is created.

    Example: tagrpo db backup /backups/tagrpo-monday.db

    Args:
        target: Path of the copy. The file must not exist yet.
    """
    if not isinstance(db.place, Path):
        raise InputError(
            f"{db.place}: `tagrpo db backup` copies SQLite files only. Use `pg_dump --file {target} URL`."
        )
    copied = sqlite.back_up(db.place, target)
    terminal.show({"database": db.place, "backup": target, "bytes": copied})


def copy(
    source: Annotated[str, Argument(metavar="FROM")], target: Annotated[str, Argument(metavar="TO")]
) -> None:
    """Copy all rows from a file to a server or back, then compare counts and contents.

    Stop other commands first: the copy does not include rows that they write meanwhile. If the command
    fails, nothing is copied.

    Example: tagrpo db copy tagrpo.db postgresql+psycopg://ann@db.lab/tagrpo

    Args:
        source: File or URL of the source database.
        target: File or URL of an empty target database.
    """
    with terminal.progress("copy") as report:
        rows = copying.copy_database(source, target, report=report)
    record = {"from": str(place.parse_place(source)), "to": str(place.parse_place(target)), "rows": rows}
    terminal.show(record, "Both have the same content.")


def upgrade(vacuum: bool = False) -> None:
    """Upgrade the database of an older tagrpo to this version's schema. No other command does this.

    Stop all other commands on the database first. Older versions cannot open it afterwards. Make a copy
    first: tagrpo db backup before.db

    Example: tagrpo db upgrade --vacuum

    Args:
        vacuum: Also release the disk space of removed rows. Other processes cannot write meanwhile.
    """
    record: dict[str, object] = {"database": str(db.place), "revision": schema.HEAD_REVISION}
    with engine.Database.open(db.place, create=False, upgrade=True) as database:
        if vacuum:
            record["bytes_before"], record["bytes_after"] = database.vacuum()
    terminal.show(record)
