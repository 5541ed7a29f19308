"""Reviews in the database: append-only decisions, which reviewers may withdraw, and the open candidates."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from hashlib import blake2b
from typing import Any, Literal

from sqlalchemy import ColumnElement, func, insert, select
from sqlalchemy.orm import Session

from rephraser.candidates import update_standings
from rephraser.tables import (
    AuditMemberRow,
    CandidateRow,
    QuestionRow,
    ReviewRow,
    ReviewWithdrawalRow,
    StandingRow,
)
from service.database import in_parts, utc_now
from service.errors import InputError, NotFoundError

DecisionWord = Literal["accepted", "rejected"]


@dataclass(frozen=True)
class Decision:
    """A reviewer's decision on a candidate. A rejection needs a reason, an acceptance may have one."""

    candidate_id: str
    decision: DecisionWord
    reason: str
    reviewer: str
    audit_id: int | None = None

    def __post_init__(self) -> None:
        if not self.reviewer.strip():
            raise InputError("a review needs a reviewer name. Set --reviewer or TAGRPO_REVIEWER.")
        if self.decision == "rejected" and not self.reason.strip():
            raise InputError(f"{self.candidate_id}: a rejection needs a reason.")


@dataclass(frozen=True)
class Withdrawal:
    """A reviewer's withdrawal of their newest decision on a candidate, in an audit or outside of any."""

    candidate_id: str
    reviewer: str
    audit_id: int | None = None


@dataclass(frozen=True)
class ReviewItem:
    """The part of a candidate that every reviewer sees: neither its author nor its verdict."""

    candidate_id: str
    question: str
    answer: str
    candidate: str
    images: tuple[str, ...] = ()  # ids of the question and so of the candidate


@dataclass(frozen=True)
class ReviewProgress:
    """Numbers of a reviewer's newest decisions on the candidates of a run or an audit."""

    total: int
    accepted: int
    rejected: int

    @property
    def decided(self) -> int:
        return self.accepted + self.rejected


def read_reviews(session: Session, *conditions: ColumnElement[bool]) -> list[ReviewRow]:
    """Return the decisions that meet the conditions and were not withdrawn, oldest first."""
    counting = ReviewRow.id.not_in(select(ReviewWithdrawalRow.review_id))
    return list(session.scalars(select(ReviewRow).where(counting, *conditions).order_by(ReviewRow.id)))


def of_run(run_id: str) -> ColumnElement[bool]:
    """Return the condition that a decision is on a candidate of a run."""
    return ReviewRow.candidate_id.in_(select(StandingRow.candidate_id).where(StandingRow.run_id == run_id))


def decisions_by(session: Session, reviewer: str, *conditions: ColumnElement[bool]) -> dict[str, str]:
    """Return a reviewer's newest decisions that meet the conditions, by candidate."""
    reviews = read_reviews(session, ReviewRow.reviewer == reviewer, *conditions)
    return {review.candidate_id: review.decision for review in reviews}


def open_queue(
    session: Session,
    run_id: str,
    reviewer: str,
    *,
    statuses: Sequence[str] = ("undecided", "unverified", "accepted"),
    seed: int | None = None,
) -> list[str]:
    """Return the run's candidates with one of these statuses that the reviewer has not decided.

    With a seed, their order depends on it and each id alone, so that a returning reviewer sees the same queue
    whatever was added or decided.
    """
    row = StandingRow
    query = select(row.candidate_id).where(row.run_id == run_id, row.status.in_(statuses))
    decided = decisions_by(session, reviewer)
    ids = [id for id in session.scalars(query.order_by(row.question_id, row.ordinal)) if id not in decided]
    if seed is None:
        return ids
    return sorted(ids, key=lambda id: blake2b(f"{seed}|{id}".encode(), digest_size=8).digest())


def read_items(session: Session, candidate_ids: Sequence[str]) -> list[ReviewItem]:
    """Return what a reviewer sees of these candidates, in their order; unknown ids are left out."""
    items: dict[str, ReviewItem] = {}
    for part in in_parts(candidate_ids):
        question = QuestionRow
        rows = session.execute(
            select(CandidateRow.id, question.text, question.answer, CandidateRow.text, question.images)
            .join(question, question.id == CandidateRow.question_id)
            .where(CandidateRow.id.in_(part))
        )
        for id, asked, answer, text, images in rows:
            items[id] = ReviewItem(id, asked, answer, text, tuple(images or ()))
    return [items[id] for id in candidate_ids if id in items]


def run_progress(session: Session, run_id: str, reviewer: str) -> ReviewProgress:
    """Return the numbers of the reviewer's decisions on a run's candidates."""
    total = select(func.count()).where(StandingRow.run_id == run_id)
    made = list(decisions_by(session, reviewer, of_run(run_id)).values())
    return ReviewProgress(session.scalar(total) or 0, made.count("accepted"), made.count("rejected"))


def record_changes(session: Session, changes: Sequence[Decision | Withdrawal]) -> None:
    """Append decisions and withdrawals in their order, all or none; a needless withdrawal is no error."""
    for change in changes:
        if isinstance(change, Withdrawal):
            withdraw_review(session, change)
        else:
            record_reviews(session, [change])


def withdraw_review(session: Session, taken: Withdrawal) -> dict[str, Any] | None:
    """Withdraw a reviewer's newest decision on a candidate; return it, or None if there is none.

    It stays in the database, and the previous decision counts again.
    """
    made = read_reviews(session, *(getattr(ReviewRow, name) == value for name, value in vars(taken).items()))
    if not made:
        return None
    row, now = made[-1], utc_now()
    session.execute(insert(ReviewWithdrawalRow), [{"review_id": row.id, "created_at": now}])
    update_standings(session, [row.candidate_id])
    return _record(row, now)


def record_reviews(session: Session, decisions: Sequence[Decision]) -> int:
    """Append the decisions, all or none; return how many were new.

    If the decisions on a candidate start with its newest stored ones (same order, reviewers, reasons and
    audits), only the rest is stored, so that repeating a file changes nothing.
    """
    _check_members(session, decisions)
    given: dict[str, list[Decision]] = defaultdict(list)
    for decision in decisions:
        if given[decision.candidate_id][-1:] != [decision]:
            given[decision.candidate_id].append(decision)
    standing: dict[str, list[Decision]] = defaultdict(list)
    names = [field.name for field in fields(Decision)]
    for part in in_parts(list(given)):
        for row in read_reviews(session, ReviewRow.candidate_id.in_(part)):
            standing[row.candidate_id].append(Decision(**{name: getattr(row, name) for name in names}))
    fresh: list[Decision] = []
    for key, made in given.items():
        stored = standing[key]
        most = min(len(stored), len(made))
        known = next(size for size in range(most, -1, -1) if stored[len(stored) - size :] == made[:size])
        fresh += made[known:]
    if fresh:
        now = utc_now()
        session.execute(insert(ReviewRow), [{**vars(decision), "created_at": now} for decision in fresh])
        update_standings(session, list(given))
    return len(fresh)


def reviews_of(session: Session, candidate_id: str) -> list[dict[str, Any]]:
    """Return the reviews of a candidate, oldest first, including withdrawn ones."""
    query = (
        select(ReviewRow, ReviewWithdrawalRow.created_at)
        .outerjoin(ReviewWithdrawalRow, ReviewWithdrawalRow.review_id == ReviewRow.id)
        .where(ReviewRow.candidate_id == candidate_id)
        .order_by(ReviewRow.id)
    )
    return [_record(row, withdrawn_at) for row, withdrawn_at in session.execute(query)]


def review_rows(session: Session, run_id: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield the reviews of a run's candidates, or all, oldest first, including withdrawn ones.

    `counts` marks the newest review of a candidate that was not withdrawn: it decides the candidate's status.
    """
    standing = (
        select(StandingRow.review_id)
        .where(StandingRow.candidate_id == ReviewRow.candidate_id)
        .limit(1)
        .scalar_subquery()
    )
    query = (
        select(
            ReviewRow.id.label("review"),
            ReviewRow.candidate_id.label("candidate"),
            QuestionRow.id.label("question"),
            *(ReviewRow.decision, ReviewRow.reason, ReviewRow.reviewer, ReviewRow.audit_id.label("audit")),
            ReviewRow.created_at,
            ReviewWithdrawalRow.created_at.label("withdrawn_at"),
            func.coalesce(ReviewRow.id == standing, False).label("counts"),
            QuestionRow.text.label("question_text"),
            QuestionRow.answer,
            CandidateRow.text.label("candidate_text"),
        )
        .join(CandidateRow, CandidateRow.id == ReviewRow.candidate_id)
        .join(QuestionRow, QuestionRow.id == CandidateRow.question_id)
        .outerjoin(ReviewWithdrawalRow, ReviewWithdrawalRow.review_id == ReviewRow.id)
        .order_by(ReviewRow.id)
    )
    if run_id is not None:
        query = query.where(of_run(run_id))
    for row in session.execute(query):
        yield dict(row._mapping)


def _record(row: ReviewRow, withdrawn_at: str | None) -> dict[str, Any]:
    names = ("id", "candidate_id", "reviewer", "decision", "reason", "audit_id", "created_at")
    return {**{name: getattr(row, name) for name in names}, "withdrawn_at": withdrawn_at}


def _check_members(session: Session, decisions: Sequence[Decision]) -> None:
    for decision in decisions:
        in_audit = AuditMemberRow.audit_id == decision.audit_id
        of_candidate = AuditMemberRow.candidate_id == decision.candidate_id
        member = select(AuditMemberRow.position).where(in_audit, of_candidate)
        if decision.audit_id is not None and session.scalar(member) is None:
            raise NotFoundError(
                f"{decision.candidate_id} is not in audit {decision.audit_id}. Review it without --audit, "
                "or pass the number of its audit."
            )
