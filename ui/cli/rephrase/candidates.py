"""`tagrpo rephrase list`, `show` and `edit`: candidates with their verdicts and reviews."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, BadParameter, Option

from service.errors import InputError
from ui.cli import output
from ui.cli.files import RowsFile
from ui.cli.output import Terminal, one_line
from ui.cli.settings import Db, Reviewer, resume_command, reviewer_name

if TYPE_CHECKING:
    from rephraser.reviews.store import Review
    from rephraser.views.candidates import Cost, Detail, Proposal, StoredVerdict
    from rephraser.views.evidence import Exchange

CANDIDATE = Argument(help="Id of a candidate, or its first characters.")


def list_(
    run: Annotated[str | None, Option(help="Name or id of the run; optional if there is only one.")] = None,
    status: Annotated[
        Literal["accepted", "rejected", "undecided", "unverified", "pending"] | None,
        Option(help="Only candidates with this status; pending: not judged yet."),
    ] = None,
    strategy: Annotated[str | None, Option(help="Only candidates from this strategy.")] = None,
    question: Annotated[
        str | None, Option(help="Only candidates of this question: its id or first characters.")
    ] = None,
    finding: Annotated[str | None, Option(help="Only candidates with this structural finding.")] = None,
    limit: Annotated[int, Option(min=1, help="Candidates per page.")] = 20,
    after: Annotated[str | None, Option(help="Continue after this candidate.")] = None,
    reviews: Annotated[bool, Option(help="List human decisions, not candidates (--run: of a run).")] = False,
    out: Annotated[
        Path | None, Option(help="With --reviews: write all decisions to this .jsonl or .csv file.")
    ] = None,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """List the candidates of a run with their status, by question; or the human decisions.

    A review overrides the verdict; such a status is marked. --reviews lists decisions, oldest first,
    including withdrawn ones; --out and --json add the texts.

    Example: tagrpo rephrase list --run math-gpt4 --status rejected --finding number_missing

    Example: tagrpo rephrase list --reviews --run math-gpt4 --out reviews.jsonl
    """
    from rephraser.run.start import choose_run
    from rephraser.views.candidates import CandidateFilters, page_run
    from service.questions.browsing import find_question

    if reviews:
        if status or strategy or question or finding or after:
            raise BadParameter("--reviews takes --run and --out only")
        _list_reviews(run, RowsFile(out), db, terminal)
        return
    if out is not None:
        raise BadParameter("--out requires --reviews")
    with db.reading() as session:
        chosen = choose_run(session, run)
        question_id = None if question is None else find_question(session, question).id
        filters = CandidateFilters(chosen.id, question_id, status, strategy, finding)
        page = page_run(session, chosen, filters, limit=limit, after=after)
    terminal.rows(
        "candidates",
        [card.to_json() for card in page.candidates],
        {
            "candidate": lambda row: row["candidate"][: output.ID_SHOWN],
            "question": lambda row: row["question_id"][: output.ID_SHOWN],
            "status": lambda row: f"{row['status'] or 'pending'}{' (review)' * row['reviewed']}",
            "strategy": "strategy",
            "text": lambda row: one_line(row["text"], HALF_SHOWN),
            "reason": lambda row: one_line(row["reason"], HALF_SHOWN),
        },
        empty=f"no {'more candidates' if page.total else 'candidate'} of {chosen.name} "
        f"{'match' if page.total else 'matches'}",
        run=chosen.name,
        total=page.total,
        after=page.after,
    )
    terminal.say_next(page.after, page.total)


def _list_reviews(run: str | None, file: RowsFile, db: Db, terminal: Terminal) -> None:
    from rephraser.reviews.store import review_rows
    from rephraser.run.start import find_neighbor_run

    file.check()
    with db.reading() as session:
        run_id = None if run is None else find_neighbor_run(session, run).id
        rows = list(review_rows(session, run_id))
    file.write(rows)
    names = ("decision", "reason", "reviewer", "audit")
    terminal.rows(
        "reviews",
        rows,
        {
            "candidate": lambda row: row["candidate"][: output.ID_SHOWN],
            **{name: name for name in names},
            "when": "created_at",
            "withdrawn": "withdrawn_at",
            "counts": lambda row: "yes" if row["counts"] else "no",
        },
        empty="no decisions match",
    )


def show(
    candidate: Annotated[str, CANDIDATE],
    raw: Annotated[
        bool, Option(help="Also show the prompt that produced it and the model's raw reply.")
    ] = False,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Show a candidate next to its original, with verdicts, evidence, provenance, cost and reviews.

    Example: tagrpo rephrase show c_3fa1 --raw
    """
    from rephraser.reviews.store import find_candidate
    from rephraser.views.candidates import read_detail
    from rephraser.views.evidence import proposing_exchange
    from service.questions.browsing import find_question

    with db.reading() as session:
        stored = find_candidate(session, candidate)
        detail = read_detail(session, stored, find_question(session, stored.question_id))
        exchanges = [
            None if proposal.ask_id is None else proposing_exchange(session, proposal.ask_id)
            for proposal in detail.proposals
            if raw
        ]
    terminal.emit(detail.to_json(exchanges), _print_detail, detail, exchanges)


def edit(
    candidate: Annotated[str, CANDIDATE],
    text: Annotated[str | None, Option(help="The edited text.")] = None,
    text_file: Annotated[Path | None, Option(help="Read the edited text from a file; - reads stdin.")] = None,
    run: Annotated[
        str | None,
        Option(help="Run that judges the new candidate; optional if only one run has the edited candidate."),
    ] = None,
    reviewer: Reviewer = None,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Edit a candidate's text. This adds a new candidate linked to the old one, which stays unchanged.

    The structural checks run at once. If the run has a solver, `tagrpo resume` collects and judges answers as
    for any other candidate.

    Example: tagrpo rephrase edit c_3fa1 --text "How long is the side of a square of area 9?"
    """
    from rephraser.reviews.mending import mend_candidate
    from rephraser.reviews.status import read_status

    if (text is None) == (text_file is None):
        raise BadParameter("give the edited text with --text, or a file with --text-file")
    if text_file is not None:
        try:
            text = sys.stdin.read() if text_file == Path("-") else text_file.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{text_file}: not UTF-8 text ({error}).") from error
    who = reviewer_name(reviewer)
    with db.writing() as session:
        edited = mend_candidate(session, candidate, str(text), reviewer=who, run=run)
        status = read_status(session, edited.run.id, edited.candidate_id)
    record = {
        "candidate": edited.candidate_id,
        "mended_from": edited.origin_id,
        "mended_by": status.mended_by,
        "run": edited.run.name,
        "status": status.status,
        "reason": status.reason,
        "final": status.final,
    }
    lines = [
        f"{edited.candidate_id}: edited from {edited.origin_id} by {status.mended_by}",
        f"{status.status}: {status.reason}",
    ]
    if not status.final:
        lines.append(f"{resume_command(edited.run.name)} collects and judges its answers")
    terminal.emit(record, output.say, *lines)


CLASS_SHOWN, HALF_SHOWN = 60, 50
"""Letters of a class of answers; of a text or reason that share a line."""


def _print_detail(detail: "Detail", exchanges: "list[Exchange | None]") -> None:
    from rephraser.checks.wording import likeness
    from service.questions.images import name_images

    output.say(
        f"candidate {detail.candidate.id}",
        f"of question {detail.question.id}, gold answer: {detail.question.answer or '-'}",
    )
    _print_text("original", name_images(detail.question.text, detail.images))
    _print_text("candidate", name_images(detail.candidate.text, detail.images))
    output.say("", f"similarity of the wordings: {likeness(detail.question.text, detail.candidate.text):.2f}")
    for index, proposal in enumerate(detail.proposals):
        _print_proposal(proposal)
        if exchanges:
            _print_exchange(exchanges[index])
    if detail.answering.requests:
        output.say("", f"answers to the candidate, in all runs: {_cost(detail.answering)}")
    if detail.reviews:
        output.say("", "reviews, oldest first; the last one that was not withdrawn counts")
        output.say(*(f"  {_review(review)}" for review in detail.reviews))


def _review(review: "Review") -> str:
    audit = f", audit {review.audit_id}" if review.audit_id is not None else ""
    reason = f": {review.reason}" if review.reason else ""
    taken = f" (withdrawn {review.withdrawn_at})" if review.withdrawn_at is not None else ""
    return f"{review.created_at}  {review.decision} by {review.reviewer}{audit}{reason}{taken}"


def _print_text(title: str, text: str) -> None:
    output.say("", f"--- {title} ---", text)


def _print_proposal(proposal: "Proposal") -> None:
    status = proposal.standing
    versions = {each["name"]: f" v{each['version']}" for each in proposal.run.spec["strategies"]}
    output.say(
        "",
        f"--- run {proposal.run.name} ---",
        f"status: {status.status or 'pending'}{' by review' if status.reviewed else ''}",
        f"proposed by: {status.model}, strategy {status.strategy}{versions.get(status.strategy, '')} "
        f"({status.strategy_hash or 'no hash'}), round {status.round}",
    )
    if status.mended_from is not None:
        output.say(f"edited from {status.mended_from} by {status.mended_by}")
    if proposal.cost is not None:
        shared = f", for {proposal.siblings} candidates" if proposal.siblings > 1 else ""
        output.say(f"cost of proposing: {_cost(proposal.cost)}{shared}")
    for number, verdict in enumerate(proposal.verdicts, start=1):
        _print_verdict(number, verdict)


def _cost(cost: "Cost") -> str:
    unpriced = f", plus {cost.unpriced} requests without a known price" if cost.unpriced else ""
    return (
        f"{cost.requests:,} requests, {cost.prompt_tokens:,} + {cost.completion_tokens:,} tokens, "
        f"${cost.usd:.4f}{unpriced}"
    )


def _print_verdict(number: int, verdict: "StoredVerdict") -> None:
    evidence = verdict.evidence
    more = "" if verdict.final else ", not final"
    lines = [f"verdict {number}: {verdict.status}{more}, {verdict.created_at}", f"  {verdict.reason}"]
    for finding in evidence.get("findings", []):
        lines.append(f"  finding: {finding['name']} ({finding['severity']}): {finding['detail']}")
    if (premises := evidence.get("premises")) is not None:
        numbers = ", ".join(f"{len(premises[name])} {name}" for name in ("kept", "changed", "dropped"))
        lines.append(f"  premises according to {premises['model']}: {numbers}")
    if "rule" in evidence:
        lines.append(f"  rule: {evidence['rule']['rule']}")
    output.say("", *lines)
    if "counts" in evidence:
        _print_answers(evidence["counts"])
        output.say(
            f"  overlap {evidence['overlap']}; most frequent new answer: {evidence['new_top']} times; most "
            f"frequent original answer: {evidence['original_top']} times",
        )
        for solver, drawn in evidence.get("by_solver", {}).items():
            drawn_to = f"{drawn['original']} answers to the original, {drawn['candidate']} to the candidate"
            output.say(f"  solver {solver}: {drawn_to}")


def _print_answers(counts: dict[str, Any]) -> None:
    rows = [
        [one_line(answer, CLASS_SHOWN), original, candidate, "gold" if index == counts["gold"] else ""]
        for index, (answer, original, candidate) in enumerate(
            zip(counts["classes"], counts["original"], counts["candidate"], strict=True)
        )
    ]
    for title, kind in (("no answer found", "unparsed"), ("comparison timed out", "unsettled")):
        of_both = [counts.get(f"original_{kind}"), counts.get(f"candidate_{kind}")]
        if any(of_both):
            rows.append([title, *of_both, ""])
    output.table(["  answer", "original", "candidate", ""], [[f"  {row[0]}", *row[1:]] for row in rows])
    if counts.get("unknown_pairs"):
        output.say(f"  {counts['unknown_pairs']} pairs of answers could not be compared")


def _print_exchange(exchange: "Exchange | None") -> None:
    if exchange is None:
        output.say("", "no model request produced this candidate")
        return
    for role, text in exchange.prompt:
        _print_text(f"prompt, {role}", text)
    _print_text("answer", "(none yet)" if exchange.text is None else exchange.text)
    if exchange.body is not None:
        _print_text("raw answer", exchange.body)
