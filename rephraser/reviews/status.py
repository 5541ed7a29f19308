"""The one answer to "where does this candidate stand?": newest verdict of a run, overridden by a review.

A review that was withdrawn counts no longer.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.orm import Session, aliased

from rephraser.tables import ProposalRow, ReviewRow, ReviewWithdrawalRow, VerdictRow

STATUSES = ("accepted", "undecided", "unverified", "rejected")


@dataclass(frozen=True)
class CandidateStatus:
    """A proposal of a run with its present status.

    Attributes:
        status: accepted, rejected, undecided or unverified; None while the run has not judged it.
        posterior: of "same problem", as the verdict stored it; None where answers were not compared.
        reason: of the review where there is one, else of the verdict; empty where there is neither.
        reviewed: a human decision stands behind the status.
        final: no more answers are to be drawn: a review, or a verdict that says so.
    """

    question_id: str
    candidate_id: str
    round: int
    ordinal: int
    proposer: str
    strategy: str
    strategy_hash: str
    model: str
    status: str | None
    posterior: float | None
    reason: str
    reviewed: bool
    final: bool


def status_query(run_id: str) -> Select[*tuple[Any, ...]]:
    """Return the query of a run's proposals with their status, ordered by question, round and ordinal.

    Its columns are named as the fields of `CandidateStatus`, so that callers can filter, count and page
    over `status_query(run_id).subquery()`. Reviews hold for the candidate in every run.
    """
    newest_verdict = (
        select(func.max(VerdictRow.id))
        .where(VerdictRow.run_id == run_id, VerdictRow.candidate_id == ProposalRow.candidate_id)
        .correlate(ProposalRow)
        .scalar_subquery()
    )
    newest_review = (
        select(func.max(ReviewRow.id))
        .where(
            ReviewRow.candidate_id == ProposalRow.candidate_id,
            ReviewRow.id.not_in(select(ReviewWithdrawalRow.review_id)),
        )
        .correlate(ProposalRow)
        .scalar_subquery()
    )
    verdict, review = aliased(VerdictRow), aliased(ReviewRow)
    reviewed: ColumnElement[bool] = review.id.is_not(None)
    return (
        select(
            ProposalRow.question_id,
            ProposalRow.candidate_id,
            ProposalRow.round,
            ProposalRow.ordinal,
            ProposalRow.proposer,
            ProposalRow.strategy,
            ProposalRow.strategy_hash,
            ProposalRow.model,
            func.coalesce(review.decision, verdict.status).label("status"),
            verdict.posterior,
            func.coalesce(review.reason, verdict.reason, "").label("reason"),
            reviewed.label("reviewed"),
            (reviewed | func.coalesce(verdict.final, False)).label("final"),
        )
        .select_from(ProposalRow)
        .outerjoin(verdict, verdict.id == newest_verdict)
        .outerjoin(review, review.id == newest_review)
        .where(ProposalRow.run_id == run_id)
        .order_by(ProposalRow.question_id, ProposalRow.round, ProposalRow.ordinal)
    )


def current_statuses(session: Session, run_id: str, question_id: str | None = None) -> list[CandidateStatus]:
    """Return the run's proposals (all, or those of one question) with their present status.

    Ordered by question id, round and ordinal. Empty where the run has proposed nothing.
    """
    query = status_query(run_id)
    if question_id is not None:
        query = query.where(ProposalRow.question_id == question_id)
    return [CandidateStatus(*row) for row in session.execute(query)]
