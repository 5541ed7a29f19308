"""Looking at candidates: a run page by page, and all that is known about one."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, func, or_, select
from sqlalchemy.orm import Session

from rephraser.checks import FINDINGS
from rephraser.reviews.status import CandidateStatus, read_status, status_query
from rephraser.reviews.store import Candidate, Review, find_candidate, reviews_of
from rephraser.run.spec import ANSWER
from rephraser.tables import CandidateFindingRow, CandidateRow, ProposalRow, VerdictRow
from service.errors import InputError
from service.questions.question import Question
from service.runs.store import Run, find_run
from service.runs.tables import CellRow, RunRow


@dataclass(frozen=True)
class Filters:
    """Which candidates of a run are wanted; None does not restrict.

    Attributes:
        status: accepted, rejected, undecided, unverified, or "pending" for those not judged yet.
        finding: name of a finding of the structural checks, in any verdict of the run.
    """

    status: str | None = None
    strategy: str | None = None
    question_id: str | None = None
    finding: str | None = None


@dataclass(frozen=True)
class Listed:
    """A candidate of a run with its status and text."""

    standing: CandidateStatus
    text: str


@dataclass(frozen=True)
class Page:
    """Some candidates in order; `after` is the id to go on from, None at the end."""

    candidates: tuple[Listed, ...]
    total: int  # candidates that pass the filters
    after: str | None


@dataclass(frozen=True)
class StoredVerdict:
    """A verdict as stored."""

    status: str
    posterior: float | None
    reason: str
    final: bool
    evidence: dict[str, Any]
    created_at: str


@dataclass(frozen=True)
class Cost:
    """Requests with their tokens; `usd` counts known prices only, `unpriced` says how many had none."""

    requests: int
    prompt_tokens: int
    completion_tokens: int
    usd: float
    unpriced: int


@dataclass(frozen=True)
class Proposal:
    """A candidate in one run: who proposed it, what the run says about it, what asking for it cost.

    Attributes:
        cell_id: of the request it came from; None for rules and files.
        siblings: candidates of the same request, itself included, which share its cost.
    """

    run: Run
    standing: CandidateStatus
    cell_id: int | None
    siblings: int
    cost: Cost | None
    verdicts: tuple[StoredVerdict, ...]


@dataclass(frozen=True)
class Detail:
    """All that is known about a candidate. `answering` is what drawing answers to it cost, in all runs."""

    candidate: Candidate
    created_at: str
    question: Question
    proposals: tuple[Proposal, ...]
    reviews: tuple[Review, ...]
    answering: Cost


def page(session: Session, run: Run, filters: Filters, *, limit: int, after: str | None = None) -> Page:
    """Return up to `limit` candidates of the run behind the candidate `after`, by question and ordinal.

    Raises:
        InputError: no such finding or strategy, or `after` is not of this run.
        NotFoundError: `after` is no candidate.
    """
    standing = status_query(run.id).subquery()
    columns = standing.c
    query = select(standing)
    if filters.status is not None:
        wanted = None if filters.status == "pending" else filters.status
        query = query.where(columns.status.is_(None) if wanted is None else columns.status == wanted)
    if filters.strategy is not None:
        _check_strategy(session, run, filters.strategy)
        query = query.where(columns.strategy == filters.strategy)
    if filters.question_id is not None:
        query = query.where(columns.question_id == filters.question_id)
    if filters.finding is not None:
        _check_finding(filters.finding)
        row = CandidateFindingRow
        having = select(row.candidate_id).where(row.run_id == run.id, row.name == filters.finding)
        query = query.where(columns.candidate_id.in_(having))
    total = session.scalar(select(func.count()).select_from(query.subquery())) or 0
    if after is not None:
        question_id, ordinal = _place(session, run, after)
        query = query.where(
            or_(
                columns.question_id > question_id,
                (columns.question_id == question_id) & (columns.ordinal > ordinal),
            )
        )
    with_text = query.add_columns(CandidateRow.text).join(
        CandidateRow, CandidateRow.id == columns.candidate_id
    )
    rows = session.execute(with_text.order_by(columns.question_id, columns.ordinal).limit(limit + 1)).all()
    listed = tuple(Listed(CandidateStatus(*row[:-1]), row[-1]) for row in rows[:limit])
    return Page(listed, total, listed[-1].standing.candidate_id if len(rows) > limit else None)


def read_detail(session: Session, candidate: Candidate, question: Question) -> Detail:
    """Return all that is known about a stored candidate of this question."""
    rows = session.execute(
        select(ProposalRow.run_id, ProposalRow.cell_id)
        .join(RunRow, RunRow.id == ProposalRow.run_id)
        .where(ProposalRow.candidate_id == candidate.id)
        .order_by(RunRow.created_at, ProposalRow.id)
    ).all()
    created_at = session.scalar(select(CandidateRow.created_at).where(CandidateRow.id == candidate.id))
    answering = select(CellRow.id).where(CellRow.kind == ANSWER, CellRow.subject_id == candidate.id)
    return Detail(
        candidate=candidate,
        created_at=str(created_at),
        question=question,
        proposals=tuple(_proposal(session, candidate, run_id, cell_id) for run_id, cell_id in rows),
        reviews=tuple(reviews_of(session, candidate.id)),
        answering=_cost(session, answering),
    )


def _proposal(session: Session, candidate: Candidate, run_id: str, cell_id: int | None) -> Proposal:
    verdicts = session.scalars(
        select(VerdictRow)
        .where(VerdictRow.run_id == run_id, VerdictRow.candidate_id == candidate.id)
        .order_by(VerdictRow.id)
    )
    of_cell = select(func.count()).select_from(ProposalRow).where(ProposalRow.cell_id == cell_id)
    return Proposal(
        run=find_run(session, run_id),
        standing=read_status(session, run_id, candidate.id),
        cell_id=cell_id,
        siblings=1 if cell_id is None else session.scalar(of_cell) or 1,
        cost=None if cell_id is None else _cost(session, select(CellRow.id).where(CellRow.id == cell_id)),
        verdicts=tuple(
            StoredVerdict(row.status, row.posterior, row.reason, row.final, row.evidence, row.created_at)
            for row in verdicts
        ),
    )


def _cost(session: Session, cell_ids: Select[int]) -> Cost:
    rows = session.execute(
        select(CellRow.attempts, CellRow.prompt_tokens, CellRow.completion_tokens, CellRow.cost_usd).where(
            CellRow.id.in_(cell_ids), CellRow.state != "empty"
        )
    ).all()
    return Cost(
        requests=sum(attempts or 0 for attempts, _, _, _ in rows),
        prompt_tokens=sum(tokens or 0 for _, tokens, _, _ in rows),
        completion_tokens=sum(tokens or 0 for _, _, tokens, _ in rows),
        usd=sum(usd or 0.0 for _, _, _, usd in rows),
        unpriced=sum(usd is None for _, _, _, usd in rows),
    )


def _place(session: Session, run: Run, after: str) -> tuple[str, int]:
    candidate = find_candidate(session, after)
    row = session.execute(
        select(ProposalRow.question_id, ProposalRow.ordinal).where(
            ProposalRow.run_id == run.id, ProposalRow.candidate_id == candidate.id
        )
    ).one_or_none()
    if row is None:
        raise InputError(f"{candidate.id} is not a candidate of run {run.name!r}; go on after one that is.")
    return row[0], row[1]


def _check_strategy(session: Session, run: Run, strategy: str) -> None:
    known = session.scalars(select(ProposalRow.strategy).where(ProposalRow.run_id == run.id).distinct()).all()
    if strategy not in known:
        names = ", ".join(sorted(known)) or "none, it has no candidates yet"
        raise InputError(f"run {run.name!r} has no candidates of strategy {strategy!r}; it has: {names}.")


def _check_finding(finding: str) -> None:
    if finding not in FINDINGS:
        from difflib import get_close_matches

        near = get_close_matches(finding, FINDINGS, n=4, cutoff=0.4) or list(FINDINGS)
        raise InputError(f"there is no finding {finding!r}; try: {', '.join(near)}.")
