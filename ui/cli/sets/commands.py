"""`tagrpo sets`: list, show, diff, verify, tag; `publishing` and `exports` hold the rest."""

from dataclasses import asdict
from typing import Annotated

from typer import Argument, Option

from ui.cli import exits, output
from ui.cli.output import Terminal
from ui.cli.sets import reports as set_reports
from ui.cli.settings import Db

Reference = Annotated[str, Argument(help="NAME (its newest version), NAME@VERSION, NAME@TAG, or an id.")]


def list_(
    name: Annotated[str | None, Argument(help="Only versions of this set.")] = None,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """List the published versions with their counts and tags.

    Example: tagrpo sets list
    """
    from rephraser import sets

    with db.reading() as session:
        if name is not None:
            sets.find_set(session, name)
        headers = sets.list_sets(session, name)
    record = {"sets": [set_reports.header_json(header) for header in headers]}
    terminal.emit(record, set_reports.print_headers, headers)


def show(
    reference: Reference,
    limit: Annotated[int, Option(min=0, help="Number of questions to show with their neighbors.")] = 0,
    first: Annotated[int, Option(min=0, help="First question to show, counted from 0.")] = 0,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Show a version: hash, counts, acceptance rate, provenance and some of its questions.

    Example: tagrpo sets show math@1 --limit 2
    """
    from rephraser import sets

    with db.reading() as session:
        header = sets.find_set(session, reference)
        entries = sets.load_entries(session, header.id, first=first, limit=limit) if limit else []
    record = set_reports.header_json(header, with_spec=True)
    if limit:
        record["entries"] = [asdict(entry) for entry in entries]
    terminal.emit(record, set_reports.print_version, header, entries)


def diff(
    a: Reference,
    b: Reference,
    limit: Annotated[int, Option(min=0, help="Number of lines to show of each kind.")] = 10,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Show the changes from version A to version B: questions, neighbors, verdicts.

    Example: tagrpo sets diff math@1 math@2
    """
    from rephraser import sets

    with db.reading() as session:
        difference = sets.diff(session, a, b)
    terminal.emit(difference.to_json(), set_reports.print_diff, difference, limit=limit)


def verify(
    references: Annotated[list[str] | None, Argument(help="Versions to verify. Default: all.")] = None,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Recompute the hashes of versions from their members and compare them with the published ones.

    Exit code 3: a version differs from its published content.

    Example: tagrpo sets verify math@1
    """
    from rephraser import sets

    with db.reading() as session:
        names = references or [header.id for header in sets.list_sets(session)]
        reports = [sets.verify(session, reference) for reference in names]
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
    lines = []
    for report in reports:
        state = "matches its published content" if report.ok else "CHANGED"
        lines.append(f"{report.header.ref}: {state}, {report.derived_hash}")
        lines += [f"  {problem}" for problem in report.problems]
    broken = [report.header.ref for report in reports if not report.ok]
    terminal.emit({"ok": not broken, "sets": results}, output.say, *(lines or ["no neighbor sets to verify"]))
    if broken:
        raise exits.needs_attention(
            f"{', '.join(broken)}: differs from its published content; do not train on it."
        )


def tag(
    reference: Reference,
    tag_name: Annotated[str, Argument(metavar="TAG", help="Name of the tag.")],
    remove: Annotated[bool, Option(help="Remove the tag from the set.")] = False,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Point a tag to a version, moving it if it exists; NAME@TAG then refers to that version.

    Example: tagrpo sets tag math@2 paper
    """
    from rephraser import sets

    with db.writing() as session:
        if remove:
            header = sets.find_set(session, reference)
            sets.untag(session, header.name, tag_name)
            header = sets.find_set(session, header.id)
        else:
            header = sets.tag(session, reference, tag_name)
    record = {"set": header.ref, "id": header.id, "tags": list(header.tags)}
    terminal.emit(record, output.say, f"{header.name}@{tag_name} is {'removed' if remove else header.ref}")
