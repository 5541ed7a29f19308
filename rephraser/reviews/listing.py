"""All human decisions with what they were about, as rows."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from rephraser.tables import CandidateRow, ReviewRow, ReviewWithdrawalRow, StandingRow
from service.questions.tables import QuestionRow


def review_rows(
    session: Session, run_id: str | None = None, audit_id: int | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the reviews of a run's candidates, of an audit, or all, oldest first, withdrawn ones too.

    `counts` says of the newest one of a candidate that was not withdrawn that it is what the candidate's
    status is now.
    """
    standing = (
        select(StandingRow.review_id)
        .where(StandingRow.candidate_id == ReviewRow.candidate_id)
        .limit(1)
        .scalar_subquery()
    )
    query = (
        select(ReviewRow, ReviewWithdrawalRow.created_at, standing, CandidateRow.text, QuestionRow)
        .join(CandidateRow, CandidateRow.id == ReviewRow.candidate_id)
        .join(QuestionRow, QuestionRow.id == CandidateRow.question_id)
        .outerjoin(ReviewWithdrawalRow, ReviewWithdrawalRow.review_id == ReviewRow.id)
        .order_by(ReviewRow.id)
    )
    if run_id is not None:
        of_run = select(StandingRow.candidate_id).where(StandingRow.run_id == run_id)
        query = query.where(ReviewRow.candidate_id.in_(of_run))
    if audit_id is not None:
        query = query.where(ReviewRow.audit_id == audit_id)
    for review, withdrawn_at, counting, text, question in session.execute(query):
        yield {
            "review": review.id,
            "candidate": review.candidate_id,
            "question": question.id,
            "decision": review.decision,
            "reason": review.reason,
            "reviewer": review.reviewer,
            "audit": review.audit_id,
            "created_at": review.created_at,
            "withdrawn_at": withdrawn_at,
            "counts": review.id == counting,
            "question_text": question.text,
            "answer": question.answer,
            "candidate_text": text,
        }
