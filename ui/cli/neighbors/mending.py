"""`tagrpo rephrase mend`: a person's new text for a candidate, checked and judged as any other."""

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
    from rephraser.reviews.mending import EditedCandidate
    from service.database import Database

STDIN = Path("-")


def mend(
    candidate: Annotated[str, Argument(help="Id of a candidate, or its first characters.")],
    text: Annotated[str | None, Option(help="The edited text.")] = None,
    text_file: Annotated[Path | None, Option(help="Read the edited text from a file; - reads stdin.")] = None,
    run: Annotated[
        str | None,
        Option(
            help="Run that judges the new candidate; optional if only one run has the original candidate."
        ),
    ] = None,
    reviewer: Reviewer = None,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Edit a candidate's text. This adds a new candidate linked to the old one, which stays unchanged.

    The structural checks run at once. If the run has a solver, `tagrpo resume` collects and judges answers as
    for any other candidate.

    Example: tagrpo rephrase mend c_3fa1 --text "How long is the side of a square of area 9?"
    """
    from rephraser.reviews.mending import mend_candidate

    if (text is None) == (text_file is None):
        raise typer.BadParameter("give the edited text with --text, or a file with --text-file")
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
        raise InputError(f"{path}: not UTF-8 text ({error}).") from error


def _standing(database: "Database", mended: "EditedCandidate") -> dict[str, Any]:
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
    output.say(f"{record['candidate']}: edited from {record['mended_from']} by {record['mended_by']}")
    output.say(f"{record['status']}: {record['reason']}")
    if not record["final"]:
        output.say(f"{resume_command(record['run'])} collects and judges its answers")
