"""The review queue: open candidates, their order, what reviewers see of them, and the progress."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from rephraser.reviews.audit import Audit
from rephraser.reviews.store import of_run, read_reviews
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
    decided = _decisions_by(session, reviewer, ReviewRow.audit_id == audit.id)
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
    decided = _decisions_by(session, reviewer)
    ids = [id for id in session.scalars(query.order_by(row.question_id, row.ordinal)) if id not in decided]
    if seed is None:
        return ids
    return sorted(ids, key=lambda id: blake2b(f"{seed}|{id}".encode(), digest_size=8).digest())


def _decisions_by(session: Session, reviewer: str, *conditions: ColumnElement[bool]) -> dict[str, str]:
    """Return a reviewer's newest decisions that meet the conditions, by candidate."""
    reviews = read_reviews(session, ReviewRow.reviewer == reviewer, *conditions)
    return {review.candidate_id: review.decision for review in reviews}


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
    made = list(_decisions_by(session, reviewer, of_run(run_id)).values())
    return ReviewProgress(session.scalar(total) or 0, made.count("accepted"), made.count("rejected"))


def audit_progress(session: Session, audit: Audit, reviewer: str) -> ReviewProgress:
    """Return the numbers of the reviewer's decisions on an audit's members."""
    made = list(_decisions_by(session, reviewer, ReviewRow.audit_id == audit.id).values())
    return ReviewProgress(len(audit.members), made.count("accepted"), made.count("rejected"))
