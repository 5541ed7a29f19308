"""`tagrpo neighbors review`: human decisions, one, a file of them, or one after the other."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from service.errors import NotFoundError
from ui.cli import output
from ui.cli.files import RowsFile
from ui.cli.neighbors import reviewing
from ui.cli.output import Terminal
from ui.cli.settings import Db, Reviewer, reviewer_name

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from rephraser.reviews.store import Decision
    from service.database import Database


def review(
    candidate: Annotated[str | None, Argument(help="Id of a candidate, or the beginning of it.")] = None,
    accept: Annotated[bool, Option(help="It asks the same problem.")] = False,
    reject: Annotated[bool, Option(help="It does not; say why with --reason.")] = False,
    withdraw: Annotated[bool, Option(help="Withdraw your newest decision on it.")] = False,
    reason: Annotated[str, Option(help="Why; needed to reject.", show_default=False)] = "",
    reviewer: Reviewer = None,
    audit: Annotated[int | None, Option(help="The decisions belong to this audit.")] = None,
    sheet: Annotated[
        Path | None,
        Option(
            "--sheet",
            help="JSON Lines with candidate, decision (accept or reject) and reason; all or nothing.",
        ),
    ] = None,
    interactive: Annotated[bool, Option(help="Show one candidate after the other and ask.")] = False,
    run: Annotated[
        str | None, Option(help="Interactive: candidates of this run; or name an --audit.")
    ] = None,
    status: Annotated[
        Literal["accepted", "rejected", "undecided", "unverified"],
        Option(help="Interactive, with --run: those with this status."),
    ] = "undecided",
    blind: Annotated[
        bool, Option(help="Interactive: hide verdict, strategy and model (audits always do).")
    ] = False,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Record a human decision on a candidate: one, a file of them, or one after the other.

    Reviews are kept for ever and never changed; the newest one counts, over every verdict and in every run,
    until its reviewer withdraws it. Published sets stay as they are: publish again to use the decision.

    Interactive reviewing stores each decision at once and leaves out what the same reviewer has decided, so
    it can be stopped at any time and continued by the same command.

    Example: [bold]tagrpo neighbors review c_3fa1 --reject --reason "asks for the area, not the side"[/bold]

    Example: [bold]tagrpo neighbors review --sheet decisions.jsonl --reviewer ada[/bold]

    Example: [bold]tagrpo neighbors review --run math-gpt4 --interactive --status undecided[/bold]

    Example: [bold]tagrpo neighbors review --audit 1 --interactive[/bold]
    """

    if sum((candidate is not None, sheet is not None, interactive)) != 1:
        raise typer.BadParameter("name a candidate, or give --sheet FILE, or --interactive")
    if candidate is not None and accept + reject + withdraw != 1:
        raise typer.BadParameter("give one of --accept, --reject and --withdraw")
    if candidate is None and (accept or reject or withdraw or reason):
        raise typer.BadParameter("--accept, --reject, --withdraw and --reason belong to one named candidate")
    if withdraw and reason:
        raise typer.BadParameter("--withdraw takes no --reason")
    if not interactive and (run or blind or status != "undecided"):
        raise typer.BadParameter("--run, --status and --blind belong to --interactive")
    if interactive and audit is not None and (run or status != "undecided"):
        raise typer.BadParameter("an audit names its candidates; leave out --run and --status")
    who = reviewer_name(reviewer)
    with db.open() as database:
        if candidate is not None and withdraw:
            _withdraw_one(database, candidate, who, audit, terminal=terminal)
        elif candidate is not None:
            decision: Literal["accepted", "rejected"] = "accepted" if accept else "rejected"
            _record_one(database, candidate, decision, reason, who, audit, terminal=terminal)
        elif sheet is not None:
            _record_file(database, sheet, who, audit, terminal=terminal)
        else:
            reviewing.review_interactively(
                database, who, run=run, audit_id=audit, status=status, blind=blind, terminal=terminal
            )


def list_(
    run: Annotated[str | None, Option(help="Only those of this run's candidates.")] = None,
    audit: Annotated[int | None, Option(help="Only those made for this audit.")] = None,
    *,
    file: RowsFile,
    db: Db,
    terminal: Terminal,
) -> None:
    """List human decisions, oldest first, withdrawn ones too; files and --json have the texts beside them.

    Example: tagrpo neighbors reviews --run math-gpt4 --out reviews.jsonl
    """
    from rephraser.reviews.store import review_rows
    from rephraser.run.start import find_neighbor_run

    file.check()
    with db.reading() as session:
        run_id = None if run is None else find_neighbor_run(session, run).id
        _check_audit(session, audit)
        rows = list(review_rows(session, run_id, audit))
    file.write(rows)
    terminal.emit({"reviews": rows}, _print_reviews, rows)


REVIEW_COLUMNS = (
    "candidate",
    "decision",
    "reason",
    "reviewer",
    "audit",
    "created_at",
    "withdrawn_at",
    "counts",
)


def _print_reviews(rows: Sequence[dict[str, Any]]) -> None:
    cells = [
        [
            row["candidate"][: output.ID_SHOWN],
            *(row[name] for name in REVIEW_COLUMNS[1:-1]),
            "yes" if row["counts"] else "no",
        ]
        for row in rows
    ]
    headings = [name.replace("_at", "").replace("created", "when") for name in REVIEW_COLUMNS]
    output.table(headings, cells, empty="nobody has decided anything here")


def _record_one(
    database: "Database",
    reference: str,
    decision: Literal["accepted", "rejected"],
    reason: str,
    reviewer: str,
    audit_id: int | None,
    *,
    terminal: Terminal,
) -> None:
    from rephraser.reviews.store import Decision, find_candidate, record_reviews

    with database.write() as session:
        chosen = find_candidate(session, reference)
        _check_audit(session, audit_id)
        made = Decision(chosen.id, decision, reason.strip(), reviewer, audit_id)
        recorded = record_reviews(session, [made])
    _announce([made], recorded, blank=0, terminal=terminal)


def _withdraw_one(
    database: "Database", reference: str, reviewer: str, audit_id: int | None, *, terminal: Terminal
) -> None:
    from rephraser.reviews.store import Withdrawal, find_candidate, withdraw_review

    with database.write() as session:
        chosen = find_candidate(session, reference)
        _check_audit(session, audit_id)
        taken = withdraw_review(session, Withdrawal(chosen.id, reviewer, audit_id))
    if taken is None:
        where = "outside of audits (name one with --audit)" if audit_id is None else f"in audit {audit_id}"
        raise NotFoundError(f"{chosen.id}: {reviewer} has no decision {where} that could be withdrawn.")
    terminal.emit(asdict(taken), output.say, f"{chosen.id}: {taken.decision} by {reviewer} is withdrawn")


def _record_file(
    database: "Database", path: Path, reviewer: str, audit_id: int | None, *, terminal: Terminal
) -> None:
    from rephraser.reviews.sheet import read_sheet
    from rephraser.reviews.store import record_reviews

    with database.write() as session:
        _check_audit(session, audit_id)
        sheet = read_sheet(session, path, reviewer=reviewer, audit_id=audit_id)
        recorded = record_reviews(session, sheet.decisions)
    _announce(sheet.decisions, recorded, blank=sheet.blank, terminal=terminal)


def _check_audit(session: "Session", audit_id: int | None) -> None:
    from rephraser.reviews.audit import get_audit

    if audit_id is not None:
        get_audit(session, audit_id)


def _announce(decisions: Sequence["Decision"], recorded: int, *, blank: int, terminal: Terminal) -> None:
    known = len(decisions) - recorded
    record = {
        "recorded": recorded,
        "unchanged": known,
        "without_decision": blank,
        "decisions": [asdict(decision) for decision in decisions],
    }
    if len(decisions) == 1:
        [made] = decisions
        before = "; this was recorded before" if known else ""
        line = f"{made.candidate_id}: {made.decision} by {made.reviewer}{before}"
    else:
        line = f"{recorded:,} decisions recorded" + (f", {known:,} were recorded before" if known else "")
    terminal.emit(record, output.say, line, *([f"{blank:,} rows have no decision yet"] if blank else []))
