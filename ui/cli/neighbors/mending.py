"""`tagrpo neighbors mend`: a person's new text for a candidate, checked and judged as any other."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from service.errors import InputError
from ui.cli import output
from ui.cli.output import Terminal
from ui.cli.settings import Db, Reviewer, resume_command, reviewer_name

if TYPE_CHECKING:
    from rephraser.reviews.mending import Mended
    from service.database import Database

STDIN = Path("-")


def mend(
    candidate: Annotated[str, Argument(help="Id of a candidate, or the beginning of it.")],
    text: Annotated[str | None, Option(help="The mended text.")] = None,
    text_file: Annotated[Path | None, Option(help="Read the mended text from a file; - is stdin.")] = None,
    run: Annotated[
        str | None, Option(help="Run to judge it; not needed if only one run has the candidate.")
    ] = None,
    reviewer: Reviewer = None,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Mend a candidate's text: a new candidate that knows its origin; the old one stays as it is.

    The structural checks look at it at once. Where the run has a solver, `tagrpo resume` has answers drawn to
    it and judged, as to any other candidate.

    Example: tagrpo neighbors mend c_3fa1 --text "How long is the side of a square of area 9?"
    """
    from rephraser.reviews.mending import mend_candidate

    if (text is None) == (text_file is None):
        raise typer.BadParameter("give the mended text with --text, or a file of it with --text-file")
    written = text if text is not None else _read(text_file)
    who = reviewer_name(reviewer)
    with db.open() as database:
        with database.write() as session:
            mended = mend_candidate(session, candidate, written, reviewer=who, run=run)
        record = _standing(database, mended)
    terminal.emit(record, _print, record)


def _read(path: Path | None) -> str:
    assert path is not None
    if path == STDIN:
        return sys.stdin.read()
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: no text in UTF-8 ({error}).") from error


def _standing(database: "Database", mended: "Mended") -> dict[str, Any]:
    """Return where the new candidate is after the structural checks."""
    from rephraser.reviews.status import read_status

    with database.read() as session:
        standing = read_status(session, mended.run.id, mended.candidate_id)
    return {
        "candidate": mended.candidate_id,
        "mended_from": mended.origin_id,
        "mended_by": standing.mended_by,
        "run": mended.run.name,
        "status": standing.status,
        "reason": standing.reason,
        "final": standing.final,
    }


def _print(record: dict[str, Any]) -> None:
    output.say(f"{record['candidate']}: mended from {record['mended_from']} by {record['mended_by']}")
    output.say(f"{record['status']}: {record['reason']}")
    if not record["final"]:
        output.say(f"its answers are drawn and judged by {resume_command(record['run'])}")
