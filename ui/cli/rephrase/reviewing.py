"""`tagrpo rephrase review`: human decisions, one or a file of them."""

import shlex
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, BadParameter, Option

from service.errors import NotFoundError
from ui.cli.output import terminal
from ui.cli.settings import Reviewer, db, reviewer_name


def review(
    candidate: Annotated[str | None, Argument()] = None,
    accept: bool = False,
    reject: bool = False,
    withdraw: bool = False,
    reason: Annotated[str, Option(show_default=False)] = "",
    reviewer: Reviewer = None,
    audit: int | None = None,
    sheet: Annotated[Path | None, Option("--sheet")] = None,
) -> None:
    """Record human decisions: on one candidate, or those of a file.

    Reviews are stored permanently. The newest one overrides every verdict, in every run, until its reviewer
    withdraws it. Published sets stay unchanged: publish again to apply the decision.

    To review many candidates, use `tagrpo ui --review`, or a sheet from `tagrpo rephrase audit --out FILE`.

    Example: tagrpo rephrase review c_3fa1 --reject --reason "asks for the area, not the side"

    Example: tagrpo rephrase review --sheet decisions.jsonl --reviewer ada

    Args:
        candidate: Id of a candidate, or its first characters.
        accept: Accept: the candidate poses the same problem.
        reject: Reject: it poses another problem. Give the reason with --reason.
        withdraw: Withdraw your newest decision on this candidate.
        reason: Reason; required for a rejection.
        audit: Record the decisions in this audit.
        sheet: JSON Lines file with candidate, decision (accept or reject) and reason. All rows are recorded,
            or none.
    """
    if (candidate is None) == (sheet is None):
        raise BadParameter("name a candidate, or give --sheet FILE")
    if candidate is not None and accept + reject + withdraw != 1:
        raise BadParameter("give one of --accept, --reject and --withdraw")
    if candidate is None and (accept or reject or withdraw or reason):
        raise BadParameter("--accept, --reject, --withdraw and --reason require a candidate")
    if withdraw and reason:
        raise BadParameter("--withdraw takes no --reason")
    from rephraser.reviews.audit import get_audit
    from rephraser.reviews.sheet import Sheet, read_sheet
    from rephraser.reviews.store import Decision, Withdrawal, find_candidate, record_reviews, withdraw_review

    who = reviewer_name(reviewer)
    with db.writing() as session:
        if audit is not None:
            get_audit(session, audit)
        chosen = "" if candidate is None else find_candidate(session, candidate).id
        if withdraw:
            taken = withdraw_review(session, Withdrawal(chosen, who, audit))
            if taken is None:
                where = f"in audit {audit}" if audit else "outside of audits (name one with --audit)"
                raise NotFoundError(f"{chosen}: {who} has no decision {where} to withdraw.")
            record: dict[str, Any] = vars(taken)
        else:
            if sheet is not None:
                decided = read_sheet(session, sheet, reviewer=who, audit_id=audit)
            else:
                decision = Decision(chosen, "accepted" if accept else "rejected", reason.strip(), who, audit)
                decided = Sheet((decision,), blank=0)
            recorded = record_reviews(session, decided.decisions)
            record = {"recorded": recorded, "unchanged": len(decided.decisions) - recorded}
            record |= {"without_decision": decided.blank, "decisions": decided.decisions}
    terminal.show(record)


def sheet_lines(path: Path | None, rows: int | None) -> list[str]:
    """Say what to do with a sheet, if one was written."""
    if path is None or rows is None:
        return []
    command = f"  tagrpo rephrase review --sheet {shlex.quote(str(path))}"
    return [f"{rows:,} rows written to {path}; fill in decision and reason, then run", command]
