"""The review queue: open candidates, their order, what reviewers see of them, and the progress."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from sqlalchemy import ColumnElement, Select, exists, func, select
from sqlalchemy.orm import Session

from rephraser.reviews.audit import Audit
from rephraser.reviews.store import counts
from rephraser.tables import CandidateRow, ReviewRow, StandingRow
from service.database import in_parts
from service.questions.tables import QuestionRow


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


def audit_queue(session: Session, audit: Audit, reviewer: str) -> list[str]:
    """Return the ids of the audit's candidates that this reviewer has not decided for it, in its order."""
    query = _decided_by(reviewer).where(ReviewRow.audit_id == audit.id)
    decided = set(session.scalars(query))
    return [member.candidate_id for member in audit.members if member.candidate_id not in decided]


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
    query = query.where(row.candidate_id.not_in(_decided_by(reviewer)))
    ids = list(session.scalars(query.order_by(row.question_id, row.ordinal)))
    if seed is None:
        return ids
    return sorted(ids, key=lambda id: blake2b(f"{seed}|{id}".encode(), digest_size=8).digest())


def _decided_by(reviewer: str) -> Select[str]:
    return select(ReviewRow.candidate_id).where(ReviewRow.reviewer == reviewer, counts())


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
    of_run = exists().where(StandingRow.candidate_id == ReviewRow.candidate_id, StandingRow.run_id == run_id)
    return _progress(session, session.scalar(total) or 0, reviewer, of_run)


def audit_progress(session: Session, audit_id: int, members: int, reviewer: str) -> ReviewProgress:
    """Return the numbers of the reviewer's decisions on an audit's members."""
    return _progress(session, members, reviewer, ReviewRow.audit_id == audit_id)


def read_decisions(
    session: Session, candidate_ids: Sequence[str], audit_id: int | None = None
) -> dict[str, dict[str, tuple[str, str]]]:
    """Return each reviewer's newest decision with its reason, by candidate; those of an audit if given."""
    of_audit = [] if audit_id is None else [ReviewRow.audit_id == audit_id]
    decisions: dict[str, dict[str, tuple[str, str]]] = {}
    for part in in_parts(candidate_ids):
        rows = session.execute(
            select(ReviewRow.candidate_id, ReviewRow.reviewer, ReviewRow.decision, ReviewRow.reason)
            .where(ReviewRow.candidate_id.in_(part), counts(), *of_audit)
            .order_by(ReviewRow.id)
        )
        for candidate_id, reviewer, decision, reason in rows:
            decisions.setdefault(candidate_id, {})[reviewer] = (decision, reason)
    return decisions


def _progress(session: Session, total: int, reviewer: str, which: ColumnElement[bool]) -> ReviewProgress:
    newest = select(func.max(ReviewRow.id)).where(ReviewRow.reviewer == reviewer, counts(), which)
    rows = session.execute(
        select(ReviewRow.decision, func.count())
        .where(ReviewRow.id.in_(newest.group_by(ReviewRow.candidate_id)))
        .group_by(ReviewRow.decision)
    )
    made = dict[str, int]((decision, number) for decision, number in rows)
    return ReviewProgress(total, made.get("accepted", 0), made.get("rejected", 0))
