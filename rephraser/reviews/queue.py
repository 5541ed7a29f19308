"""What a reviewer has still to look at, and what is shown of it."""

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from rephraser.reviews.audit import Audit
from rephraser.reviews.status import status_query
from rephraser.reviews.store import counts
from rephraser.tables import CandidateRow, ReviewRow
from service.questions.tables import QuestionRow
from service.runs.store import Run


@dataclass(frozen=True)
class ReviewItem:
    """What every reviewer sees of a candidate: nothing about who made it or what the verdict says."""

    candidate_id: str
    question: str
    answer: str
    candidate: str


@dataclass(frozen=True)
class Provenance:
    """What a blind reviewer must not see."""

    status: str | None
    reason: str
    strategy: str
    model: str


def audit_queue(session: Session, audit: Audit, reviewer: str) -> list[str]:
    """Return the ids of the audit's candidates that this reviewer has not decided for it, in its order."""
    done = set(
        session.scalars(
            select(ReviewRow.candidate_id).where(
                ReviewRow.audit_id == audit.id, ReviewRow.reviewer == reviewer, counts()
            )
        )
    )
    return [member.candidate_id for member in audit.members if member.candidate_id not in done]


def run_queue(session: Session, run: Run, reviewer: str, status: str) -> list[str]:
    """Return the ids of the run's candidates with this status that this reviewer has not decided."""
    done = select(ReviewRow.candidate_id).where(ReviewRow.reviewer == reviewer, counts())
    standing = status_query(run.id).subquery()
    return list(
        session.scalars(
            select(standing.c.candidate_id)
            .where(standing.c.status == status, standing.c.candidate_id.not_in(done))
            .order_by(standing.c.question_id, standing.c.ordinal)
        )
    )


def read_item(session: Session, candidate_id: str) -> ReviewItem:
    """Return the texts of a candidate that is in the database."""
    row = session.execute(
        select(CandidateRow.id, QuestionRow.text, QuestionRow.answer, CandidateRow.text)
        .join(QuestionRow, QuestionRow.id == CandidateRow.question_id)
        .where(CandidateRow.id == candidate_id)
    ).one()
    return ReviewItem(*row)


def read_provenance(session: Session, run: Run, candidate_id: str) -> Provenance:
    """Return where a candidate of this run stands and who proposed it."""
    standing = status_query(run.id).subquery()
    columns = standing.c
    row = session.execute(
        select(columns.status, columns.reason, columns.strategy, columns.model).where(
            columns.candidate_id == candidate_id
        )
    ).one()
    return Provenance(*row)
