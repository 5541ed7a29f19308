"""`tagrpo rephrase`: rephrasing runs, their candidates and verdicts, human decisions."""

import asyncio
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, BadParameter, Option

from rephraser.config import RephraseConfig, VerdictRule
from service.config.reading import Reading
from service.errors import NotFoundError
from ui.cli import output, settings
from ui.cli.configs import Verb
from ui.cli.lazy import lazy_imports
from ui.cli.output import plural, terminal
from ui.cli.runs import open_words, show_estimates
from ui.cli.settings import db, resume_command

with lazy_imports():
    from rephraser import candidates, verdict
    from rephraser.questions import store as question_store
    from rephraser.reviews import audit as audits
    from rephraser.reviews import sheet as sheets
    from rephraser.reviews import store as review_store
    from rephraser.run import execution, judge, spec
    from rephraser.views import candidates as views
    from rephraser.views import runs

FLAGS = "--name --solver --n --limit --max-usd"
Candidate = Annotated[str, Argument(help="Id of a candidate, or its first characters.")]
PROPOSER = "--model=proposer.model --base-url=proposer.base_url"


@Verb(RephraseConfig, "questions", f"{FLAGS} {PROPOSER}")
def run(config: RephraseConfig, *, dry_run: settings.DryRun = False) -> None:
    """Propose rephrasings of questions, check them, and compare answers if a solver is named.

    A solver answers the question and each rephrasing; tagrpo accepts a rephrasing if enough answers match.
    After an interruption or a spent budget, run the same command again, or `tagrpo resume NAME`.

    Example: tagrpo rephrase run math --name math-gpt4 --model gpt-4-turbo --solver hosted_vllm/Qwen/Qwen3-4B
    solver.base_url=http://localhost:8000/v1 --max-usd 50
    """
    with db.open() as database:
        if dry_run:
            expected = execution.estimate(config, database)
            show_estimates(expected.to_json(), [expected], config.max_usd)
            return
        with terminal.progress(config.name) as bar:
            done, outcome = asyncio.run(execution.rephrase(config, database, bar, output.note))
        with database.read() as session:
            summary = runs.summarize(session, done)
    output.end_if_interrupted(outcome.stopped)
    passed = "neighbors that passed the structural checks"
    kind = "accepted neighbors" if summary["compared_answers"] else passed
    terminal.show(
        {**summary, "stopped": outcome.stopped, "message": outcome.message},
        f"{summary['complete']:,} of {summary['questions']:,} questions have all {summary['wanted']} {kind}",
        *_next_steps(summary, ended=not outcome.stopped),
        hidden=("run_id", "questions", "complete", "wanted", "compared_answers"),
    )
    if problems := attention(summary, outcome.stopped, outcome.message):
        raise output.unfinished({outcome.stopped}, "; ".join(problems) + ".")


@Verb(RephraseConfig, "proposer.candidates", f"--questions {FLAGS}", chosen=("proposer=file",))
def import_(config: RephraseConfig, *, dry_run: settings.DryRun = False) -> None:
    """Start a run with rephrasings from a file or a Hub dataset, check them, and compare answers.

    The same as `tagrpo rephrase run QUESTIONS proposer=file proposer.candidates=FILE`.

    Example: tagrpo rephrase import candidates.jsonl --questions math --name theirs
    """
    run(config, dry_run=dry_run)


def _next_steps(summary: dict[str, Any], *, ended: bool) -> Iterator[str]:
    """Yield what a user can do next. `ended`: the run is complete, so resuming it sends no requests."""
    if summary["suspects"]:
        yield (
            f"{plural(summary['suspects'], 'question')} with a suspect gold answer that the solvers "
            f"contradict: `tagrpo questions list --suspects --run {summary['run']}`"
        )
    if summary["unreadable_questions"]:
        yield (
            f"{plural(summary['unreadable_questions'], 'question')} without enough readable answers: their "
            "candidates stay undecided. If solvers were cut off, raise solver.max_tokens."
        )
    if not summary["compared_answers"]:
        yield (
            "No answers were compared because no --solver was given, so these neighbors are unverified. "
            "Publish them with --include unverified, or start a run with --solver."
        )
    if ended and summary["unfinished"] and not (summary["open_questions"] or summary["failed_questions"]):
        yield (
            "This run is complete. To find more neighbors, start a run with another name and another model "
            "or strategy."
        )


def attention(summary: dict[str, Any], stopped: str | None = None, message: str | None = None) -> list[str]:
    """Say what of a run needs attention, with the way on."""
    problems = open_words(summary["run"], summary["open_questions"], summary["failed_questions"], {})
    if stopped:
        options = {"budget": ("max_usd=MORE",), "enough": ("stop_below=LESS",)}.get(stopped, ())
        way_on = f"continue with {resume_command(summary['run'], *options)}"
        if stopped == "settings":
            way_on = "a run's settings are fixed; start a run with other settings under another --name"
        problems = [f"stopped: {message or stopped}; {way_on}"]
    if failed := summary["final_questions"]:
        problems.append(
            f"{plural(failed, 'request')} failed permanently, and the questions continued without them; "
            f"{resume_command(summary['run'], 'retry_final=true')} retries"
        )
    return problems


def rejudge(run: settings.RunArgument, changes: settings.Words = None, dry_run: bool = False) -> None:
    """Judge a run's stored answers again with other thresholds. It sends no requests.

    KEY=VALUE sets accept, reject or looks, as in the table verdict of `tagrpo config rephrase`; looks must be
    among the run's. The new verdicts are added; published sets stay unchanged, and reviews still
    override verdicts. `tagrpo resume` continues with the run's own thresholds.

    Example: tagrpo rephrase rejudge math-gpt4 accept=11 --dry-run

    Args:
        dry_run: Show what would change; store nothing.
    """
    reading = Reading(VerdictRule)
    reading.add_words(changes or ())
    with db.open() as database:
        with database.read() as session:
            chosen = candidates.find_neighbor_run(session, run)
        rule = execution.make_rule(reading.build(), spec.RunSpec.from_json(chosen.spec).rule)
        rejudged = judge.judge_again(database, chosen, rule, dry_run=dry_run)
    terminal.show({"run": chosen.name, "rule": verdict.rule_spec(rule), "dry_run": dry_run, **rejudged})


def list_(
    run: str | None = None,
    status: Literal["accepted", "rejected", "undecided", "unverified", "pending"] | None = None,
    strategy: str | None = None,
    question: str | None = None,
    finding: str | None = None,
    limit: settings.Limit = 20,
    after: str | None = None,
    reviews: bool = False,
) -> None:
    """List the candidates of a run and their status, or the human decisions on them.

    Candidates are proposed rephrasings. A review overrides the verdict on a candidate.

    Example: tagrpo rephrase list --run math-gpt4 --status rejected --finding number_missing

    Args:
        run: Name or id of the run; optional if there is only one.
        status: Only candidates with this status; pending: not judged yet.
        strategy: Only candidates from this strategy.
        question: Only candidates of this question: its id or first characters.
        finding: Only candidates with this structural finding.
        after: Continue after this candidate.
        reviews: List the human decisions, including withdrawn ones; with --run, only those of one run.
    """
    if reviews:
        if status or strategy or question or finding or after:
            raise BadParameter("--reviews allows only --run")
        with db.reading() as session:
            run_id = None if run is None else candidates.find_neighbor_run(session, run).id
            rows = list(review_store.review_rows(session, run_id))
        columns = "candidate decision reason reviewer audit when=created_at withdrawn=withdrawn_at counts"
        terminal.rows("reviews", rows, columns, empty="no decisions match")
        return
    with db.reading() as session:
        chosen = candidates.find_neighbor_run(session, run)
        question_id = None if question is None else question_store.find_question(session, question).id
        filters = views.CandidateFilters(chosen.id, question_id, status, strategy, finding)
        cards, total, later = views.page_run(session, chosen, filters, limit=limit, after=after)
    name = chosen.name
    terminal.rows(
        "candidates",
        [views.standing_record(card) for card in cards],
        "candidate question=question_id status reviewed strategy text reason",
        empty=f"no more candidates of {name} match" if total else f"no candidates of {name} match",
        run=name,
        total=total,
        after=later,
    )


def show(candidate: Candidate, raw: bool = False) -> None:
    """Show a candidate next to its original, with verdicts, evidence, provenance, cost and reviews.

    Example: tagrpo rephrase show c_3fa1 --raw

    Args:
        raw: Also show the prompt that produced it and the model's raw reply.
    """
    with db.reading() as session:
        stored = candidates.find_candidate(session, candidate)
        question = question_store.find_question(session, stored.question_id)
        record = views.candidate_record(session, stored, question, raw=raw)
    terminal.show(record)


def edit(
    candidate: Candidate,
    text: Annotated[str, Option()],
    run: str | None = None,
    reviewer: settings.Reviewer = None,
) -> None:
    """Edit a candidate's text: add a new candidate that is linked to the old one.

    tagrpo checks the new text at once. If the run has a solver, `tagrpo resume` then compares answers.

    Example: tagrpo rephrase edit c_3fa1 --text "How long is the side of a square of area 9?"

    Args:
        text: The edited text.
        run: Run that judges the new candidate; optional if only one run has the edited candidate.
    """
    with db.writing() as session:
        who = settings.reviewer_name(reviewer)
        edited, chosen = candidates.mend_candidate(session, candidate, text, reviewer=who, run=run)
    names = ("mended_from", "mended_by", "status", "reason", "final")
    record = {"candidate": edited.candidate_id, "run": chosen.name}
    resume = f"{resume_command(chosen.name)} collects and judges its answers"
    terminal.show(record | {name: getattr(edited, name) for name in names}, None if edited.final else resume)


def review(
    candidate: Annotated[str | None, Argument()] = None,
    accept: bool = False,
    reject: bool = False,
    withdraw: bool = False,
    reason: Annotated[str, Option(show_default=False)] = "",
    reviewer: settings.Reviewer = None,
    audit: int | None = None,
    sheet: Path | None = None,
) -> None:
    """Record human decisions: on one candidate, or those of a file.

    The newest decision overrides every verdict, in every run, until its reviewer withdraws it. Publish again
    to apply it to a set. To review many candidates, use `tagrpo ui --review` or a sheet (audit --out).

    Example: tagrpo rephrase review c_3fa1 --reject --reason "asks for the area, not the side"

    Example: tagrpo rephrase review --sheet decisions.jsonl --reviewer ada

    Args:
        candidate: Id of a candidate, or its first characters.
        accept: Accept: the candidate poses the same problem.
        reject: Reject: it poses another problem. Give the reason with --reason.
        withdraw: Withdraw your newest decision on this candidate.
        reason: Reason; required for a rejection.
        audit: Record the decisions in this audit.
        sheet: JSON Lines file with candidate, decision (accept or reject) and reason.
    """
    if (candidate is None) == (sheet is None):
        raise BadParameter("name a candidate, or give --sheet FILE")
    if accept + reject + withdraw != (sheet is None):
        raise BadParameter("give one of --accept, --reject and --withdraw for a candidate, none with --sheet")
    if reason and not (accept or reject):
        raise BadParameter("--reason requires --accept or --reject")
    who = settings.reviewer_name(reviewer)
    with db.writing() as session:
        if audit is not None:
            audits.get_audit(session, audit)
        chosen = "" if candidate is None else candidates.find_candidate(session, candidate).id
        if withdraw:
            taken = review_store.withdraw_review(session, review_store.Withdrawal(chosen, who, audit))
            if taken is None:
                where = f"in audit {audit}" if audit else "outside of audits (name one with --audit)"
                raise NotFoundError(f"{chosen}: {who} has no decision {where} to withdraw.")
            record: dict[str, Any] = taken
        else:
            if sheet is not None:
                decisions, blank = sheets.read_sheet(session, sheet, reviewer=who, audit_id=audit)
            else:
                word: Literal["accepted", "rejected"] = "accepted" if accept else "rejected"
                decisions, blank = [review_store.Decision(chosen, word, reason.strip(), who, audit)], 0
            recorded = review_store.record_reviews(session, decisions)
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
    run: settings.OnlyRun = None,
    sample: Annotated[int, Option(min=4)] = 50,
    groups: bool = False,
    seed: int = 0,
    out: Path | None = None,
) -> None:
    """Draw a random sample for blind review, and report the error rates of the verdicts.

    The first call draws the sample; the same run, size and seed give the same audit. Review it in
    `tagrpo ui --review` or in a sheet (--out), then run this command again. False accepts are accepted
    candidates that reviewers rejected; false rejects are the reverse. Intervals are exact (95%).

    Exit code 3: some candidates of the audit have no decision yet.

    Example: tagrpo rephrase audit math-gpt4 --sample 50 --out sheet.jsonl

    Args:
        sample: Number of candidates to sample; with --groups, of questions.
        groups: Sample questions with all their accepted neighbors, to estimate how many training groups
            contain a wrong one.
        seed: Random seed of the sample.
        out: Write a blind sheet to this new JSON Lines file, for review --sheet.
    """
    with db.open() as database:
        with database.read() as session:
            chosen = candidates.find_neighbor_run(session, run)
        kind: Literal["groups", "candidates"] = "groups" if groups else "candidates"
        drawn, new = audits.open_audit(database, chosen, kind=kind, size=sample, seed=seed)
        with database.read() as session:
            rates = audits.audit_rates(session, drawn)
            exported = None if out is None else sheets.write_sheet(session, drawn, out)
    record = {**audits.audit_record(drawn, rates, new=new), "exported": exported}
    terminal.show(record, *sheet_lines(out, exported), hidden=("members",))
    if not rates["complete"]:
        raise output.needs_attention(
            f"audit {drawn.id} has {rates['open']:,} of {rates['drawn']:,} candidates without a decision. "
            "Review them in `tagrpo ui --review`, or in a sheet (--out FILE)."
        )
