"""A question with its candidates side by side, and the evidence behind each verdict as values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select, tuple_
from sqlalchemy.orm import Session

from rephraser.run.read import read_choices
from rephraser.tables import CandidateRow, ProposalRow, ReviewRow, StandingRow, VerdictRow
from rephraser.verdict.successes import Successes, read_successes
from service.errors import NotFoundError
from service.runs.cells import read_bodies
from service.runs.tables import AnswerRow, CellRow, RunRow


@dataclass(frozen=True)
class AnswerClass:
    """Answers that are equal: how often the original and the candidate got one of them."""

    answer: str
    original: int
    candidate: int
    gold: bool


@dataclass(frozen=True)
class FoundFinding:
    """A finding of the structural checks."""

    name: str
    severity: str  # fatal or evidence
    detail: str


@dataclass(frozen=True)
class Evidence:
    """What stands behind a verdict; answer fields are empty or None where answers were not compared.

    Attributes:
        classes: the most frequent answers of both sides first.
        original_unparsed, candidate_unparsed: responses in which no answer was found.
        overlap: answers in common; new_top, original_top: see `rephraser.verdict.judge`.
        log_bayes_factor: in nats, positive for "same problem".
        solvers: ids of those who drew the answers.
        rule: name of the rule; asks_for_more: groups of findings that made it ask for more agreement.
        original_unsettled, candidate_unsettled: answers that could not be compared in time.
    """

    findings: tuple[FoundFinding, ...]
    classes: tuple[AnswerClass, ...]
    original_unparsed: int
    candidate_unparsed: int
    overlap: int | None
    new_top: int | None
    original_top: int | None
    log_bayes_factor: float | None
    solvers: tuple[str, ...]
    by_solver: dict[str, dict[str, int]]
    rule: str | None = None
    asks_for_more: tuple[str, ...] = ()
    original_unsettled: int = 0
    candidate_unsettled: int = 0


@dataclass(frozen=True)
class NeighborCard:
    """A proposal with its text, where it stands and why.

    Attributes:
        status: accepted, rejected, undecided, unverified or pending; the review's where there is one.
        verdict: what the run itself says; None while it has not judged.
        cell_id: of the request it came from (`rephraser.views.exchanges.proposing_exchange` shows prompt and
            answer); None for rules and files.
        usd, prompt_tokens, completion_tokens: of that request, which all its candidates share.
        reviewer, review_reason: of the newest review.
        likeness: of its wording to the question's, 0 to 1.
        successes: of the solvers on question and candidate; None where answers were not compared.
    """

    proposal_id: int
    candidate_id: str
    run_id: str
    run: str
    text: str
    proposer: str
    strategy: str
    model: str
    cell_id: int | None
    usd: float | None
    prompt_tokens: int | None
    completion_tokens: int | None
    status: str
    verdict: str | None
    posterior: float | None
    reason: str
    final: bool
    evidence: Evidence
    reviewer: str | None
    review_reason: str | None
    likeness: float
    successes: Successes | None


@dataclass(frozen=True)
class AnswerHeader:
    """An answer of a solver to a question or candidate; `read_answer_texts` gives the response."""

    id: int
    solver_id: str
    ordinal: int
    extracted: str | None
    finish_reason: str


def read_evidence(evidence: Mapping[str, Any]) -> Evidence:
    """Return stored evidence as values. Keys that are missing (an older version, no answers) stay empty."""
    counts = evidence.get("counts") or {}
    gold = counts.get("gold")
    classes = [
        AnswerClass(str(answer), original, candidate, place == gold)
        for place, (answer, original, candidate) in enumerate(
            zip(
                counts.get("classes", ()),
                counts.get("original", ()),
                counts.get("candidate", ()),
                strict=False,
            )
        )
    ]
    return Evidence(
        findings=tuple(
            FoundFinding(str(one.get("name")), str(one.get("severity")), str(one.get("detail")))
            for one in evidence.get("findings", ())
        ),
        classes=tuple(sorted(classes, key=lambda one: -(one.original + one.candidate))),
        original_unparsed=counts.get("original_unparsed", 0),
        candidate_unparsed=counts.get("candidate_unparsed", 0),
        overlap=evidence.get("overlap"),
        new_top=evidence.get("new_top"),
        original_top=evidence.get("original_top"),
        log_bayes_factor=evidence.get("log_bayes_factor"),
        solvers=tuple(evidence.get("solvers", ())),
        by_solver=dict(evidence.get("by_solver", {})),
        rule=(evidence.get("rule") or {}).get("rule"),
        asks_for_more=tuple(evidence.get("asks_for_more", ())),
        original_unsettled=counts.get("original_unsettled", 0),
        candidate_unsettled=counts.get("candidate_unsettled", 0),
    )


def page_neighbors(
    session: Session,
    question_id: str,
    *,
    run_id: str | None = None,
    status: str | None = None,
    strategy: str | None = None,
    after: int | None = None,
    limit: int = 25,
) -> list[NeighborCard]:
    """Return up to `limit` proposals to a question behind the proposal `after`, by run, then as proposed.

    Raises:
        NotFoundError: `after` is no proposal to the question.
    """
    order = (StandingRow.run_id, StandingRow.ordinal, StandingRow.proposal_id)
    query = _cards().where(StandingRow.question_id == question_id).order_by(*order).limit(limit)
    for column, value in (
        (StandingRow.run_id, run_id),
        (StandingRow.status, status),
        (StandingRow.strategy, strategy),
    ):
        if value is not None:
            query = query.where(column == value)
    if after is not None:
        place = session.execute(
            select(*order).where(StandingRow.proposal_id == after, StandingRow.question_id == question_id)
        ).one_or_none()
        if place is None:
            raise NotFoundError(f"{after} is no proposal to question {question_id}; go on after one that is.")
        query = query.where(tuple_(*order) > tuple(place))
    return [_card(row) for row in session.execute(query)]


def read_cards(session: Session, candidate_id: str) -> list[NeighborCard]:
    """Return a candidate as each run has it, with what stands behind its verdicts; empty where none has."""
    query = _cards().where(StandingRow.candidate_id == candidate_id).order_by(StandingRow.proposal_id)
    return [_card(row) for row in session.execute(query)]


def page_answers(
    session: Session, subject_id: str, solver_id: str, *, after: int = -1, limit: int = 50
) -> list[AnswerHeader]:
    """Return up to `limit` answers of a solver to a question or candidate behind the ordinal `after`."""
    rows = session.execute(
        select(
            AnswerRow.id, AnswerRow.solver_id, AnswerRow.ordinal, AnswerRow.extracted, AnswerRow.finish_reason
        )
        .where(
            AnswerRow.solver_id == solver_id, AnswerRow.subject_id == subject_id, AnswerRow.ordinal > after
        )
        .order_by(AnswerRow.ordinal)
        .limit(limit)
    )
    return [AnswerHeader(*row) for row in rows]


def read_answer_texts(session: Session, answer_ids: Sequence[int]) -> dict[int, str]:
    """Return the responses behind answers by id, as the model wrote them; unknown ids are left out."""
    rows = session.execute(
        select(AnswerRow.id, AnswerRow.cell_id, AnswerRow.choice).where(AnswerRow.id.in_(answer_ids))
    ).all()
    bodies = read_bodies(session, sorted({row.cell_id for row in rows}))
    choices = {cell_id: read_choices(body) for cell_id, body in bodies.items()}
    return {
        row.id: choices[row.cell_id][row.choice][0]
        for row in rows
        if row.choice < len(choices.get(row.cell_id, ()))
    }


def _cards() -> Any:
    return (
        select(
            StandingRow.proposal_id,
            StandingRow.candidate_id,
            StandingRow.run_id,
            RunRow.name.label("run"),
            CandidateRow.text,
            StandingRow.proposer,
            StandingRow.strategy,
            StandingRow.model,
            CellRow.id.label("cell_id"),
            CellRow.cost_usd,
            CellRow.prompt_tokens,
            CellRow.completion_tokens,
            StandingRow.status,
            VerdictRow.status.label("verdict"),
            VerdictRow.posterior,
            VerdictRow.reason,
            VerdictRow.final,
            VerdictRow.evidence,
            ReviewRow.reviewer,
            ReviewRow.reason.label("review_reason"),
            CandidateRow.likeness,
        )
        .join(RunRow, RunRow.id == StandingRow.run_id)
        .join(ProposalRow, ProposalRow.id == StandingRow.proposal_id)
        .outerjoin(CellRow, CellRow.id == ProposalRow.cell_id)
        .join(CandidateRow, CandidateRow.id == StandingRow.candidate_id)
        .outerjoin(VerdictRow, VerdictRow.id == StandingRow.verdict_id)
        .outerjoin(ReviewRow, ReviewRow.id == StandingRow.review_id)
    )


def _card(row: Any) -> NeighborCard:
    evidence = row.evidence or {}
    return NeighborCard(
        proposal_id=row.proposal_id,
        candidate_id=row.candidate_id,
        run_id=row.run_id,
        run=row.run,
        text=row.text,
        proposer=row.proposer,
        strategy=row.strategy,
        model=row.model,
        cell_id=row.cell_id,
        usd=row.cost_usd,
        prompt_tokens=row.prompt_tokens,
        completion_tokens=row.completion_tokens,
        status=row.status,
        verdict=row.verdict,
        posterior=row.posterior,
        reason=row.reason or "",
        final=bool(row.final) or row.reviewer is not None,
        evidence=read_evidence(evidence),
        reviewer=row.reviewer,
        review_reason=row.review_reason,
        likeness=row.likeness,
        successes=read_successes(evidence, ({"model": name} for name in evidence.get("by_solver", ()))),
    )
