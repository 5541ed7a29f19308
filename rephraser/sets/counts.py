"""Counts of a set and of its runs, and acceptance rates with their intervals."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, Literal

from sqlalchemy.orm import Session

from evaluator.passk.intervals import exact_interval
from rephraser.reviews.status import PENDING, STATUSES, standing_counts
from rephraser.sets.types import SetEntry
from service.hashing import content_hash

RATE_DEFINITION = (
    "accepted / (accepted + rejected + undecided) over all proposals in the run, including "
    "later rounds and candidates that failed the structural checks, but not unverified ones. The 95% "
    "interval is Clopper-Pearson and assumes independent proposals"
)


def count_members(entries: Iterable[SetEntry]) -> dict[str, Any]:
    """Return the counts that follow from the members alone.

    `successes` is the summary and hash of their success counts; it is missing if there are none.
    """
    groups = [entry.neighbors for entry in entries]
    neighbors = [neighbor for group in groups for neighbor in group]
    sizes = Counter(map(len, groups))
    verdicts = Counter(neighbor.verdict for neighbor in neighbors)
    counts: dict[str, Any] = {
        "questions": len(groups),
        "neighbors": len(neighbors),
        "questions_by_neighbors": {str(size): sizes[size] for size in range(max(sizes, default=0) + 1)},
        "neighbors_by_verdict": {status: verdicts[status] for status in STATUSES},
        "neighbors_by_strategy": dict(sorted(Counter(each.strategy for each in neighbors).items())),
        "reviewed": sum(neighbor.reviewed for neighbor in neighbors),
    }
    counted = [(each.candidate_id, each.successes) for each in neighbors if each.successes is not None]
    if counted:
        kinds = Counter(each.difficulty for _, each in counted)
        counts["successes"] = {
            "sha256": content_hash(
                "successes", sorted([name, *vars(each).values()] for name, each in counted)
            ),
            "neighbors": len(counted),
            "solvers": sorted({each.solver for _, each in counted}),
            "difficulty": {name: kinds[name] for name in ("easier", "level", "harder")},
            "question_rate": round(
                fmean(each.question_right / each.question_drawn for _, each in counted), 4
            ),
            "neighbor_rate": round(
                fmean(each.neighbor_right / each.neighbor_drawn for _, each in counted), 4
            ),
        }
    return counts


def count_proposals(session: Session, run_ids: Iterable[str]) -> list[dict[str, Any]]:
    """Return the proposals of runs counted by status, one record per proposer, strategy and model."""
    groups: dict[tuple[str, ...], Counter[str]] = {}
    for run_id in run_ids:
        for _, *made_by, status, candidates in standing_counts(session, run_id):
            groups.setdefault(tuple(made_by), Counter())[status] += candidates
    names = ("proposer", "strategy", "strategy_hash", "model")
    return [
        {**dict(zip(names, made_by, strict=True)), **{each: counted[each] for each in (*STATUSES, PENDING)}}
        for made_by, counted in sorted(groups.items())
    ]


def accept_rates(
    proposals: Sequence[Mapping[str, Any]], by: Literal["strategy", "model"] = "strategy"
) -> list[dict[str, Any]]:
    """Return the acceptance rate of all proposals (records of `count_proposals`), then of each group.

    Groups are strategies or models, if there are several. `unverified` proposals have no compared answers or
    are not judged yet; they are not in `judged`. `rate` is None if nothing was judged by answers.
    """
    if not proposals:
        return []
    names = sorted({str(record[by]) for record in proposals})
    groups = {name: [record for record in proposals if str(record[by]) == name] for name in names}
    return [_rate("all", proposals), *(_rate(*group) for group in groups.items() if len(groups) > 1)]


def _rate(strategy: str, proposals: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    counted = {status: sum(int(each[status]) for each in proposals) for status in (*STATUSES, PENDING)}
    accepted = counted["accepted"]
    judged = accepted + counted["rejected"] + counted["undecided"]
    unverified = counted["unverified"] + counted[PENDING]
    counts = {"strategy": strategy, "accepted": accepted, "judged": judged, "unverified": unverified}
    # Without a solver only structural checks and reviews decide; a share of those few would mislead.
    measured = judged > 0 and (accepted > 0 or unverified == 0)
    low, high = exact_interval(accepted, judged) if measured else (None, None)
    return {**counts, "rate": accepted / judged if measured else None, "low": low, "high": high}
