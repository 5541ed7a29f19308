"""Audits as numbers: the sample to draw, error rates of the verdict, agreement of reviewers."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from evaluator.passk.exact_interval import exact_interval
from rephraser.reviews.store import Review, counts
from rephraser.tables import ReviewRow, StandingRow, VerdictRow
from service.hashing import content_hash

STRATA: dict[str, int] = {"accepted": 2, "rejected": 2, "unverified": 2, "undecided": 1}
"""Strata with their weights. Both error rates are measured, so accepted and rejected get equal shares;
undecided ones belong to neither rate and get half as many.
"""


@dataclass(frozen=True)
class AuditMember:
    """A candidate in an audit: its verdict at the draw, and the number of candidates with that verdict.

    In an audit of groups, `stratum_size` is the number of questions with accepted neighbors.
    """

    candidate_id: str
    status: str
    stratum_size: int


def allocate(sizes: Mapping[str, int], places: int) -> dict[str, int]:
    """Distribute `places` over strata by their weights, at most as many as a stratum has.

    Each place goes to the stratum with the fewest for its weight, so that places that a small stratum cannot
    use go to the others. With at least 4 places, every non-empty stratum gets one.
    """
    allotted = dict.fromkeys(STRATA, 0)
    for _ in range(min(places, sum(sizes.values()))):
        open_strata = [name for name in STRATA if allotted[name] < sizes.get(name, 0)]
        poorest = min(open_strata, key=lambda name: ((allotted[name] + 1) / STRATA[name], allotted[name]))
        allotted[poorest] += 1
    return allotted


def draw(strata: Mapping[str, Sequence[str]], *, size: int, seed: int) -> list[AuditMember]:
    """Draw `size` candidates at random without replacement, in the shuffled order of their review.

    `strata` are candidate ids by verdict. Randomness comes from hashes of seed and candidate id: the same
    candidates, size and seed give the same sample on every machine, in any input order.
    """
    places = allocate({name: len(ids) for name, ids in strata.items()}, size)
    drawn = [
        AuditMember(candidate_id, name, len(ids))
        for name, ids in strata.items()
        for candidate_id in sorted(ids, key=lambda identity: _chance("draw", seed, identity))[: places[name]]
    ]
    return sorted(drawn, key=lambda member: _chance("order", seed, member.candidate_id))


def draw_groups(accepted: Mapping[str, Sequence[str]], *, size: int, seed: int) -> list[AuditMember]:
    """Draw `size` questions at random, with all their accepted neighbors (ids by question id)."""
    questions = sorted(accepted, key=lambda identity: _chance("draw", seed, identity))[:size]
    return [
        AuditMember(candidate_id, "accepted", len(accepted))
        for question in questions
        for candidate_id in sorted(
            accepted[question], key=lambda candidate_id: _chance("order", seed, candidate_id)
        )
    ]


def _chance(what: str, seed: int, candidate_id: str) -> str:
    return content_hash(f"audit-{what}", [seed, candidate_id])


VERDICT = "the verdict"
"""Represents the run's own verdict among the raters."""


@dataclass(frozen=True)
class Agreement:
    """Agreement of two raters on the candidates that both have decided, of which there is at least one.

    `kappa` is Cohen's kappa; None if undefined.
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
        pairs: pairs of raters; one may be the verdict, on candidates that it accepted or rejected.
        disputed: ids of candidates on which reviewers differ.
        against_verdict: ids of candidates on which a reviewer differs from the verdict, outside of audits,
            whose findings stay hidden until they are complete.
    """

    pairs: tuple[Agreement, ...]
    disputed: tuple[str, ...]
    against_verdict: tuple[str, ...]


def cohens_kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Return Cohen's kappa of two raters (Cohen, Educational and Psychological Measurement 1960).

    kappa = (p_o - p_e) / (1 - p_e), with p_o the share of equal ratings and p_e the share expected by chance
    from each rater's own shares. None if p_e is 1: both gave the same rating to every item.
    """
    items, equal = len(pairs), sum(first == second for first, second in pairs)
    firsts, seconds = (Counter(ratings) for ratings in zip(*pairs, strict=True))
    by_chance = sum(count * seconds[rating] for rating, count in firsts.items())
    if by_chance == items * items:
        return None
    return (equal * items - by_chance) / (items * items - by_chance)


def agreements(decisions: Mapping[str, Mapping[str, str]]) -> tuple[Agreement, ...]:
    """Return how far each two raters agree that have decided on the same candidates, by their names."""
    pairs = []
    for (first, mine), (second, theirs) in combinations(sorted(decisions.items()), 2):
        if shared := [(mine[id], theirs[id]) for id in mine if id in theirs]:
            agreed = sum(a == b for a, b in shared)
            pairs.append(Agreement(first, second, len(shared), agreed, cohens_kappa(shared)))
    return tuple(pairs)


def _disputed(ids: Iterable[str], decisions: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    """Return those of these candidates on which reviewers differ."""
    return tuple(id for id in ids if len({made[id] for made in decisions.values() if id in made}) > 1)


def run_agreement(session: Session, run_id: str) -> RunAgreement:
    """Return how far reviewers agree on a run's candidates, inside and outside audits."""
    of_run = (StandingRow.candidate_id == ReviewRow.candidate_id) & (StandingRow.run_id == run_id)
    rows = session.execute(
        select(
            *(ReviewRow.reviewer, ReviewRow.candidate_id, ReviewRow.decision, ReviewRow.audit_id),
            VerdictRow.status,
        )
        .join(StandingRow, of_run)
        .outerjoin(VerdictRow, VerdictRow.id == StandingRow.verdict_id)
        .where(counts())
        .order_by(ReviewRow.id)
    )
    by_reviewer: dict[str, dict[str, str]] = {}
    outside: dict[tuple[str, str], str] = {}
    judged: dict[str, str] = {}
    for reviewer, candidate_id, decision, audit_id, status in rows:
        by_reviewer.setdefault(reviewer, {})[candidate_id] = decision
        if audit_id is None:
            outside[candidate_id, reviewer] = decision
        if status in ("accepted", "rejected"):
            judged[candidate_id] = status
    reviewed = sorted({id for made in by_reviewer.values() for id in made})
    return RunAgreement(
        pairs=agreements({**by_reviewer, VERDICT: judged}),
        disputed=_disputed(reviewed, by_reviewer),
        against_verdict=tuple(
            sorted({id for (id, _), decision in outside.items() if judged.get(id, decision) != decision})
        ),
    )


CONFIDENCE = 0.95
PUBLISHABLE = ("accepted", "unverified")
"""Statuses that `sets publish` includes, the second with `--include unverified`."""


@dataclass(frozen=True)
class Rate:
    """A share with its exact interval; all three are None if nothing was reviewed."""

    count: int
    reviewed: int
    share: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Stratum:
    """The candidates of one verdict: in the run at the draw, in the audit, and rejected by reviewers."""

    status: str
    size: int
    drawn: int
    rejected: Rate


@dataclass(frozen=True)
class BrokenShare:
    """Share of candidates that reviewers would reject among all publishable ones.

    `statuses` are the counted verdicts with their sizes, by which strata are weighted. The interval combines
    exact intervals of the strata, each at a confidence that makes all hold together with 95% (Bonferroni).
    All is None if one of the strata has no review yet.
    """

    statuses: dict[str, int]
    share: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class GroupRate:
    """Result of an audit of groups: the questions with a broken one among their accepted neighbors.

    Attributes:
        size: questions of the run with accepted neighbors when the audit was drawn.
        complete: questions with a decision on every neighbor; `broken` is a share of these.
        broken_groups: all with a rejected neighbor, also incomplete ones.
        open: questions without a rejected neighbor so far that still lack a decision.
        low, high: the exact interval of the share over all drawn, for every outcome of the open ones.
    """

    size: int
    drawn: int
    complete: int
    broken: Rate
    broken_groups: tuple[str, ...]
    open: int
    low: float
    high: float

    @property
    def bounds(self) -> str:
        """The range of the share of broken groups while some are open, as text."""
        broken = len(self.broken_groups)
        return (
            f"{broken:,} have a broken neighbor so far and {self.open:,} are not yet decided: "
            f"{broken / self.drawn:.1%} to {(broken + self.open) / self.drawn:.1%} are broken (exact 95% "
            f"interval {self.low:.1%} to {self.high:.1%}, whatever the undecided ones turn out to be)"
        )


@dataclass(frozen=True)
class ErrorRates:
    """Results of an audit so far.

    Attributes:
        false_accept: rejected by the reviewers, among reviewed candidates that the verdict accepted.
        false_reject: accepted by the reviewers, among reviewed candidates that the verdict rejected.
        disputed: candidates on which reviewers differ; the newest decision counts for the rates.
        false_accepts, false_rejects: the candidates in these rates. They reveal verdicts, so hide them from
            reviewers until the audit is `complete`.
    """

    drawn: int
    reviewed: int
    strata: tuple[Stratum, ...]
    false_accept: Rate
    false_reject: Rate
    broken: BrokenShare
    reviewers: tuple[dict[str, Any], ...]  # the rates of each one's decisions
    agreements: tuple[Agreement, ...]
    disputed: tuple[str, ...]
    false_accepts: tuple[str, ...]
    false_rejects: tuple[str, ...]

    @property
    def open(self) -> int:
        """Candidates without a decision."""
        return self.drawn - self.reviewed

    @property
    def complete(self) -> bool:
        """Whether every candidate has at least one decision."""
        return self.open == 0


def error_rates(members: Sequence[AuditMember], reviews: Sequence[Review]) -> ErrorRates:
    """Return the error rates of the verdicts at the time of the draw.

    The newest decision (highest id) on a candidate counts; `reviewers` shows each one's rates. Candidates
    without a decision are left out, so rates of an unfinished audit are provisional.
    """
    ids = {member.candidate_id for member in members}
    by_reviewer: dict[str, dict[str, str]] = {}
    standing: dict[str, str] = {}
    for review in sorted(reviews, key=lambda review: review.id):
        if review.candidate_id in ids:
            by_reviewer.setdefault(review.reviewer, {})[review.candidate_id] = review.decision
            standing[review.candidate_id] = review.decision
    strata = []
    for status in STRATA:
        drawn = [member for member in members if member.status == status]
        if drawn:
            rejected = _rate(drawn, standing, status, "rejected")
            strata.append(Stratum(status, drawn[0].stratum_size, len(drawn), rejected))
    return ErrorRates(
        drawn=len(members),
        reviewed=len(standing),
        strata=tuple(strata),
        false_accept=_rate(members, standing, "accepted", "rejected"),
        false_reject=_rate(members, standing, "rejected", "accepted"),
        broken=_broken(strata),
        reviewers=tuple(
            {
                "reviewer": reviewer,
                "reviewed": len(decisions),
                "false_accept": _rate(members, decisions, "accepted", "rejected"),
                "false_reject": _rate(members, decisions, "rejected", "accepted"),
            }
            for reviewer, decisions in sorted(by_reviewer.items())
        ),
        agreements=agreements(by_reviewer),
        disputed=_disputed((member.candidate_id for member in members), by_reviewer),
        false_accepts=_wrong(members, standing, "accepted", "rejected"),
        false_rejects=_wrong(members, standing, "rejected", "accepted"),
    )


def group_rate(
    members: Sequence[AuditMember], questions: Mapping[str, str], reviews: Sequence[Review]
) -> GroupRate:
    """Return the share of groups with a broken neighbor; `questions` is the question of each member.

    The share is over fully reviewed groups. Including others with a rejected neighbor would overestimate it,
    since a broken group is known sooner than an intact one.
    """
    standing = {
        review.candidate_id: review.decision for review in sorted(reviews, key=lambda review: review.id)
    }
    groups: dict[str, list[str | None]] = {}
    for member in members:
        groups.setdefault(questions[member.candidate_id], []).append(standing.get(member.candidate_id))
    complete = [made for made in groups.values() if None not in made]
    broken = tuple(question for question, made in groups.items() if "rejected" in made)
    undecided = sum(None in made and "rejected" not in made for made in groups.values())
    return GroupRate(
        size=members[0].stratum_size,
        drawn=len(groups),
        complete=len(complete),
        broken=_share(sum("rejected" in made for made in complete), len(complete)),
        broken_groups=broken,
        open=undecided,
        low=exact_interval(len(broken), len(groups), CONFIDENCE)[0],
        high=exact_interval(len(broken) + undecided, len(groups), CONFIDENCE)[1],
    )


def _wrong(
    members: Sequence[AuditMember], decisions: Mapping[str, str], status: str, decision: str
) -> tuple[str, ...]:
    """Return the candidates with this verdict and this decision of the reviewers."""
    ids = (member.candidate_id for member in members if member.status == status)
    return tuple(id for id in ids if decisions.get(id) == decision)


def _rate(members: Sequence[AuditMember], decisions: Mapping[str, str], status: str, decision: str) -> Rate:
    reviewed = sum(member.status == status and member.candidate_id in decisions for member in members)
    return _share(len(_wrong(members, decisions, status, decision)), reviewed)


def _share(count: int, reviewed: int) -> Rate:
    if not reviewed:
        return Rate(0, 0, None, None, None)
    return Rate(count, reviewed, count / reviewed, *exact_interval(count, reviewed, CONFIDENCE))


def _broken(strata: Sequence[Stratum]) -> BrokenShare:
    counted = [stratum for stratum in strata if stratum.status in PUBLISHABLE]
    sizes = {stratum.status: stratum.size for stratum in counted}
    total = sum(sizes.values())
    if not counted or any(stratum.rejected.reviewed == 0 for stratum in counted):
        return BrokenShare(sizes, None, None, None)
    confidence = 1 - (1 - CONFIDENCE) / len(counted)
    share = low = high = 0.0
    for stratum in counted:
        rejected, weight = stratum.rejected, stratum.size / total
        interval = exact_interval(rejected.count, rejected.reviewed, confidence)
        share += weight * rejected.count / rejected.reviewed
        low += weight * interval[0]
        high += weight * interval[1]
    return BrokenShare(sizes, share, low, high)
