"""`tagrpo sets`: publish, list, show, diff, verify, tag (export and import stand in `set_exports`)."""

from dataclasses import asdict
from typing import Annotated

import typer

from ui.cli import output
from ui.cli.output import DbOption, JsonOption
from ui.cli.sets import exports as set_exports
from ui.cli.sets import publishing as set_publishing
from ui.cli.sets import reports as set_reports

app = typer.Typer(
    no_args_is_help=True,
    help="Publish, compare, verify and export immutable neighbor sets.",
    epilog="Example: tagrpo sets publish math --run rules --include unverified",
)
app.command("export")(set_exports.export)
app.command("import")(set_exports.import_)

Reference = Annotated[
    str,
    typer.Argument(help="NAME (its newest version), NAME@VERSION, NAME@TAG, or an id.", show_default=False),
]


app.command()(set_publishing.publish)


@app.command("list")
def list_(
    name: Annotated[str | None, typer.Argument(help="Only this set.", show_default=False)] = None,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the published versions with their counts and tags.

    Example: [bold]tagrpo sets list[/bold]
    """
    from rephraser import sets
    from service.database import Database, locate_database

    with Database.open(locate_database(db), create=False) as database, database.read() as session:
        if name is not None:
            sets.find_set(session, name)
        headers = sets.list_sets(session, name)
    if as_json:
        output.print_json({"sets": [set_reports.header_json(header) for header in headers]})
    elif not headers:
        output.say("no neighbor sets yet; publish one with `tagrpo sets publish NAME --run RUN`")
    else:
        set_reports.print_headers(headers)


@app.command()
def show(
    reference: Reference,
    limit: Annotated[int, typer.Option(min=0, help="Show so many questions with their neighbors.")] = 0,
    first: Annotated[int, typer.Option(min=0, help="Begin with this question, counted from 0.")] = 0,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a version: hash, counts, accept rate, where it comes from, and some of its questions.

    Example: [bold]tagrpo sets show math@1 --limit 2[/bold]
    """
    from rephraser import sets
    from service.database import Database, locate_database

    with Database.open(locate_database(db), create=False) as database, database.read() as session:
        header = sets.find_set(session, reference)
        entries = sets.load_entries(session, header.id, first=first, limit=limit) if limit else []
    if as_json:
        shown = {"entries": [asdict(entry) for entry in entries]} if limit else {}
        output.print_json({**set_reports.header_json(header, with_spec=True), **shown})
        return
    output.say(header.ref)
    set_reports.print_counts(header)
    set_reports.print_origin(header)
    for entry in entries:
        set_reports.print_entry(entry)


@app.command()
def diff(
    a: Reference,
    b: Reference,
    limit: Annotated[int, typer.Option(min=0, help="Lines of each kind.")] = 10,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what changed from version A to B: questions, neighbors, verdicts.

    Example: [bold]tagrpo sets diff math@1 math@2[/bold]
    """
    from rephraser import sets
    from service.database import Database, locate_database

    with Database.open(locate_database(db), create=False) as database, database.read() as session:
        found = sets.diff(session, a, b)
    if as_json:
        output.print_json(set_reports.diff_json(found))
    else:
        set_reports.print_diff(found, limit=limit)


@app.command()
def verify(
    references: Annotated[
        list[str] | None, typer.Argument(help="Versions to verify; without any, all.", show_default=False)
    ] = None,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Re-derive the hash of versions from their members and compare it with the published one.

    Exit code 1: a version is not what was published.

    Example: [bold]tagrpo sets verify math@1[/bold]
    """
    from rephraser import sets
    from service.database import Database, locate_database

    with Database.open(locate_database(db), create=False) as database, database.read() as session:
        names = references or [header.id for header in sets.list_sets(session)]
        reports = [sets.verify(session, reference) for reference in names]
    if as_json:
        results = [
            {
                "set": report.header.ref,
                "ok": report.ok,
                "content_hash": report.header.content_hash,
                "derived_hash": report.derived_hash,
                "problems": list(report.problems),
            }
            for report in reports
        ]
        output.print_json({"ok": all(report.ok for report in reports), "sets": results})
    else:
        for report in reports:
            output.say(
                f"{report.header.ref}: {'as published' if report.ok else 'CHANGED'}, {report.derived_hash}"
            )
            for problem in report.problems:
                output.say(f"  {problem}")
        if not reports:
            output.say("no neighbor sets to verify")
    broken = [report.header.ref for report in reports if not report.ok]
    if broken:
        raise output.needs_attention(f"{', '.join(broken)}: not what was published; do not train on it.")


@app.command()
def tag(
    reference: Reference,
    tag_name: Annotated[str, typer.Argument(metavar="TAG", help="The tag.", show_default=False)],
    remove: Annotated[bool, typer.Option("--remove", help="Remove the tag from the set's name.")] = False,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Point a tag to a version, wherever it pointed before; then NAME@TAG means that version.

    Example: [bold]tagrpo sets tag math@2 paper[/bold]
    """
    from rephraser import sets
    from service.database import Database, locate_database

    with Database.open(locate_database(db), create=False) as database, database.write() as session:
        if remove:
            header = sets.find_set(session, reference)
            sets.untag(session, header.name, tag_name)
            header = sets.find_set(session, header.id)
        else:
            header = sets.tag(session, reference, tag_name)
    if as_json:
        output.print_json({"set": header.ref, "id": header.id, "tags": list(header.tags)})
    elif remove:
        output.say(f"{header.name}@{tag_name} is gone")
    else:
        output.say(f"{header.name}@{tag_name} is {header.ref}")
