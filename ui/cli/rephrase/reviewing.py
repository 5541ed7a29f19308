"""`tagrpo rephrase review`, `audit` and `rejudge`: human decisions, error rates, other thresholds."""

import shlex
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, BadParameter, Option

from service.errors import NotFoundError
from ui.cli import exits
from ui.cli.output import terminal
from ui.cli.settings import OnlyRun, Reviewer, db, reviewer_name, split_words


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

    The newest decision overrides every verdict, in every run, until its reviewer withdraws it. Published sets
    stay unchanged: publish again to apply it. To review many candidates, use `tagrpo ui --review`, or a sheet
    from `tagrpo rephrase audit --out FILE`.

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
    from rephraser.reviews.sheet import read_sheet
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
                decisions, blank = read_sheet(session, sheet, reviewer=who, audit_id=audit)
            else:
                decision = Decision(chosen, "accepted" if accept else "rejected", reason.strip(), who, audit)
                decisions, blank = [decision], 0
            recorded = record_reviews(session, decisions)
            record = {"recorded": recorded, "unchanged": len(decisions) - recorded}
            record |= {"without_decision": blank, "decisions": decisions}
    terminal.show(record)


def sheet_lines(path: Path | None, rows: int | None) -> list[str]:
    """Say what to do with a sheet, if one was written."""
    if path is None or rows is None:
        return []
    command = f"  tagrpo rephrase review --sheet {shlex.quote(str(path))}"
    return [f"{rows:,} rows written to {path}; fill in decision and reason, then run", command]


def audit(
    run: OnlyRun = None,
    sample: Annotated[int, Option(min=4)] = 50,
    groups: bool = False,
    seed: int = 0,
    out: Path | None = None,
) -> None:
    """Draw a random sample for blind review, and report the error rates of the verdicts.

    The first call draws the sample; the same run, size and seed give the same audit. Review it in
    `tagrpo ui --review` or in a sheet (--out), then run this command again.

    False accepts: the verdict accepted the candidate, but reviewers rejected it; as a share of the reviewed
    accepted candidates. False rejects: the reverse. Intervals are exact (Clopper-Pearson, 95%).

    Exit code 3: some candidates of the audit have no decision yet.

    Example: tagrpo rephrase audit math-gpt4 --sample 50 --seed 7

    Example: tagrpo rephrase audit math-gpt4 --groups --seed 7 --out sheet.jsonl

    Args:
        sample: Number of candidates to sample; with --groups, of questions.
        groups: Sample questions with all their accepted neighbors, to measure how many training groups have
            a wrong one.
        seed: Random seed of the sample.
        out: Write a blind sheet to this new JSON Lines file, to fill in and record with review --sheet.
    """
    from rephraser.reviews.audit import audit_groups, audit_rates, audit_record, open_audit
    from rephraser.reviews.sheet import write_sheet
    from rephraser.run.store import choose_run

    with db.open() as database:
        with database.read() as session:
            chosen = choose_run(session, run)
        kind = "groups" if groups else "candidates"
        drawn, new = open_audit(database, chosen, kind=kind, size=sample, seed=seed)  # type: ignore[arg-type]
        with database.read() as session:
            rates, of_groups = audit_rates(session, drawn), audit_groups(session, drawn)
            exported = None if out is None else write_sheet(session, drawn, out)
    record = {**audit_record(drawn, rates, of_groups, new=new), "exported": exported}
    terminal.show(record, *sheet_lines(out, exported), hidden=("members",))
    if not rates["complete"]:
        raise exits.needs_attention(
            f"audit {drawn.id} has {rates['open']:,} of {rates['drawn']:,} candidates without a decision. "
            "Review them in `tagrpo ui --review`, or in a sheet (--out FILE)."
        )


def rejudge(
    words: Annotated[list[str], Argument(metavar="RUN [KEY=VALUE]...")], dry_run: bool = False
) -> None:
    """Judge a run's stored answers again with other thresholds. It sends no requests.

    KEY=VALUE sets accept, reject, question_samples or looks, as in the table verdict of
    `tagrpo config rephrase`. The new verdicts are added; published sets stay unchanged, and reviews still
    override verdicts. `tagrpo resume` continues with the run's own thresholds.

    Example: tagrpo rephrase rejudge math-gpt4 accept=11 --dry-run

    Args:
        words: Name or id of the run, then thresholds.
        dry_run: Show what would change; store nothing.
    """
    from evaluator.grading import Grader
    from rephraser.config import Verdict
    from rephraser.run.execution import make_rule
    from rephraser.run.rejudge import judge_again
    from rephraser.run.spec import RunSpec
    from rephraser.run.store import find_neighbor_run
    from rephraser.verdict import rule_spec
    from service.config import Reading

    name, changes = split_words("rephrase rejudge", words)
    reading = Reading(Verdict)
    reading.add_words(changes)
    thresholds = reading.build()
    with db.open() as database:
        with database.read() as session:
            run = find_neighbor_run(session, name)
        rule = make_rule(thresholds, RunSpec.from_json(run.spec).rule)
        with terminal.progress(run.name) as bar, Grader() as grader:
            report = partial(bar, "comparing answers")
            rejudged = judge_again(database, run, rule, grader, dry_run=dry_run, report=report)
    terminal.show({"run": run.name, "rule": rule_spec(rule), "dry_run": dry_run, **rejudged})
