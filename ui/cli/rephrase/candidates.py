"""`tagrpo rephrase list`, `show` and `edit`: candidates with their verdicts and reviews."""

from typing import Annotated, Literal

from typer import Argument, BadParameter, Option

from ui.cli.output import terminal
from ui.cli.settings import Reviewer, db, resume_command, reviewer_name

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
) -> None:
    """List the candidates of a run with their status; or the human decisions.

    Candidates are proposed rephrasings. A review overrides the verdict on a candidate.

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
        reviews: List human decisions, also withdrawn ones; with --run those of one run.
    """
    from rephraser.run.store import choose_run
    from rephraser.views.candidates import CandidateFilters, page_run
    from service.questions.browsing import find_question

    if reviews:
        if status or strategy or question or finding or after:
            raise BadParameter("--reviews allows only --run")
        _list_reviews(run)
        return
    with db.reading() as session:
        chosen = choose_run(session, run)
        question_id = None if question is None else find_question(session, question).id
        filters = CandidateFilters(chosen.id, question_id, status, strategy, finding)
        cards, total, later = page_run(session, chosen, filters, limit=limit, after=after)
    terminal.rows(
        "candidates",
        [card.to_json() for card in cards],
        "candidate question=question_id status reviewed strategy text reason",
        empty=f"no {'more candidates' if total else 'candidate'} of {chosen.name} "
        f"{'match' if total else 'matches'}",
        run=chosen.name,
        total=total,
        after=later,
    )


def _list_reviews(run: str | None) -> None:
    from rephraser.reviews.store import review_rows
    from rephraser.run.store import find_neighbor_run

    with db.reading() as session:
        run_id = None if run is None else find_neighbor_run(session, run).id
        rows = list(review_rows(session, run_id))
    columns = "candidate decision reason reviewer audit when=created_at withdrawn=withdrawn_at counts"
    terminal.rows("reviews", rows, columns, empty="no decisions match")


def show(candidate: Annotated[str, CANDIDATE], raw: bool = False) -> None:
    """Show a candidate next to its original, with verdicts, evidence, provenance, cost and reviews.

    Example: tagrpo rephrase show c_3fa1 --raw

    Args:
        raw: Also show the prompt that produced it and the model's raw reply.
    """
    from rephraser.reviews.store import find_candidate
    from rephraser.views.candidates import candidate_record
    from service.questions.browsing import find_question

    with db.reading() as session:
        stored = find_candidate(session, candidate)
        question = find_question(session, stored.question_id)
        record = candidate_record(session, stored, question, raw=raw)
    terminal.show(record)


def edit(
    candidate: Annotated[str, CANDIDATE],
    text: Annotated[str, Option()],
    run: str | None = None,
    reviewer: Reviewer = None,
) -> None:
    """Edit a candidate's text: add a new candidate that is linked to the old one.

    tagrpo checks the new text at once. If the run has a solver, `tagrpo resume` then compares answers.

    Example: tagrpo rephrase edit c_3fa1 --text "How long is the side of a square of area 9?"

    Args:
        text: The edited text.
        run: Run that judges the new candidate; optional if only one run has the edited candidate.
    """
    from rephraser.reviews.mending import mend_candidate

    who = reviewer_name(reviewer)
    with db.writing() as session:
        edited, chosen = mend_candidate(session, candidate, text, reviewer=who, run=run)
    names = ("mended_from", "mended_by", "status", "reason", "final")
    record = {"candidate": edited.candidate_id, "run": chosen.name}
    record |= {name: getattr(edited, name) for name in names}
    resume = f"{resume_command(chosen.name)} collects and judges its answers"
    terminal.show(record, None if edited.final else resume)
