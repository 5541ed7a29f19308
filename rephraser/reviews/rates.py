"""Error rates of the verdict, from an audit's members and the reviewers' decisions. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evaluator.passk.exact_interval import exact_interval
from rephraser.reviews.agreement import Agreement, agreements
from rephraser.reviews.sampling import STRATA, AuditMember
from rephraser.reviews.store import Review

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
    """The candidates of one verdict.

    Attributes:
        size: candidates of the run with this verdict when the audit was drawn.
        drawn: those in the audit.
        rejected: those that reviewers reject, among the reviewed ones.
    """

    status: str
    size: int
    drawn: int
    rejected: Rate


@dataclass(frozen=True)
class BrokenShare:
    """Share of candidates that reviewers would reject among all publishable ones.

    Strata are weighted by size. The interval combines the exact intervals of the strata, each at a confidence
    that makes all hold together with 95% (Bonferroni): it may be long, but it is not too short.

    Attributes:
        statuses: the counted verdicts with their sizes.
        share, low, high: None if one of them has no review yet.
    """

    statuses: dict[str, int]
    share: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class GrowingRate:
    """The false-accept rate after this many reviewed accepted candidates, with its exact 95% interval."""

    reviewed: int
    rejected: int
    share: float
    low: float
    high: float


@dataclass(frozen=True)
class GroupRate:
    """Result of an audit of groups: the questions with a broken one among their accepted neighbors.

    Attributes:
        size: questions of the run with accepted neighbors when the audit was drawn.
        drawn: questions in the audit.
        complete: questions with a decision on every neighbor.
        broken: the share of these with a neighbor that reviewers reject.
        broken_groups: all with a rejected neighbor, also incomplete ones.
        open: questions without a rejected neighbor so far that still lack a decision.
        low, high: the exact interval of the share over all drawn, for every outcome of the open ones: its low
            end if none of them is broken, its high end if all are.
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
class ReviewerRates:
    """The decisions of one reviewer."""

    reviewer: str
    reviewed: int
    false_accept: Rate
    false_reject: Rate


@dataclass(frozen=True)
class ErrorRates:
    """Results of an audit so far.

    Attributes:
        drawn, reviewed: candidates in the audit, and those with at least one decision.
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
    reviewers: tuple[ReviewerRates, ...]
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

    The newest decision (highest id) of a reviewer on a candidate counts, and the newest of several reviewers;
    `reviewers` shows each one's rates. Candidates without a decision are left out, so rates of an unfinished
    audit are provisional.

    Args:
        reviews: decisions made for this audit, in any order; those on other candidates are ignored.
    """
    ids = {member.candidate_id for member in members}
    by_reviewer: dict[str, dict[str, str]] = {}
    standing: dict[str, str] = {}
    for review in sorted(reviews, key=lambda review: review.id):
        if review.candidate_id in ids:
            by_reviewer.setdefault(review.reviewer, {})[review.candidate_id] = review.decision
            standing[review.candidate_id] = review.decision
    strata = tuple(
        _stratum(status, [member for member in members if member.status == status], standing)
        for status in STRATA
        if any(member.status == status for member in members)
    )
    return ErrorRates(
        drawn=len(members),
        reviewed=len(standing),
        strata=strata,
        false_accept=_rate(members, standing, "accepted", "rejected"),
        false_reject=_rate(members, standing, "rejected", "accepted"),
        broken=_broken(strata),
        reviewers=tuple(
            ReviewerRates(
                reviewer,
                len(decisions),
                _rate(members, decisions, "accepted", "rejected"),
                _rate(members, decisions, "rejected", "accepted"),
            )
            for reviewer, decisions in sorted(by_reviewer.items())
        ),
        agreements=agreements(by_reviewer),
        disputed=tuple(
            member.candidate_id
            for member in members
            if len({d[member.candidate_id] for d in by_reviewer.values() if member.candidate_id in d}) > 1
        ),
        false_accepts=_wrong(members, standing, "accepted", "rejected"),
        false_rejects=_wrong(members, standing, "rejected", "accepted"),
    )


def group_rate(
    members: Sequence[AuditMember], questions: Mapping[str, str], reviews: Sequence[Review]
) -> GroupRate:
    """Return the share of groups with a broken neighbor; the newest decision on a candidate counts.

    The share is over fully reviewed groups. Including others with a rejected neighbor would overestimate it,
    since a broken group is known sooner than an intact one. It is too small if reviewers leave a group at its
    first broken neighbor. The bounds over all drawn groups hold in any case.

    Args:
        questions: the question of each member, by candidate id.
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


def growing_false_accepts(members: Sequence[AuditMember], reviews: Sequence[Review]) -> list[GrowingRate]:
    """Return the false-accept rate of an audit after each decision on an accepted candidate.

    The newest decision on a candidate counts, so the last point equals the rate of `error_rates`.
    """
    accepted = {member.candidate_id for member in members if member.status == "accepted"}
    standing: dict[str, str] = {}
    points = []
    for review in sorted(reviews, key=lambda review: review.id):
        if review.candidate_id not in accepted:
            continue
        standing[review.candidate_id] = review.decision
        rejected = sum(made == "rejected" for made in standing.values())
        low, high = exact_interval(rejected, len(standing))
        points.append(GrowingRate(len(standing), rejected, rejected / len(standing), low, high))
    return points


def _wrong(
    members: Sequence[AuditMember], decisions: Mapping[str, str], status: str, decision: str
) -> tuple[str, ...]:
    """Return the candidates with this verdict that reviewers decided otherwise."""
    return tuple(
        member.candidate_id
        for member in members
        if member.status == status and decisions.get(member.candidate_id) == decision
    )


def _rate(members: Sequence[AuditMember], decisions: Mapping[str, str], status: str, decision: str) -> Rate:
    made = [
        decisions[member.candidate_id]
        for member in members
        if member.status == status and member.candidate_id in decisions
    ]
    return _share(made.count(decision), len(made))


def _share(count: int, reviewed: int) -> Rate:
    if not reviewed:
        return Rate(0, 0, None, None, None)
    low, high = exact_interval(count, reviewed, CONFIDENCE)
    return Rate(count, reviewed, count / reviewed, low, high)


def _stratum(status: str, members: Sequence[AuditMember], standing: Mapping[str, str]) -> Stratum:
    rejected = _rate(members, standing, status, "rejected")
    return Stratum(status, members[0].stratum_size, len(members), rejected)


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
