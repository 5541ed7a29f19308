"""A candidate's current status: the newest verdict of a run, overridden by a review.

A withdrawn review does not count. Triggers keep the status in the table of standings.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.orm import Session

from rephraser.tables import ProposalRow, ReviewRow, StandingCountRow, StandingRow, VerdictRow

STATUSES = ("accepted", "undecided", "unverified", "rejected")
PENDING = "pending"
"""Status of candidates that their run has not judged yet."""


@dataclass(frozen=True)
class CandidateStatus:
    """A proposal of a run with its current status, the review's or else the verdict's.

    `status` is None until the run judges it. `final`: no more answers will be drawn. `mended_from` and
    `mended_by` are the origin of an edited candidate, and its editor.
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
    reason: str
    reviewed: bool
    final: bool
    mended_from: str | None = None
    mended_by: str | None = None


def status_query(run_id: str | None = None) -> Select[*tuple[Any, ...]]:
    """Return the query of proposals (of a run, or of all) with their status, by question and ordinal.

    Its columns have the names of the fields of `CandidateStatus`, so that callers can filter, count and page
    over `status_query(run_id).subquery()`. Reviews apply to the candidate in every run.
    """
    reviewed: ColumnElement[bool] = StandingRow.review_id.is_not(None)
    query = (
        select(
            StandingRow.question_id,
            StandingRow.candidate_id,
            ProposalRow.round,
            StandingRow.ordinal,
            StandingRow.proposer,
            StandingRow.strategy,
            StandingRow.strategy_hash,
            StandingRow.model,
            func.nullif(StandingRow.status, PENDING).label("status"),
            func.coalesce(ReviewRow.reason, VerdictRow.reason, "").label("reason"),
            reviewed.label("reviewed"),
            (reviewed | func.coalesce(VerdictRow.final, False)).label("final"),
            ProposalRow.mended_from,
            ProposalRow.mended_by,
        )
        .join(ProposalRow, ProposalRow.id == StandingRow.proposal_id)
        .outerjoin(VerdictRow, VerdictRow.id == StandingRow.verdict_id)
        .outerjoin(ReviewRow, ReviewRow.id == StandingRow.review_id)
        .order_by(StandingRow.question_id, StandingRow.ordinal)
    )
    return query if run_id is None else query.where(StandingRow.run_id == run_id)


def current_statuses(session: Session, run_id: str) -> list[CandidateStatus]:
    """Return the run's proposals with their current status, by question id and ordinal."""
    return [CandidateStatus(*row) for row in session.execute(status_query(run_id))]


def read_status(session: Session, run_id: str, candidate_id: str) -> CandidateStatus:
    """Return the status of a candidate that this run has proposed."""
    query = status_query(run_id).where(StandingRow.candidate_id == candidate_id)
    return CandidateStatus(*session.execute(query).one())


def standing_counts(session: Session, run_id: str | None = None) -> Sequence[StandingCountRow]:
    """Return the numbers of proposals by run, proposer, strategy, model and status; of one run or of all.

    Overviews and filters use the verdicts, strategies and models that occur.
    """
    query = select(StandingCountRow).where(StandingCountRow.candidates > 0)
    if run_id is not None:
        query = query.where(StandingCountRow.run_id == run_id)
    return session.scalars(query).all()
