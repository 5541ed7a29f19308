"""Counts of a set and of its runs, and acceptance rates with their intervals."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy.orm import Session

from evaluator.passk.exact_interval import exact_interval
from rephraser.reviews.status import PENDING, STATUSES, standing_counts
from rephraser.sets.types import SetEntry
from service.hashing import content_hash

RATE_DEFINITION = (
    "accepted / (accepted + rejected + undecided) over all proposals in the run, including "
    "later rounds and candidates that failed the structural checks, but not unverified ones. The 95% "
    "interval is Clopper-Pearson and assumes independent proposals"
)


@dataclass(frozen=True)
class AcceptRate:
    """Acceptance rate of a run's proposals, of one strategy or model or of "all".

    Attributes:
        unverified: proposals without compared answers or not yet judged; not part of `judged`.
        rate: accepted / judged; None if nothing was judged by answers, as in a run without a solver.
        low, high: exact 95% interval of the rate.
    """

    strategy: str
    accepted: int
    judged: int
    unverified: int
    rate: float | None
    low: float | None
    high: float | None


def count_members(entries: Iterable[SetEntry]) -> dict[str, Any]:
    """Return the counts that follow from the members alone."""
    sizes: Counter[int] = Counter()
    verdicts: Counter[str] = Counter()
    strategies: Counter[str] = Counter()
    reviewed = 0
    for entry in entries:
        sizes[len(entry.neighbors)] += 1
        for neighbor in entry.neighbors:
            verdicts[neighbor.verdict] += 1
            strategies[neighbor.strategy] += 1
            reviewed += neighbor.reviewed
    return {
        "questions": sizes.total(),
        "neighbors": verdicts.total(),
        "questions_by_neighbors": {str(size): sizes[size] for size in range(max(sizes, default=0) + 1)},
        "neighbors_by_verdict": {status: verdicts[status] for status in STATUSES},
        "neighbors_by_strategy": dict(sorted(strategies.items())),
        "reviewed": reviewed,
    }


def count_successes(entries: Iterable[SetEntry]) -> dict[str, Any]:
    """Return the summary and hash of a set's success counts, under `successes`; empty without counts."""
    counted = [
        (neighbor.candidate_id, neighbor.successes)
        for entry in entries
        for neighbor in entry.neighbors
        if neighbor.successes is not None
    ]
    if not counted:
        return {}
    difficulties = Counter(successes.difficulty for _, successes in counted)
    return {
        "successes": {
            "sha256": content_hash(
                "successes", sorted([name, *vars(successes).values()] for name, successes in counted)
            ),
            "neighbors": len(counted),
            "solvers": sorted({successes.solver for _, successes in counted}),
            "difficulty": {name: difficulties[name] for name in ("easier", "level", "harder")},
            "question_rate": _mean(
                successes.question_right / successes.question_drawn for _, successes in counted
            ),
            "neighbor_rate": _mean(
                successes.neighbor_right / successes.neighbor_drawn for _, successes in counted
            ),
        }
    }


def count_proposals(session: Session, run_ids: Iterable[str]) -> list[dict[str, Any]]:
    """Return the proposals of runs counted by status, one record per proposer, strategy and model."""
    groups: dict[tuple[str, str, str, str], Counter[str]] = {}
    for run_id in run_ids:
        for count in standing_counts(session, run_id):
            key = (count.proposer, count.strategy, count.strategy_hash, count.model)
            groups.setdefault(key, Counter())[count.status] += count.candidates
    return [
        {
            "proposer": proposer,
            "strategy": strategy,
            "strategy_hash": strategy_hash,
            "model": model,
            **{status: counted[status] for status in (*STATUSES, PENDING)},
        }
        for (proposer, strategy, strategy_hash, model), counted in sorted(groups.items())
    ]


def accept_rates(
    proposals: Sequence[Mapping[str, Any]], by: Literal["strategy", "model"] = "strategy"
) -> list[AcceptRate]:
    """Return the acceptance rate of all proposals (records of `count_proposals`), then of each group.

    Groups are strategies or models, if there are several.
    """
    if not proposals:
        return []
    names = sorted({str(record[by]) for record in proposals})
    groups = {name: [record for record in proposals if str(record[by]) == name] for name in names}
    return [_rate("all", proposals), *(_rate(*group) for group in groups.items() if len(groups) > 1)]


def _mean(values: Iterable[float]) -> float:
    rates = list(values)
    return round(sum(rates) / len(rates), 4)


def _rate(strategy: str, proposals: Sequence[Mapping[str, Any]]) -> AcceptRate:
    counted = {status: sum(int(each[status]) for each in proposals) for status in (*STATUSES, PENDING)}
    accepted = counted["accepted"]
    judged = accepted + counted["rejected"] + counted["undecided"]
    unverified = counted["unverified"] + counted[PENDING]
    # Without a solver only structural checks and reviews decide; a share of those few would mislead.
    measured = judged > 0 and (accepted > 0 or unverified == 0)
    if not measured:
        return AcceptRate(strategy, accepted, judged, unverified, None, None, None)
    low, high = exact_interval(accepted, judged)
    return AcceptRate(strategy, accepted, judged, unverified, accepted / judged, low, high)
