"""`tagrpo rephrase review`: human decisions, one, a file of them, or one after the other."""

import shlex
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

    from rephraser.reviews.sheet import Sheet


def review(
    candidate: Annotated[str | None, Argument(help="Id of a candidate, or its first characters.")] = None,
    accept: Annotated[bool, Option(help="Accept: the candidate asks the same problem.")] = False,
    reject: Annotated[
        bool, Option(help="Reject: it asks another problem. Give the reason with --reason.")
    ] = False,
    withdraw: Annotated[bool, Option(help="Withdraw your newest decision on this candidate.")] = False,
    reason: Annotated[str, Option(help="Reason; required for a rejection.", show_default=False)] = "",
    reviewer: Reviewer = None,
    audit: Annotated[int | None, Option(help="Audit that the decisions belong to.")] = None,
    sheet: Annotated[
        Path | None,
        Option(
            "--sheet",
            help="JSON Lines file with candidate, decision (accept or reject) and reason. All rows are "
            "recorded, or none.",
        ),
    ] = None,
    interactive: Annotated[bool, Option(help="Show one candidate at a time and ask for a decision.")] = False,
    run: Annotated[
        str | None, Option(help="Interactive: review candidates of this run; alternatively name an --audit.")
    ] = None,
    status: Annotated[
        Literal["accepted", "rejected", "undecided", "unverified"],
        Option(help="Interactive, with --run: only candidates with this status."),
    ] = "undecided",
    blind: Annotated[
        bool, Option(help="Interactive: hide verdict, strategy and model. Audits always do.")
    ] = False,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Record human decisions: on one candidate, from a file, or interactively.

    Reviews are stored permanently. The newest one overrides every verdict, in every run, until its reviewer
    withdraws it. Published sets stay unchanged: publish again to apply the decision.

    Interactive review stores each decision at once and skips candidates that the same reviewer has decided.
    You can stop at any time and continue with the same command.

    Example: tagrpo rephrase review c_3fa1 --reject --reason "asks for the area, not the side"

    Example: tagrpo rephrase review --sheet decisions.jsonl --reviewer ada

    Example: tagrpo rephrase review --run math-gpt4 --interactive --status undecided

    Example: tagrpo rephrase review --audit 1 --interactive
    """
    from rephraser.reviews.sheet import Sheet, read_sheet
    from rephraser.reviews.store import Decision, find_candidate

    if sum((candidate is not None, sheet is not None, interactive)) != 1:
        raise typer.BadParameter("name a candidate, or give --sheet FILE or --interactive")
    if candidate is not None and accept + reject + withdraw != 1:
        raise typer.BadParameter("give one of --accept, --reject and --withdraw")
    if candidate is None and (accept or reject or withdraw or reason):
        raise typer.BadParameter("--accept, --reject, --withdraw and --reason require a candidate")
    if withdraw and reason:
        raise typer.BadParameter("--withdraw takes no --reason")
    if not interactive and (run or blind or status != "undecided"):
        raise typer.BadParameter("--run, --status and --blind require --interactive")
    if interactive and audit is not None and (run or status != "undecided"):
        raise typer.BadParameter("an audit has its own candidates. Remove --run and --status")
    who = reviewer_name(reviewer)
    with db.open() as database:
        if interactive:
            reviewing.review_interactively(
                database, who, run=run, audit_id=audit, status=status, blind=blind, terminal=terminal
            )
            return
        with database.write() as session:
            _check_audit(session, audit)
            if candidate is not None and withdraw:
                record, lines = _withdraw(session, candidate, who, audit)
            elif candidate is not None:
                word: Literal["accepted", "rejected"] = "accepted" if accept else "rejected"
                chosen = find_candidate(session, candidate)
                decisions = (Decision(chosen.id, word, reason.strip(), who, audit),)
                record, lines = _record(session, Sheet(decisions, blank=0))
            elif sheet is not None:
                read = read_sheet(session, sheet, reviewer=who, audit_id=audit)
                record, lines = _record(session, read)
        terminal.emit(record, output.say, *lines)


def list_(
    run: Annotated[str | None, Option(help="Only decisions on this run's candidates.")] = None,
    audit: Annotated[int | None, Option(help="Only decisions made for this audit.")] = None,
    *,
    file: RowsFile,
    db: Db,
    terminal: Terminal,
) -> None:
    """List human decisions, oldest first, including withdrawn ones. Files and --json include the texts.

    Example: tagrpo rephrase reviews --run math-gpt4 --out reviews.jsonl
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
    output.table(headings, cells, empty="no decisions match")


def _withdraw(
    session: "Session", reference: str, reviewer: str, audit_id: int | None
) -> tuple[dict[str, Any], list[str]]:
    """Withdraw a decision; return what to say of it."""
    from rephraser.reviews.store import Withdrawal, find_candidate, withdraw_review

    chosen = find_candidate(session, reference)
    taken = withdraw_review(session, Withdrawal(chosen.id, reviewer, audit_id))
    if taken is None:
        where = "outside of audits (name one with --audit)" if audit_id is None else f"in audit {audit_id}"
        raise NotFoundError(f"{chosen.id}: {reviewer} has no decision {where} to withdraw.")
    return asdict(taken), [f"{chosen.id}: {taken.decision} by {reviewer} withdrawn"]


def _record(session: "Session", sheet: "Sheet") -> tuple[dict[str, Any], list[str]]:
    """Record decisions; return what to say of them."""
    from rephraser.reviews.store import record_reviews

    recorded = record_reviews(session, sheet.decisions)
    known = len(sheet.decisions) - recorded
    record = {
        "recorded": recorded,
        "unchanged": known,
        "without_decision": sheet.blank,
        "decisions": [asdict(decision) for decision in sheet.decisions],
    }
    if len(sheet.decisions) == 1:
        [made] = sheet.decisions
        before = "; this was already recorded" if known else ""
        line = f"{made.candidate_id}: {made.decision} by {made.reviewer}{before}"
    else:
        line = f"{recorded:,} decisions recorded" + (f", {known:,} already recorded" if known else "")
    return record, [line, *([f"{sheet.blank:,} rows have no decision yet"] if sheet.blank else [])]


def say_sheet(path: Path, rows: int) -> None:
    """Say how a sheet that was written comes back."""
    output.say(f"{rows:,} rows written to {path}; fill in decision and reason, then run")
    output.say(f"  tagrpo rephrase review --sheet {shlex.quote(str(path))}")


def _check_audit(session: "Session", audit_id: int | None) -> None:
    from rephraser.reviews.audit import get_audit

    if audit_id is not None:
        get_audit(session, audit_id)
