"""`tagrpo db`: check, back up, copy, upgrade and shrink the database."""

from pathlib import Path
from typing import Annotated

from typer import Argument

from ui.cli import exits, output
from ui.cli.output import Terminal, plural
from ui.cli.settings import Db


def check(*, db: Db, terminal: Terminal) -> None:
    """Read the whole database: pages and indexes, references, its schema, images, published sets.

    Exit code 3: something is wrong; each problem is named.

    Example: [bold]tagrpo db check[/bold]
    """
    from rephraser import sets
    from service.database.engine import HEAD_REVISION
    from service.questions.images import image_problems

    with db.open(read_only=True) as database, terminal.progress("check") as bar:
        bar.update(0, None, "pages, indexes and references")
        problems = database.integrity_report(whole=True)
        with database.read() as session:
            if not problems:
                bar.update(0, None, "images")
                problems += image_problems(session)
            headers = [] if problems else sets.list_sets(session, None)
            for number, header in enumerate(headers):
                bar.update(number, len(headers), f"set {header.ref}")
                problems += [f"set {header.ref}: {what}" for what in sets.verify(session, header.id).problems]
    record = {
        "database": str(db.place),
        "revision": HEAD_REVISION,
        "sets": len(headers),
        "problems": problems,
    }
    if not problems:
        verified = plural(len(headers), "published set")
        terminal.emit(
            record, output.say, f"{db.place}: sound, schema {HEAD_REVISION}, {verified} as published"
        )
        return
    terminal.emit(record, output.say, *problems)
    raise exits.needs_attention(f"{plural(len(problems), 'problem')}: {_way_back(db.place)}.")


def backup(
    target: Annotated[Path, Argument(help="File of the copy; it must not exist yet.")],
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Copy the database as it is at one moment, while others go on writing. All of it or nothing appears.

    Example: [bold]tagrpo db backup /backups/tagrpo-monday.db[/bold]
    """
    from service.database import upkeep
    from service.errors import InputError

    if not isinstance(db.place, Path):
        raise InputError(
            f"{db.place}: `tagrpo db backup` is for a database in a file; `pg_dump --file {target} URL` "
            "copies this."
        )
    try:
        copied = upkeep.back_up(db.place, target)
    except FileExistsError:
        raise InputError(f"{target}: is there already; name another file, or remove it first.") from None
    record = {"database": str(db.place), "backup": str(target), "bytes": copied}
    terminal.emit(record, output.say, f"{target}: {copied / 1e6:,.1f} MB, whole and sound")


def copy(
    source: Annotated[str, Argument(metavar="FROM", help="File or URL of the database to be copied.")],
    target: Annotated[str, Argument(metavar="TO", help="File or URL of an empty database.")],
    *,
    terminal: Terminal,
) -> None:
    """Copy all rows from a file to a server, or back, and compare counts and contents. All of it or nothing.

    End what works on it first: what is stored meanwhile is not in the copy.

    Example: [bold]tagrpo db copy tagrpo.db postgresql+psycopg://ann@db.lab/tagrpo[/bold]
    """
    from service.database.place import parse_place
    from service.database.postgresql.copying import copy_database

    with terminal.progress("copy") as bar:
        rows = copy_database(source, target, report=output.stages(bar))
    record = {"from": str(parse_place(source)), "to": str(parse_place(target)), "rows": rows}
    tables = sum(count > 0 for count in rows.values())
    terminal.emit(
        record,
        output.say,
        f"{record['to']}: {plural(sum(rows.values()), 'row')} of {plural(tables, 'table')}, the same as in "
        f"{record['from']}",
    )


def upgrade(*, db: Db, terminal: Terminal) -> None:
    """Upgrade a database of an older tagrpo to this version's schema; no other command does.

    Older versions cannot open it afterwards; make a copy first: tagrpo db backup before.db

    Example: [bold]tagrpo db upgrade[/bold]
    """
    from service.database import Database
    from service.database.engine import HEAD_REVISION

    Database.upgrade(db.place).close()
    record = {"database": str(db.place), "revision": HEAD_REVISION}
    terminal.emit(record, output.say, f"{db.place}: schema {HEAD_REVISION}")


def vacuum(*, db: Db, terminal: Terminal) -> None:
    """Return the space of removed rows to the disk. Nobody else can write meanwhile.

    Example: [bold]tagrpo db vacuum[/bold]
    """
    from service.database import upkeep

    sizes = upkeep.vacuum(db.place)
    record = {"database": str(db.place), "bytes_before": sizes.before, "bytes_after": sizes.after}
    terminal.emit(
        record,
        output.say,
        f"{db.place}: {sizes.before / 1e6:,.1f} MB before, {sizes.after / 1e6:,.1f} MB now",
    )


def _way_back(place: object) -> str:
    if isinstance(place, Path):
        return (
            "keep a copy of the file and of its -wal, then go back to a backup, or try "
            f"`sqlite3 {place} .recover`"
        )
    return "a set that differs from its publication was changed past tagrpo; go back to a dump"
