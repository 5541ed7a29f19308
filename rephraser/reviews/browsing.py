"""What reviewing in pages needs: the queue in order, its items, progress, agreement, rates as they grow."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import combinations

from sqlalchemy import Select, exists, func, select
from sqlalchemy.orm import Session

from evaluator.passk.exact_interval import exact_interval
from rephraser.reviews.agreement import Agreement, cohens_kappa
from rephraser.reviews.queue import ReviewItem
from rephraser.reviews.sampling import Drawn
from rephraser.reviews.store import Review, counts
from rephraser.tables import AuditRow, CandidateRow, ReviewRow, StandingCountRow, StandingRow, VerdictRow
from service.questions.tables import QuestionRow

VERDICT = "verdict"
"""Stands for the run's own verdict among those who agree or not."""

_IDS_PER_QUERY = 2000


@dataclass(frozen=True)
class ReviewProgress:
    """What a reviewer has decided (newest decision of each candidate) of a run or an audit."""

    total: int
    accepted: int
    rejected: int

    @property
    def decided(self) -> int:
        return self.accepted + self.rejected


@dataclass(frozen=True)
class RunAgreement:
    """How far the reviewers of a run agree with each other and with its verdicts.

    Attributes:
        reviewers: pairs of reviewers on the candidates both have decided.
        with_verdict: each reviewer against the verdict, on candidates that it accepted or rejected.
        disputed: ids of candidates on which reviewers differ.
        against_verdict: ids of those on which a reviewer decided otherwise than the verdict, outside of
            audits: what an audit found is not to be known before it is complete.
    """

    reviewers: tuple[Agreement, ...]
    with_verdict: tuple[Agreement, ...]
    disputed: tuple[str, ...]
    against_verdict: tuple[str, ...]


@dataclass(frozen=True)
class GrowingRate:
    """The false-accept rate after so many reviewed accepted candidates, with its exact 95% interval."""

    reviewed: int
    rejected: int
    share: float
    low: float
    high: float


@dataclass(frozen=True)
class AuditHeader:
    """An audit without its members."""

    id: int
    kind: str  # candidates, groups
    seed: int
    size: int
    created_at: str


def blind_order(candidate_ids: Iterable[str], seed: int) -> list[str]:
    """Return ids in an order that depends on the seed and each id alone.

    Candidates that come later find their places between the others, and those that go leave the order as it
    is: a reviewer who comes back sees the same queue.
    """
    prefix = f"{seed}|".encode()
    return sorted(candidate_ids, key=lambda id: blake2b(prefix + id.encode(), digest_size=8).digest())


def open_queue(
    session: Session,
    run_id: str,
    reviewer: str,
    *,
    statuses: Sequence[str] = ("undecided", "unverified", "accepted"),
    strategy: str | None = None,
    model: str | None = None,
    seed: int | None = None,
) -> list[str]:
    """Return the ids of a run's candidates with one of these statuses that the reviewer has not decided.

    Args:
        seed: of the blind order; None gives the order of questions and proposals.
    """
    done = select(ReviewRow.candidate_id).where(ReviewRow.reviewer == reviewer, counts())
    query = (
        select(StandingRow.candidate_id)
        .where(
            StandingRow.run_id == run_id,
            StandingRow.status.in_(statuses),
            StandingRow.candidate_id.not_in(done),
        )
        .order_by(StandingRow.question_id, StandingRow.ordinal)
    )
    for column, value in ((StandingRow.strategy, strategy), (StandingRow.model, model)):
        if value is not None:
            query = query.where(column == value)
    ids = list(session.scalars(query))
    return ids if seed is None else blind_order(ids, seed)


def read_items(session: Session, candidate_ids: Sequence[str]) -> list[ReviewItem]:
    """Return what a reviewer sees of these candidates, in their order; unknown ids are left out."""
    found: dict[str, ReviewItem] = {}
    for start in range(0, len(candidate_ids), _IDS_PER_QUERY):
        rows = session.execute(
            select(CandidateRow.id, QuestionRow.text, QuestionRow.answer, CandidateRow.text)
            .join(QuestionRow, QuestionRow.id == CandidateRow.question_id)
            .where(CandidateRow.id.in_(candidate_ids[start : start + _IDS_PER_QUERY]))
        )
        found.update((row[0], ReviewItem(*row)) for row in rows)
    return [found[id] for id in candidate_ids if id in found]


def run_progress(session: Session, run_id: str, reviewer: str) -> ReviewProgress:
    """Return how many of a run's candidates the reviewer has decided, and how."""
    newest = (
        select(func.max(ReviewRow.id))
        .where(
            ReviewRow.reviewer == reviewer,
            counts(),
            exists().where(StandingRow.candidate_id == ReviewRow.candidate_id, StandingRow.run_id == run_id),
        )
        .group_by(ReviewRow.candidate_id)
    )
    total = select(func.sum(StandingCountRow.candidates)).where(StandingCountRow.run_id == run_id)
    return _progress(session, session.scalar(total) or 0, newest)


def audit_progress(session: Session, audit_id: int, members: int, reviewer: str) -> ReviewProgress:
    """Return how many of an audit's members the reviewer has decided for it, and how."""
    newest = (
        select(func.max(ReviewRow.id))
        .where(ReviewRow.audit_id == audit_id, ReviewRow.reviewer == reviewer, counts())
        .group_by(ReviewRow.candidate_id)
    )
    return _progress(session, members, newest)


def read_decisions(
    session: Session, candidate_ids: Sequence[str], audit_id: int | None = None
) -> dict[str, dict[str, tuple[str, str]]]:
    """Return each reviewer's newest decision with its reason, by candidate; those of an audit if given."""
    of_audit = [] if audit_id is None else [ReviewRow.audit_id == audit_id]
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for start in range(0, len(candidate_ids), _IDS_PER_QUERY):
        rows = session.execute(
            select(ReviewRow.candidate_id, ReviewRow.reviewer, ReviewRow.decision, ReviewRow.reason)
            .where(
                ReviewRow.candidate_id.in_(candidate_ids[start : start + _IDS_PER_QUERY]), counts(), *of_audit
            )
            .order_by(ReviewRow.id)
        )
        for candidate_id, reviewer, decision, reason in rows:
            found.setdefault(candidate_id, {})[reviewer] = (decision, reason)
    return found


def list_audits(session: Session, run_id: str) -> list[AuditHeader]:
    """Return the audits of a run, oldest first."""
    rows = session.execute(
        select(AuditRow.id, AuditRow.kind, AuditRow.seed, AuditRow.size, AuditRow.created_at)
        .where(AuditRow.run_id == run_id)
        .order_by(AuditRow.id)
    )
    return [AuditHeader(*row) for row in rows]


def run_agreement(session: Session, run_id: str) -> RunAgreement:
    """Return how far reviewers agree on a run's candidates, inside and outside audits."""
    # Reviews are few, since people make them: from them to the run's candidates, not the other way round.
    made = session.execute(
        select(ReviewRow.reviewer, ReviewRow.candidate_id, ReviewRow.decision, ReviewRow.audit_id)
        .where(counts())
        .order_by(ReviewRow.id)
    ).all()
    verdicts: dict[str, str | None] = {}
    reviewed = sorted({row.candidate_id for row in made})
    for start in range(0, len(reviewed), _IDS_PER_QUERY):
        rows = session.execute(
            select(StandingRow.candidate_id, VerdictRow.status)
            .outerjoin(VerdictRow, VerdictRow.id == StandingRow.verdict_id)
            .where(
                StandingRow.run_id == run_id,
                StandingRow.candidate_id.in_(reviewed[start : start + _IDS_PER_QUERY]),
            )
        )
        verdicts.update((candidate_id, status) for candidate_id, status in rows)
    by_reviewer: dict[str, dict[str, str]] = {}
    outside: dict[tuple[str, str], str] = {}
    for reviewer, candidate_id, decision, audit_id in made:
        if candidate_id in verdicts:
            by_reviewer.setdefault(reviewer, {})[candidate_id] = decision
            if audit_id is None:
                outside[candidate_id, reviewer] = decision
    judged = {
        id: status
        for id, status in verdicts.items()
        if status is not None and status in ("accepted", "rejected")
    }
    decisions: dict[str, set[str]] = {}
    for mine in by_reviewer.values():
        for candidate_id, decision in mine.items():
            decisions.setdefault(candidate_id, set()).add(decision)
    pairs = combinations(sorted(by_reviewer.items()), 2)
    return RunAgreement(
        reviewers=_agreements((a, b) for a, b in pairs),
        with_verdict=_agreements(((name, mine), (VERDICT, judged)) for name, mine in by_reviewer.items()),
        disputed=tuple(id for id, found in sorted(decisions.items()) if len(found) > 1),
        against_verdict=tuple(
            sorted({id for (id, _), decision in outside.items() if judged.get(id, decision) != decision})
        ),
    )


def growing_false_accepts(members: Sequence[Drawn], reviews: Sequence[Review]) -> list[GrowingRate]:
    """Return the false-accept rate of an audit after each decision on a candidate that the verdict accepted.

    The newest decision on a candidate counts, so that the last point is that of `rates.error_rates`.
    """
    accepted = {member.candidate_id for member in members if member.status == "accepted"}
    standing: dict[str, str] = {}
    points = []
    for review in sorted(reviews, key=lambda one: one.id):
        if review.candidate_id not in accepted:
            continue
        standing[review.candidate_id] = review.decision
        rejected = sum(made == "rejected" for made in standing.values())
        low, high = exact_interval(rejected, len(standing))
        points.append(GrowingRate(len(standing), rejected, rejected / len(standing), low, high))
    return points


def _progress(session: Session, total: int, newest: Select[int]) -> ReviewProgress:
    rows = session.execute(
        select(ReviewRow.decision, func.count()).where(ReviewRow.id.in_(newest)).group_by(ReviewRow.decision)
    )
    made = dict[str, int]((decision, number) for decision, number in rows)
    return ReviewProgress(total, made.get("accepted", 0), made.get("rejected", 0))


def _agreements(
    pairs: Iterable[tuple[tuple[str, dict[str, str]], tuple[str, dict[str, str]]]],
) -> tuple[Agreement, ...]:
    found = []
    for (first, mine), (second, theirs) in pairs:
        shared = [(mine[id], theirs[id]) for id in mine if id in theirs]
        if shared:
            equal = sum(a == b for a, b in shared)
            found.append(Agreement(first, second, len(shared), equal, cohens_kappa(shared)))
    return tuple(found)
