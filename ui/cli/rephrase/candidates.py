"""`tagrpo rephrase list`, `show` and `edit`: candidates with their verdicts and reviews."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, BadParameter, Option

from ui.cli import output
from ui.cli.output import Part, Table, Terminal, one_line
from ui.cli.settings import Db, Reviewer, resume_command, reviewer_name

if TYPE_CHECKING:
    from rephraser.views.candidates import Cost, Exchange, Proposal

CANDIDATE = Argument(help="Id of a candidate, or its first characters.")


def list_(
    run: str | None = None,
    status: Literal["accepted", "rejected", "undecided", "unverified", "pending"] | None = None,
    strategy: str | None = None,
    question: str | None = None,
    finding: str | None = None,
    limit: Annotated[int, Option(min=1)] = 20,
    after: str | None = None,
    reviews: bool = False,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """List the candidates of a run with their status, by question; or the human decisions.

    A review overrides the verdict; such a status is marked. --reviews lists decisions, oldest first,
    including withdrawn ones; --json adds the texts.

    Example: tagrpo rephrase list --run math-gpt4 --status rejected --finding number_missing

    Example: tagrpo rephrase list --reviews --run math-gpt4

    Args:
        run: Name or id of the run; optional if there is only one.
        status: Only candidates with this status; pending: not judged yet.
        strategy: Only candidates from this strategy.
        question: Only candidates of this question: its id or first characters.
        finding: Only candidates with this structural finding.
        limit: Candidates per page.
        after: Continue after this candidate.
        reviews: List human decisions, not candidates (with --run: those of one run).
    """
    from rephraser.run.start import choose_run
    from rephraser.views.candidates import CandidateFilters, page_run
    from service.questions.browsing import find_question

    if reviews:
        if status or strategy or question or finding or after:
            raise BadParameter("--reviews allows only --run")
        _list_reviews(run, db, terminal)
        return
    with db.reading() as session:
        chosen = choose_run(session, run)
        question_id = None if question is None else find_question(session, question).id
        filters = CandidateFilters(chosen.id, question_id, status, strategy, finding)
        cards, total, later = page_run(session, chosen, filters, limit=limit, after=after)
    terminal.rows(
        "candidates",
        [card.to_json() for card in cards],
        {
            "candidate": lambda row: row["candidate"][: output.ID_SHOWN],
            "question": lambda row: row["question_id"][: output.ID_SHOWN],
            "status": lambda row: f"{row['status'] or 'pending'}{' (review)' * row['reviewed']}",
            "strategy": "strategy",
            "text": lambda row: one_line(row["text"], HALF_SHOWN),
            "reason": lambda row: one_line(row["reason"], HALF_SHOWN),
        },
        empty=f"no {'more candidates' if total else 'candidate'} of {chosen.name} "
        f"{'match' if total else 'matches'}",
        run=chosen.name,
        total=total,
        after=later,
    )


def _list_reviews(run: str | None, db: Db, terminal: Terminal) -> None:
    from rephraser.reviews.store import review_rows
    from rephraser.run.start import find_neighbor_run

    with db.reading() as session:
        run_id = None if run is None else find_neighbor_run(session, run).id
        rows = list(review_rows(session, run_id))
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


def show(candidate: Annotated[str, CANDIDATE], raw: bool = False, *, db: Db, terminal: Terminal) -> None:
    """Show a candidate next to its original, with verdicts, evidence, provenance, cost and reviews.

    Example: tagrpo rephrase show c_3fa1 --raw

    Args:
        raw: Also show the prompt that produced it and the model's raw reply.
    """
    from rephraser.checks.wording import likeness
    from rephraser.reviews.store import find_candidate
    from rephraser.views.candidates import proposing_exchange, read_detail
    from service.questions.browsing import find_question
    from service.questions.images import name_images

    with db.reading() as session:
        stored = find_candidate(session, candidate)
        detail = read_detail(session, stored, find_question(session, stored.question_id))
        exchanges = [
            None if proposal.ask_id is None else proposing_exchange(session, proposal.ask_id)
            for proposal in detail.proposals
            if raw
        ]
    parts: list[Part] = [
        f"candidate {detail.candidate.id}",
        f"of question {detail.question.id}, gold answer: {detail.question.answer or '-'}",
        *_text("original", name_images(detail.question.text, detail.images)),
        *_text("candidate", name_images(detail.candidate.text, detail.images)),
        "",
        f"similarity of the wordings: {likeness(detail.question.text, detail.candidate.text):.2f}",
    ]
    for index, proposal in enumerate(detail.proposals):
        parts += _proposal_parts(proposal)
        parts += _exchange_parts(exchanges[index]) if exchanges else []
    if detail.answering.requests:
        parts += ["", f"answers to the candidate, in all runs: {_cost(detail.answering)}"]
    if detail.reviews:
        parts += ["", "reviews, oldest first; the last one that was not withdrawn counts"]
    for review in detail.reviews:
        audit = f", audit {review.audit_id}" if review.audit_id is not None else ""
        reason = f": {review.reason}" if review.reason else ""
        taken = f" (withdrawn {review.withdrawn_at})" if review.withdrawn_at is not None else ""
        parts.append(f"  {review.created_at}  {review.decision} by {review.reviewer}{audit}{reason}{taken}")
    terminal.emit(detail.to_json(exchanges), *parts)


def edit(
    candidate: Annotated[str, CANDIDATE],
    text: Annotated[str, Option()],
    run: str | None = None,
    reviewer: Reviewer = None,
    *,
    db: Db,
    terminal: Terminal,
) -> None:
    """Edit a candidate's text. This adds a new candidate linked to the old one, which stays unchanged.

    The structural checks run at once. If the run has a solver, `tagrpo resume` collects and judges answers as
    for any other candidate.

    Example: tagrpo rephrase edit c_3fa1 --text "How long is the side of a square of area 9?"

    Args:
        text: The edited text.
        run: Run that judges the new candidate; optional if only one run has the edited candidate.
    """
    from rephraser.reviews.mending import mend_candidate

    who = reviewer_name(reviewer)
    with db.writing() as session:
        edited, chosen = mend_candidate(session, candidate, text, reviewer=who, run=run)
    record = {
        "candidate": edited.candidate_id,
        "mended_from": edited.mended_from,
        "mended_by": edited.mended_by,
        "run": chosen.name,
        "status": edited.status,
        "reason": edited.reason,
        "final": edited.final,
    }
    terminal.emit(
        record,
        f"{edited.candidate_id}: edited from {edited.mended_from} by {edited.mended_by}",
        f"{edited.status}: {edited.reason}",
        None if edited.final else f"{resume_command(chosen.name)} collects and judges its answers",
    )


CLASS_SHOWN, HALF_SHOWN = 60, 50
"""Letters of a class of answers; of a text or reason that share a line."""


def _text(title: str, text: str) -> list[str]:
    return ["", f"--- {title} ---", text]


def _proposal_parts(proposal: "Proposal") -> Iterator[Part]:
    status = proposal.standing
    versions = {each["name"]: f" v{each['version']}" for each in proposal.run.spec["strategies"]}
    strategy = f"{status.strategy}{versions.get(status.strategy, '')} ({status.strategy_hash or 'no hash'})"
    yield from ("", f"--- run {proposal.run.name} ---")
    yield f"status: {status.status or 'pending'}{' by review' if status.reviewed else ''}"
    yield f"proposed by: {status.model}, strategy {strategy}, round {status.round}"
    if status.mended_from is not None:
        yield f"edited from {status.mended_from} by {status.mended_by}"
    if proposal.cost is not None:
        shared = f", for {proposal.siblings} candidates" if proposal.siblings > 1 else ""
        yield f"cost of proposing: {_cost(proposal.cost)}{shared}"
    for number, verdict in enumerate(proposal.verdicts, start=1):
        evidence = verdict.evidence
        more = "" if verdict.final else ", not final"
        yield from (
            "",
            f"verdict {number}: {verdict.status}{more}, {verdict.created_at}",
            f"  {verdict.reason}",
        )
        for finding in evidence.get("findings", []):
            yield f"  finding: {finding['name']} ({finding['severity']}): {finding['detail']}"
        if (premises := evidence.get("premises")) is not None:
            numbers = ", ".join(f"{len(premises[name])} {name}" for name in ("kept", "changed", "dropped"))
            yield f"  premises according to {premises['model']}: {numbers}"
        if "rule" in evidence:
            yield f"  rule: {evidence['rule']['rule']}"
        if "counts" in evidence:
            yield from _answer_parts(evidence, evidence["counts"])


def _cost(cost: "Cost") -> str:
    unpriced = f", plus {cost.unpriced} requests without a known price" if cost.unpriced else ""
    return (
        f"{cost.requests:,} requests, {cost.prompt_tokens:,} + {cost.completion_tokens:,} tokens, "
        f"${cost.usd:.4f}{unpriced}"
    )


def _answer_parts(evidence: Mapping[str, Any], counts: Mapping[str, Any]) -> Iterator[Part]:
    """Yield the answers to original and candidate, by class and by solver."""
    both = zip(counts["classes"], counts["original"], counts["candidate"], strict=True)
    rows: list[list[object]] = [
        [f"  {one_line(answer, CLASS_SHOWN)}", *numbers, "gold" if index == counts["gold"] else ""]
        for index, (answer, *numbers) in enumerate(both)
    ]
    for title, kind in (("no answer found", "unparsed"), ("comparison timed out", "unsettled")):
        of_both = [counts.get(f"original_{kind}"), counts.get(f"candidate_{kind}")]
        rows += [[f"  {title}", *of_both, ""]] if any(of_both) else []
    yield Table(["  answer", "original", "candidate", ""], rows)
    if counts.get("unknown_pairs"):
        yield f"  {counts['unknown_pairs']} pairs of answers could not be compared"
    yield (
        f"  overlap {evidence['overlap']}; most frequent new answer: {evidence['new_top']} times; most "
        f"frequent original answer: {evidence['original_top']} times"
    )
    for solver, drawn in evidence.get("by_solver", {}).items():
        drawn_to = f"{drawn['original']} answers to the original, {drawn['candidate']} to the candidate"
        yield f"  solver {solver}: {drawn_to}"


def _exchange_parts(exchange: "Exchange | None") -> Iterator[Part]:
    if exchange is None:
        yield from ("", "no model request produced this candidate")
        return
    for role, text in exchange.prompt:
        yield from _text(f"prompt, {role}", text)
    yield from _text("answer", "(none yet)" if exchange.text is None else exchange.text)
    if exchange.body is not None:
        yield from _text("raw answer", exchange.body)
