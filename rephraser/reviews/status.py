"""A candidate's current status: the newest verdict of a run, overridden by a review.

A withdrawn review does not count. `update_standings` keeps the status in the table of standings.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from sqlalchemy import ColumnElement, Select, Table, func, select
from sqlalchemy.orm import Session, aliased

from rephraser.tables import (
    CandidateFindingRow,
    CandidateRow,
    ProposalRow,
    ReviewRow,
    ReviewWithdrawalRow,
    StandingRow,
    VerdictRow,
)
from service.database import in_parts, upsert

STATUSES = ("accepted", "undecided", "unverified", "rejected")
PENDING = "pending"
"""Status of candidates that their run has not judged yet."""


@dataclass(frozen=True)
class CandidateStatus:
    """A proposal of a run with its current status, the review's or else the verdict's.

    `status` is None until the run judges it. `final`: no more answers will be drawn.
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

    Its columns are the fields of `CandidateStatus`. Reviews apply to the candidate in every run.
    """
    standing = StandingRow
    reviewed: ColumnElement[bool] = standing.review_id.is_not(None)
    query = (
        select(
            *(standing.question_id, standing.candidate_id, ProposalRow.round, standing.ordinal),
            *(standing.proposer, standing.strategy, standing.strategy_hash, standing.model),
            func.nullif(StandingRow.status, PENDING).label("status"),
            func.coalesce(ReviewRow.reason, VerdictRow.reason, "").label("reason"),
            reviewed.label("reviewed"),
            (reviewed | func.coalesce(VerdictRow.final, False)).label("final"),
            *(ProposalRow.mended_from, ProposalRow.mended_by),
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


class StandingCount(NamedTuple):
    """How many proposals of a run have a status, by who made them."""

    run_id: str
    proposer: str
    strategy: str
    strategy_hash: str
    model: str
    status: str
    candidates: int


def standing_counts(session: Session, run_id: str | None = None) -> list[StandingCount]:
    """Return the numbers of proposals by run, proposer, strategy, model and status; of one run or of all.

    Overviews and filters use the verdicts, strategies and models that occur.
    """
    keys = [getattr(StandingRow, name) for name in StandingCount._fields[:-1]]
    query = select(*keys, func.count()).group_by(*keys).order_by(*keys)
    if run_id is not None:
        query = query.where(StandingRow.run_id == run_id)
    return [StandingCount._make(row) for row in session.execute(query)]


def update_standings(session: Session, candidate_ids: Collection[str]) -> None:
    """Note where the proposals of these candidates stand now, and the findings of their verdicts.

    Whoever adds a proposal, a verdict, a review or its withdrawal calls this in the same transaction.
    """
    verdict, review = aliased(VerdictRow), aliased(ReviewRow)
    newest = select(func.max(verdict.id)).where(
        verdict.run_id == ProposalRow.run_id, verdict.candidate_id == ProposalRow.candidate_id
    )
    counted = select(func.max(review.id)).where(
        review.candidate_id == ProposalRow.candidate_id,
        review.id.not_in(select(ReviewWithdrawalRow.review_id)),
    )
    table = cast(Table, StandingRow.__table__)
    changing = ("status", "verdict_id", "review_id")
    shared = [each.name for each in table.columns if each.name not in ("proposal_id", *changing)]
    standings = (
        select(
            ProposalRow.id,
            *(getattr(ProposalRow, name) for name in shared),
            func.coalesce(ReviewRow.decision, VerdictRow.status, PENDING),
            VerdictRow.id,
            ReviewRow.id,
        )
        .select_from(ProposalRow)
        .outerjoin(VerdictRow, VerdictRow.id == newest.scalar_subquery())
        .outerjoin(ReviewRow, ReviewRow.id == counted.scalar_subquery())
    )
    verdicts = select(
        VerdictRow.candidate_id, VerdictRow.run_id, VerdictRow.evidence, CandidateRow.question_id
    ).join(CandidateRow, CandidateRow.id == VerdictRow.candidate_id)
    for part in in_parts(sorted(set(candidate_ids))):
        adding = upsert(table).from_select(
            ["proposal_id", *shared, *changing], standings.where(ProposalRow.candidate_id.in_(part))
        )
        now = {name: adding.excluded[name] for name in changing}
        session.connection().execute(adding.on_conflict_do_update(index_elements=["proposal_id"], set_=now))
        findings = [
            {"name": finding["name"], "question_id": question, "candidate_id": candidate, "run_id": run}
            for candidate, run, evidence, question in session.execute(
                verdicts.where(VerdictRow.candidate_id.in_(part))
            )
            for finding in evidence.get("findings", ())
        ]
        if findings:
            session.execute(upsert(CandidateFindingRow).on_conflict_do_nothing(), findings)
