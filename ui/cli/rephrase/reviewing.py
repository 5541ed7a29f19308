"""`tagrpo rephrase review`: human decisions, one, a file of them, or one after the other."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, BadParameter, Option

from service.errors import NotFoundError
from ui.cli import exits, output
from ui.cli.output import Terminal
from ui.cli.settings import Db, Reviewer, reviewer_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.database import Database

CHOICES = "[a]ccept, [r]eject, [s]kip, [q]uit: "


def review(
    candidate: Annotated[str | None, Argument()] = None,
    accept: bool = False,
    reject: bool = False,
    withdraw: bool = False,
    reason: Annotated[str, Option(show_default=False)] = "",
    reviewer: Reviewer = None,
    audit: int | None = None,
    sheet: Annotated[Path | None, Option("--sheet")] = None,
    interactive: bool = False,
    run: str | None = None,
    status: Literal["accepted", "rejected", "undecided", "unverified"] | None = None,
    blind: bool = False,
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

    Args:
        candidate: Id of a candidate, or its first characters.
        accept: Accept: the candidate poses the same problem.
        reject: Reject: it poses another problem. Give the reason with --reason.
        withdraw: Withdraw your newest decision on this candidate.
        reason: Reason; required for a rejection.
        audit: Record the decisions in this audit.
        sheet: JSON Lines file with candidate, decision (accept or reject) and reason. All rows are recorded,
            or none.
        interactive: Show one candidate at a time and ask for a decision.
        run: Interactive: review candidates of this run; alternatively name an --audit.
        status: Interactive: only candidates of the run with this status. Default: undecided.
        blind: Interactive: hide verdict, strategy and model. Audits always do.
    """
    if sum((candidate is not None, sheet is not None, interactive)) != 1:
        raise BadParameter("name a candidate, or give --sheet FILE or --interactive")
    if candidate is not None and accept + reject + withdraw != 1:
        raise BadParameter("give one of --accept, --reject and --withdraw")
    if candidate is None and (accept or reject or withdraw or reason):
        raise BadParameter("--accept, --reject, --withdraw and --reason require a candidate")
    if withdraw and reason:
        raise BadParameter("--withdraw takes no --reason")
    if not interactive and (run or blind or status):
        raise BadParameter("--run, --status and --blind require --interactive")
    if interactive and audit is not None and (run or status):
        raise BadParameter("an audit has its own candidates. Remove --run and --status")
    from rephraser.reviews.audit import get_audit
    from rephraser.reviews.sheet import Sheet, read_sheet
    from rephraser.reviews.store import Decision, Withdrawal, find_candidate, record_reviews, withdraw_review

    who = reviewer_name(reviewer)
    with db.open() as database:
        if interactive:
            _review_interactively(database, who, run, audit, status or "undecided", blind, terminal)
            return
        with database.write() as session:
            if audit is not None:
                get_audit(session, audit)
            if withdraw:
                chosen = find_candidate(session, str(candidate)).id
                taken = withdraw_review(session, Withdrawal(chosen, who, audit))
                if taken is None:
                    where = f"in audit {audit}" if audit else "outside of audits (name one with --audit)"
                    raise NotFoundError(f"{chosen}: {who} has no decision {where} to withdraw.")
                line = f"{chosen}: {taken.decision} by {who} withdrawn"
            elif candidate is not None:
                chosen, why = find_candidate(session, candidate).id, reason.strip()
                decision = Decision(chosen, "accepted" if accept else "rejected", why, who, audit)
                decided = Sheet((decision,), blank=0)
            else:
                assert sheet is not None
                decided = read_sheet(session, sheet, reviewer=who, audit_id=audit)
            recorded = 0 if withdraw else record_reviews(session, decided.decisions)
    if withdraw:
        terminal.emit(taken, line)
        return
    known = len(decided.decisions) - recorded
    line = f"{recorded:,} decisions recorded" + (f", {known:,} already recorded" if known else "")
    if len(decided.decisions) == 1:
        [made] = decided.decisions
        before = "; this was already recorded" if known else ""
        line = f"{made.candidate_id}: {made.decision} by {made.reviewer}{before}"
    record = {"recorded": recorded, "unchanged": known, "without_decision": decided.blank}
    blank = f"{decided.blank:,} rows have no decision yet" if decided.blank else None
    terminal.emit({**record, "decisions": decided.decisions}, line, blank)


def sheet_lines(path: Path | None, rows: int | None) -> list[str]:
    """Say what to do with a sheet, if one was written."""
    if path is None or rows is None:
        return []
    command = f"  tagrpo rephrase review --sheet {shlex.quote(str(path))}"
    return [f"{rows:,} rows written to {path}; fill in decision and reason, then run", command]


class _StopReviewing(Exception):
    """The reviewer quits, or the input ends."""


def _review_interactively(
    database: "Database",
    reviewer: str,
    run: str | None,
    audit_id: int | None,
    status: str,
    blind: bool,
    terminal: Terminal,
) -> None:
    """Ask for decisions on an audit's candidates, blind, or on those of a run with this status.

    Ends with the last candidate, at "q", at the end of the input and at Ctrl-C; what was decided until then
    is stored. With JSON texts and questions go to stderr and stdout gets the counts only.
    """
    from rephraser.reviews.audit import get_audit
    from rephraser.reviews.queue import audit_queue, open_queue
    from rephraser.reviews.store import Decision, record_reviews
    from rephraser.run.start import choose_run

    with database.read() as session:
        if audit_id is not None:
            audit = get_audit(session, audit_id)
            queue, run_id = audit_queue(session, audit, reviewer), None
            together, kind = (", grouped by question", " --groups") if audit.kind == "groups" else ("", "")
            what = f"audit {audit.id} of run {audit.run_name}{together}"
            report = f"tagrpo rephrase audit {audit.run_name}{kind} --sample {audit.size} --seed {audit.seed}"
        else:
            chosen = choose_run(session, run)
            queue, run_id = open_queue(session, chosen.id, reviewer, statuses=[status]), chosen.id
            what, report = f"{status} candidates of run {chosen.name}", ""
    say = output.note if terminal.as_json else output.say

    def ask(prompt: str) -> str:
        typer.echo(prompt, nl=False, err=terminal.as_json)
        try:
            return input().strip()
        except EOFError as error:
            raise _StopReviewing from error

    say(f"{what}: {len(queue):,} to review as {reviewer}")
    counts = {"accepted": 0, "rejected": 0, "skipped": 0}
    interrupted = False
    try:
        for number, candidate_id in enumerate(queue, start=1):
            say("")
            say(f"=== {number} of {len(queue)}: {candidate_id} ===")
            say(_item_text(database, candidate_id, None if blind else run_id))
            choice = _ask_decision(ask, say)
            if choice is None:
                counts["skipped"] += 1
                continue
            word, reason = choice
            with database.write() as session:
                record_reviews(session, [Decision(candidate_id, word, reason, reviewer, audit_id)])
            counts[word] += 1
    except _StopReviewing:
        say("")
    except KeyboardInterrupt:
        interrupted = True
        say("")
    left = len(queue) - counts["accepted"] - counts["rejected"]
    if terminal.as_json:
        terminal.emit({**counts, "left": left})
    say(", ".join(f"{count:,} {word}" for word, count in counts.items()) + f", {left:,} left to review")
    if report and not left:
        say(f"result of the audit: {report}")
    if interrupted:
        raise typer.Exit(exits.Code.INTERRUPTED)


def _item_text(database: "Database", candidate_id: str, run_id: str | None) -> str:
    """Return the texts of a candidate and its original, with its status in a run unless that is None."""
    from rephraser.reviews.queue import read_item
    from rephraser.reviews.status import read_status
    from service.questions.images import load_images, name_images

    with database.read() as session:
        item = read_item(session, candidate_id)
        headers = load_images(session, item.images)
        status = None if run_id is None else read_status(session, run_id, candidate_id)
    images = [headers[id] for id in item.images]
    lines = [
        f"--- original, gold answer {item.answer or '-'} ---",
        name_images(item.question, images),
        "--- candidate ---",
        name_images(item.candidate, images),
    ]
    if status is not None:
        lines.append(f"--- {status.status or 'pending'}; {status.model}, strategy {status.strategy} ---")
        lines += [status.reason] if status.reason else []
    return "\n".join(lines)


def _ask_decision(
    ask: "Callable[[str], str]", say: "Callable[[str], Any]"
) -> tuple[Literal["accepted", "rejected"], str] | None:
    """Return the decision and its reason, or None for a skipped candidate."""
    while True:
        choice = ask(CHOICES).lower()
        if choice in {"a", "accept"}:
            return "accepted", ask("reason (optional): ")
        if choice in {"r", "reject"}:
            reason = ask("reason (empty to choose again): ")
            if reason:
                return "rejected", reason
            say("a rejection needs a reason")
        elif choice in {"s", "skip"}:
            return None
        elif choice in {"q", "quit"}:
            raise _StopReviewing
