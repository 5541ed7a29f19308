"""`tagrpo rephrase list` and `show`: a page of candidates, all about one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from ui.cli import output
from ui.cli.output import Terminal
from ui.cli.settings import Db

if TYPE_CHECKING:
    from rephraser.reviews.store import Review
    from rephraser.views.candidates import Cost, Detail, Page, Proposal, StoredVerdict
    from rephraser.views.evidence import Exchange


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
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """List the candidates of a run with their status, by question.

    A review overrides the verdict; such a status is marked.

    Example: tagrpo rephrase list --run math-gpt4 --status rejected --finding number_missing
    """
    from rephraser.run.start import choose_run
    from rephraser.views.candidates import CandidateFilters, page_run
    from service.questions.browsing import find_question

    with db.reading() as session:
        chosen = choose_run(session, run)
        question_id = None if question is None else find_question(session, question).id
        filters = CandidateFilters(chosen.id, question_id, status, strategy, finding)
        page = page_run(session, chosen, filters, limit=limit, after=after)
    candidates = [card.to_json() for card in page.candidates]
    record = {"run": chosen.name, "total": page.total, "candidates": candidates, "after": page.after}
    terminal.emit(record, print_page, chosen.name, page)


def show(
    candidate: Annotated[str, Argument(help="Id of a candidate, or its first characters.")],
    raw: Annotated[
        bool, Option(help="Also show the prompt that produced it and the model's raw answer.")
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

    with db.open() as database, database.read() as session:
        stored = find_candidate(session, candidate)
        detail = read_detail(session, stored, find_question(session, stored.question_id))
        exchanges = [
            None if proposal.ask_id is None else proposing_exchange(session, proposal.ask_id)
            for proposal in detail.proposals
            if raw
        ]
    terminal.emit(detail.to_json(exchanges), print_detail, detail, exchanges)


CLASS_SHOWN, HALF_SHOWN = 60, 50
"""Letters of a class of answers; of a text or reason that share a line."""


def print_page(run_name: str, page: "Page") -> None:
    """Print candidates as a table, and how to go on."""
    if not page.candidates:
        output.say(
            f"no {'more candidates' if page.total else 'candidate'} of {run_name} "
            f"{'match' if page.total else 'matches'}"
        )
        return
    rows = []
    for card in page.candidates:
        standing = card.standing
        rows.append(
            [
                card.candidate_id[: output.ID_SHOWN],
                standing.question_id[: output.ID_SHOWN],
                f"{card.status} (review)" if standing.reviewed else card.status,
                standing.strategy,
                output.one_line(card.text, HALF_SHOWN),
                output.one_line(standing.reason, HALF_SHOWN),
            ]
        )
    output.table(["candidate", "question", "status", "strategy", "text", "reason"], rows)
    output.say_next(page.after, page.total)


def print_detail(detail: "Detail", exchanges: Sequence["Exchange | None"]) -> None:
    """Print all about a candidate."""
    from rephraser.checks.wording import likeness
    from service.questions.images import name_images

    output.say(f"candidate {detail.candidate.id}")
    output.say(f"of question {detail.question.id}, gold answer: {detail.question.answer or '-'}")
    _print_text("original", name_images(detail.question.text, detail.images))
    _print_text("candidate", name_images(detail.candidate.text, detail.images))
    output.say()
    output.say(f"similarity of the wordings: {likeness(detail.question.text, detail.candidate.text):.2f}")
    for index, proposal in enumerate(detail.proposals):
        _print_proposal(proposal)
        if exchanges:
            _print_exchange(exchanges[index])
    if detail.answering.requests:
        output.say()
        output.say(f"answers to the candidate, in all runs: {_cost(detail.answering)}")
    if detail.reviews:
        output.say()
        output.say("reviews, oldest first; the last one that was not withdrawn counts")
        for review in detail.reviews:
            output.say(f"  {_review(review)}")


def _review(review: "Review") -> str:
    audit = f", audit {review.audit_id}" if review.audit_id is not None else ""
    reason = f": {review.reason}" if review.reason else ""
    taken = f" (withdrawn {review.withdrawn_at})" if review.withdrawn_at is not None else ""
    return f"{review.created_at}  {review.decision} by {review.reviewer}{audit}{reason}{taken}"


def _print_text(title: str, text: str) -> None:
    output.say()
    output.say(f"--- {title} ---")
    output.say(text)


def _print_proposal(proposal: "Proposal") -> None:
    standing = proposal.standing
    output.say()
    output.say(f"--- run {proposal.run.name} ---")
    by_review = " by review" if standing.reviewed else ""
    output.say(f"status: {standing.status or 'pending'}{by_review}")
    version = next(
        (s["version"] for s in proposal.run.spec["strategies"] if s["name"] == standing.strategy), None
    )
    output.say(
        f"proposed by: {standing.model}, strategy {standing.strategy}"
        f"{f' v{version}' if version else ''} ({standing.strategy_hash or 'no hash'}), round {standing.round}"
    )
    if standing.mended_from is not None:
        output.say(f"edited from {standing.mended_from} by {standing.mended_by}")
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
    output.say()
    more = "" if verdict.final else ", not final"
    output.say(f"verdict {number}: {verdict.status}{more}, {verdict.created_at}")
    output.say(f"  {verdict.reason}")
    for finding in evidence.get("findings", []):
        output.say(f"  finding: {finding['name']} ({finding['severity']}): {finding['detail']}")
    if (premises := evidence.get("premises")) is not None:
        output.say(
            f"  premises according to {premises['model']}: {len(premises['kept'])} kept, "
            f"{len(premises['changed'])} changed, {len(premises['dropped'])} dropped"
        )
    if "rule" in evidence:
        output.say(f"  rule: {evidence['rule']['rule']}")
    if "counts" in evidence:
        _print_answers(evidence["counts"])
        parts = [
            f"overlap {evidence['overlap']}",
            f"largest new answer {evidence['new_top']}",
            f"original's largest {evidence['original_top']}",
        ]
        output.say("  " + ", ".join(parts))
        for solver, drawn in evidence.get("by_solver", {}).items():
            output.say(
                f"  solver {solver}: {drawn['original']} answers to the original, "
                f"{drawn['candidate']} to the candidate"
            )


def _print_answers(counts: dict[str, Any]) -> None:
    gold = counts["gold"]
    rows: list[list[object]] = [
        [output.one_line(answer, CLASS_SHOWN), original, candidate, "gold" if index == gold else ""]
        for index, (answer, original, candidate) in enumerate(
            zip(counts["classes"], counts["original"], counts["candidate"], strict=True)
        )
    ]
    if counts["original_unparsed"] or counts["candidate_unparsed"]:
        rows.append(["no answer found", counts["original_unparsed"], counts["candidate_unparsed"], ""])
    if counts.get("original_unsettled") or counts.get("candidate_unsettled"):
        rows.append(["comparison timed out", counts["original_unsettled"], counts["candidate_unsettled"], ""])
    output.table(["  answer", "original", "candidate", ""], [[f"  {row[0]}", *row[1:]] for row in rows])
    if counts.get("unknown_pairs"):
        output.say(f"  {counts['unknown_pairs']} pairs of answers could not be compared")


def _print_exchange(exchange: "Exchange | None") -> None:
    if exchange is None:
        output.say()
        output.say("no model request produced this candidate")
        return
    for role, text in exchange.prompt:
        _print_text(f"prompt, {role}", text)
    _print_text("answer", "(none yet)" if exchange.text is None else exchange.text)
    if exchange.body is not None:
        _print_text("raw answer", exchange.body)
