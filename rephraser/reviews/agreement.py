"""Agreement of reviewers with each other, and with the verdicts of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from sqlalchemy import select
from sqlalchemy.orm import Session

from rephraser.reviews.store import counts
from rephraser.tables import ReviewRow, StandingRow, VerdictRow
from service.database import in_parts

VERDICT = "verdict"
"""Represents the run's own verdict among the raters."""


@dataclass(frozen=True)
class Agreement:
    """Agreement of two reviewers on the candidates that both have decided.

    Attributes:
        shared: candidates that both have decided, at least 1.
        agreed: those with the same decision.
        kappa: Cohen's kappa; None if undefined.
    """

    first: str
    second: str
    shared: int
    agreed: int
    kappa: float | None


@dataclass(frozen=True)
class RunAgreement:
    """Agreement of a run's reviewers with each other and with its verdicts.

    Attributes:
        reviewers: pairs of reviewers on the candidates that both have decided.
        with_verdict: each reviewer against the verdict, on candidates that it accepted or rejected.
        disputed: ids of candidates on which reviewers differ.
        against_verdict: ids of candidates on which a reviewer differs from the verdict, outside of audits;
            findings of an audit stay hidden until it is complete.
    """

    reviewers: tuple[Agreement, ...]
    with_verdict: tuple[Agreement, ...]
    disputed: tuple[str, ...]
    against_verdict: tuple[str, ...]


def cohens_kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Return Cohen's kappa of two raters (Cohen, Educational and Psychological Measurement 1960).

    kappa = (p_o - p_e) / (1 - p_e), with p_o the share of equal ratings and p_e the share expected by chance
    from each rater's own shares. 1 is full agreement, 0 agreement by chance, below 0 worse than chance.

    Args:
        pairs: the two ratings of each item.

    Returns:
        None if p_e is 1: both gave the same rating to every item, so kappa is undefined.

    Raises:
        ValueError: no pairs.
    """
    if not pairs:
        raise ValueError("kappa without ratings is undefined")
    items = len(pairs)
    ratings = {rating for pair in pairs for rating in pair}
    equal = sum(first == second for first, second in pairs)
    by_chance = sum(
        sum(first == rating for first, _ in pairs) * sum(second == rating for _, second in pairs)
        for rating in ratings
    )
    if by_chance == items * items:
        return None
    return (equal * items - by_chance) / (items * items - by_chance)


def agreements(decisions: Mapping[str, Mapping[str, str]]) -> tuple[Agreement, ...]:
    """Return how far each two reviewers agree that have decided on the same candidates, by their names.

    Args:
        decisions: by reviewer, then by candidate.
    """
    pairs = combinations(sorted(decisions.items()), 2)
    agreeing = (_agreement(first, mine, second, theirs) for (first, mine), (second, theirs) in pairs)
    return tuple(agreement for agreement in agreeing if agreement is not None)


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
    for part in in_parts(reviewed):
        rows = session.execute(
            select(StandingRow.candidate_id, VerdictRow.status)
            .outerjoin(VerdictRow, VerdictRow.id == StandingRow.verdict_id)
            .where(StandingRow.run_id == run_id, StandingRow.candidate_id.in_(part))
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
    with_verdict = (_agreement(name, mine, VERDICT, judged) for name, mine in by_reviewer.items())
    return RunAgreement(
        reviewers=agreements(by_reviewer),
        with_verdict=tuple(agreement for agreement in with_verdict if agreement is not None),
        disputed=tuple(id for id, made in sorted(decisions.items()) if len(made) > 1),
        against_verdict=tuple(
            sorted({id for (id, _), decision in outside.items() if judged.get(id, decision) != decision})
        ),
    )


def _agreement(
    first: str, mine: Mapping[str, str], second: str, theirs: Mapping[str, str]
) -> Agreement | None:
    shared = [(mine[id], theirs[id]) for id in mine if id in theirs]
    if not shared:
        return None
    return Agreement(first, second, len(shared), sum(a == b for a, b in shared), cohens_kappa(shared))
