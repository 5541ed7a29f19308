"""`tagrpo neighbors review` and `audit`: human decisions, and the error rates they show."""

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from service.errors import InputError, NotFoundError
from ui.cli import output
from ui.cli.neighbors import audit_reports, reviewing
from ui.cli.output import DbOption, JsonOption

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from rephraser.reviews.store import Decision
    from service.database import Database


def review(
    candidate: Annotated[
        str | None, typer.Argument(help="Id of a candidate, or its beginning.", show_default=False)
    ] = None,
    accept: Annotated[bool, typer.Option("--accept", help="It asks the same problem.")] = False,
    reject: Annotated[bool, typer.Option("--reject", help="It does not; say why with --reason.")] = False,
    withdraw: Annotated[
        bool, typer.Option("--withdraw", help="Take your newest decision on it back.")
    ] = False,
    reason: Annotated[str, typer.Option(help="Why; needed to reject.", show_default=False)] = "",
    reviewer: Annotated[
        str | None,
        typer.Option(help="Who decides; else TAGRPO_REVIEWER, else the login name.", show_default=False),
    ] = None,
    audit: Annotated[
        int | None, typer.Option(help="The decisions belong to this audit.", show_default=False)
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="JSON Lines with candidate, decision (accept or reject) and reason; all or nothing.",
            show_default=False,
        ),
    ] = None,
    interactive: Annotated[
        bool, typer.Option("--interactive", help="Show one candidate after the other and ask.")
    ] = False,
    run: Annotated[
        str | None,
        typer.Option(help="Interactive: candidates of this run; or name an --audit.", show_default=False),
    ] = None,
    status: Annotated[
        Literal["accepted", "rejected", "undecided", "unverified"],
        typer.Option(help="Interactive, with --run: those with this status."),
    ] = "undecided",
    blind: Annotated[
        bool,
        typer.Option("--blind", help="Interactive: hide verdict, strategy and model (audits always do)."),
    ] = False,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Record a human decision on a candidate: one, a file of them, or one after the other.

    Reviews are kept for ever and never changed; the newest one counts, over every verdict and in every run,
    until its reviewer withdraws it. Published sets stay as they are: publish again to use the decision.

    Interactive reviewing stores each decision at once and leaves out what the same reviewer has decided, so
    it can be stopped at any time and continued by the same command.

    Example: [bold]tagrpo neighbors review c_3fa1 --reject --reason "asks for the area, not the side"[/bold]

    Example: [bold]tagrpo neighbors review --from decisions.jsonl --reviewer ada[/bold]

    Example: [bold]tagrpo neighbors review --run math-gpt4 --interactive --status undecided[/bold]

    Example: [bold]tagrpo neighbors review --audit 1 --interactive[/bold]
    """
    from service.database import Database, locate_database

    if sum((candidate is not None, from_file is not None, interactive)) != 1:
        raise typer.BadParameter("name a candidate, or give --from FILE, or --interactive")
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
    with Database.open(locate_database(db), create=False) as database:
        if candidate is not None and withdraw:
            _withdraw_one(database, candidate, who, audit, as_json=as_json)
        elif candidate is not None:
            decision: Literal["accepted", "rejected"] = "accepted" if accept else "rejected"
            _record_one(database, candidate, decision, reason, who, audit, as_json=as_json)
        elif from_file is not None:
            _record_file(database, from_file, who, audit, as_json=as_json)
        else:
            reviewing.review_interactively(
                database, who, run=run, audit_id=audit, status=status, blind=blind, as_json=as_json
            )


def reviewer_name(option: str | None) -> str:
    """Return the reviewer: the option, else TAGRPO_REVIEWER, else the login name."""
    name = option if option is not None else os.environ.get("TAGRPO_REVIEWER")
    if name is None:
        import getpass

        try:
            name = getpass.getuser()
        except (OSError, KeyError, ImportError) as error:
            raise InputError(
                "this login has no name; give one with --reviewer or TAGRPO_REVIEWER."
            ) from error
    if not name.strip():
        raise InputError("the reviewer's name is empty; give one with --reviewer or TAGRPO_REVIEWER.")
    return name.strip()


def _record_one(
    database: "Database",
    reference: str,
    decision: Literal["accepted", "rejected"],
    reason: str,
    reviewer: str,
    audit_id: int | None,
    *,
    as_json: bool,
) -> None:
    from rephraser.reviews.store import Decision, find_candidate, record_reviews

    with database.write() as session:
        found = find_candidate(session, reference)
        _check_audit(session, audit_id)
        made = Decision(found.id, decision, reason.strip(), reviewer, audit_id)
        recorded = record_reviews(session, [made])
    _announce([made], recorded, blank=0, as_json=as_json)


def _withdraw_one(
    database: "Database", reference: str, reviewer: str, audit_id: int | None, *, as_json: bool
) -> None:
    from rephraser.reviews.store import Withdrawal, find_candidate, withdraw_review

    with database.write() as session:
        found = find_candidate(session, reference)
        _check_audit(session, audit_id)
        taken = withdraw_review(session, Withdrawal(found.id, reviewer, audit_id))
    if taken is None:
        where = "outside of audits (name one with --audit)" if audit_id is None else f"in audit {audit_id}"
        raise NotFoundError(f"{found.id}: {reviewer} has no decision {where} that could be withdrawn.")
    if as_json:
        output.print_json(asdict(taken))
    else:
        output.say(f"{found.id}: {taken.decision} by {reviewer} is withdrawn")


def _record_file(
    database: "Database", path: Path, reviewer: str, audit_id: int | None, *, as_json: bool
) -> None:
    from rephraser.reviews.sheet import read_sheet
    from rephraser.reviews.store import record_reviews

    with database.write() as session:
        _check_audit(session, audit_id)
        sheet = read_sheet(session, path, reviewer=reviewer, audit_id=audit_id)
        recorded = record_reviews(session, sheet.decisions)
    _announce(sheet.decisions, recorded, blank=sheet.blank, as_json=as_json)


def _check_audit(session: "Session", audit_id: int | None) -> None:
    from rephraser.reviews.audit import get_audit

    if audit_id is not None:
        get_audit(session, audit_id)


def _announce(decisions: Sequence["Decision"], recorded: int, *, blank: int, as_json: bool) -> None:
    if as_json:
        output.print_json(
            {
                "recorded": recorded,
                "unchanged": len(decisions) - recorded,
                "without_decision": blank,
                "decisions": [asdict(decision) for decision in decisions],
            }
        )
        return
    if len(decisions) == 1:
        made = decisions[0]
        known = "" if recorded else "; this was recorded before"
        output.say(f"{made.candidate_id}: {made.decision} by {made.reviewer}{known}")
    else:
        known = f", {len(decisions) - recorded:,} were recorded before" if recorded < len(decisions) else ""
        output.say(f"{recorded:,} decisions recorded{known}")
    if blank:
        output.say(f"{blank:,} rows have no decision yet")


def audit(
    run: Annotated[
        str | None,
        typer.Argument(help="Name or id of a run; not needed where there is only one.", show_default=False),
    ] = None,
    sample: Annotated[int, typer.Option(min=4, help="Candidates to draw; with --groups questions.")] = 50,
    groups: Annotated[
        bool, typer.Option("--groups", help="Draw questions, each with all its accepted neighbors.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
    export: Annotated[
        Path | None,
        typer.Option(
            help="Write the blind sheet to this new JSON Lines file, to be filled in for review --from.",
            show_default=False,
        ),
    ] = None,
    db: DbOption = None,
    as_json: JsonOption = False,
) -> None:
    """Draw a stratified random sample for blind review, and report the verdict's error rates.

    The first call draws; the same run, sample and seed give the same audit ever after. Accepted, rejected and
    unverified candidates get equal places, undecided ones half as many; what a small group cannot use goes to
    the others. Review it with `tagrpo neighbors review --audit NUMBER --interactive`, then call this again.

    False accepts: accepted by the verdict, rejected by the reviewers, among the reviewed accepted ones. False
    rejects: the other way round. Intervals are exact (Clopper-Pearson, 95%).

    With --groups questions are drawn, each with all its accepted neighbors, one after the other: the share of
    questions with a broken neighbor among them is what training meets in a group.

    Exit code 1: some of its candidates have no decision yet.

    Example: [bold]tagrpo neighbors audit math-gpt4 --sample 50 --seed 7[/bold]

    Example: [bold]tagrpo neighbors audit math-gpt4 --sample 50 --seed 7 --export sheet.jsonl[/bold]

    Example: [bold]tagrpo neighbors audit math-gpt4 --groups --seed 7[/bold]
    """
    from rephraser.reviews.audit import audit_groups, audit_rates, open_audit
    from rephraser.reviews.sheet import write_sheet
    from rephraser.run.start import choose_run
    from service.database import Database, locate_database

    with Database.open(locate_database(db), create=False) as database:
        with database.read() as session:
            chosen = choose_run(session, run)
        drawn, new = open_audit(
            database, chosen, kind="groups" if groups else "candidates", size=sample, seed=seed
        )
        with database.read() as session:
            rates, of_groups = audit_rates(session, drawn), audit_groups(session, drawn)
            exported = None if export is None else write_sheet(session, drawn, export)
    if as_json:
        output.print_json(
            {**audit_reports.audit_json(drawn, rates, of_groups, new=new), "exported": exported}
        )
    else:
        audit_reports.print_audit(drawn, rates, of_groups, new=new)
        if export is not None:
            output.say(f"{exported:,} rows written to {export}; fill in decision and reason, then")
            output.say(f"  tagrpo neighbors review --from {export}")
    if not rates.complete:
        raise output.needs_attention(
            f"audit {drawn.id} has {rates.open:,} of {rates.drawn:,} candidates without a decision"
        )
