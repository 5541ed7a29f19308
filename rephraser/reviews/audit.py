"""Audits: samples for blind review, drawn once; error rates of the verdict, agreement of reviewers."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal

import numpy as np
from sqlalchemy import Select, insert, select
from sqlalchemy.orm import Session

from evaluator.passk.intervals import exact_interval
from rephraser.reviews.store import ReviewProgress, decisions_by, of_run, read_reviews
from rephraser.tables import AuditMemberRow, AuditRow, CandidateRow, ReviewRow, StandingRow, VerdictRow
from service.database import Database, columns_of, utc_now
from service.errors import InputError, NotFoundError
from service.hashing import content_hash
from service.runs.store import Run
from service.runs.tables import RunRow

Kind = Literal["candidates", "groups"]
STRATA: dict[str, int] = {"accepted": 2, "rejected": 2, "unverified": 2, "undecided": 1}
"""Strata with their weights. Both error rates are measured, so accepted and rejected get equal shares;
undecided ones belong to neither rate and get half as many.
"""
PUBLISHABLE = ("accepted", "unverified")
"""Statuses that `sets publish` includes, the second with `--include unverified`."""
VERDICT = "the verdict"
"""Represents the run's own verdict among the raters."""
CONFIDENCE = 0.95

Decisions = Mapping[str, str]
"""Accepted or rejected, by candidate."""
Record = dict[str, Any]


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
        for candidate_id in _shuffle(ids, "draw", seed)[: places[name]]
    ]
    members = {member.candidate_id: member for member in drawn}
    return [members[candidate_id] for candidate_id in _shuffle(members, "order", seed)]


def draw_groups(accepted: Mapping[str, Sequence[str]], *, size: int, seed: int) -> list[AuditMember]:
    """Draw `size` questions at random, with all their accepted neighbors (ids by question id)."""
    return [
        AuditMember(candidate_id, "accepted", len(accepted))
        for question in _shuffle(accepted, "draw", seed)[:size]
        for candidate_id in _shuffle(accepted[question], "order", seed)
    ]


def _shuffle(ids: Iterable[str], purpose: str, seed: int) -> list[str]:
    return sorted(ids, key=lambda identity: content_hash(f"audit-{purpose}", [seed, identity]))


def cohens_kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Return Cohen's kappa of two raters; None if both gave the same rating to every item.

    kappa = (p_o - p_e) / (1 - p_e), with p_o the share of equal ratings and p_e the share expected by chance
    from each rater's own shares.
    """
    items, equal = len(pairs), sum(first == second for first, second in pairs)
    firsts, seconds = (Counter(ratings) for ratings in zip(*pairs, strict=True))
    by_chance = sum(count * seconds[rating] for rating, count in firsts.items())
    if by_chance == items * items:
        return None
    return (equal * items - by_chance) / (items * items - by_chance)


def _agreements(by_rater: Mapping[str, Decisions]) -> list[Record]:
    """Return how far each two raters agree that have decided on the same candidates."""
    pairs = []
    for (first, mine), (second, theirs) in combinations(sorted(by_rater.items()), 2):
        if shared := [(mine[id], theirs[id]) for id in mine if id in theirs]:
            pair = {"first": first, "second": second, "shared": len(shared)}
            pair["agreed"] = sum(a == b for a, b in shared)
            pairs.append({**pair, "kappa": cohens_kappa(shared)})
    return pairs


def _disputed(ids: Iterable[str], by_reviewer: Mapping[str, Decisions]) -> list[str]:
    """Return those of these candidates on which reviewers differ."""
    return [id for id in ids if len({made[id] for made in by_reviewer.values() if id in made}) > 1]


def run_agreement(session: Session, run_id: str) -> Record:
    """Return how far reviewers agree with each other and with the verdict on a run's candidates.

    `pairs` of raters may contain the verdict, on candidates that it accepted or rejected. `disputed` are
    candidates on which reviewers differ, `against_verdict` those on which a reviewer differs from the verdict
    outside of audits, whose findings stay hidden until they are complete.
    """
    reviews = read_reviews(session, of_run(run_id))
    verdicts = (
        select(VerdictRow.candidate_id, VerdictRow.status)
        .join(StandingRow, StandingRow.verdict_id == VerdictRow.id)
        .where(StandingRow.run_id == run_id, StandingRow.review_id.is_not(None))
        .where(VerdictRow.status.in_(("accepted", "rejected")))
    )
    judged = dict(session.execute(verdicts).all())
    by_reviewer: dict[str, dict[str, str]] = {}
    for review in reviews:
        by_reviewer.setdefault(review.reviewer, {})[review.candidate_id] = review.decision
    outside = {(each.candidate_id, each.reviewer): each.decision for each in reviews if each.audit_id is None}
    against = {id for (id, _), decision in outside.items() if judged.get(id, decision) != decision}
    return {
        "pairs": _agreements({**by_reviewer, VERDICT: judged}),
        "disputed": _disputed(sorted({review.candidate_id for review in reviews}), by_reviewer),
        "against_verdict": sorted(against),
    }


def error_rates(members: Sequence[AuditMember], reviews: Sequence[ReviewRow]) -> Record:
    """Return the error rates of the verdicts at the time of the draw, as one JSON object.

    `false_accept` is the share that reviewers rejected of the reviewed candidates that the verdict accepted,
    `false_reject` the reverse. The newest decision (highest id) on a candidate counts; `reviewers` shows each
    one's rates. Candidates without a decision are left out, so rates of an unfinished audit are provisional.
    The lists `false_accepts` and `false_rejects` reveal verdicts: hide them until the audit is complete.
    """
    by_status = {
        status: [member.candidate_id for member in members if member.status == status] for status in STRATA
    }
    sizes = {member.status: member.stratum_size for member in members}
    newest = _newest(members, reviews)
    by_reviewer = {
        name: _newest(members, [review for review in reviews if review.reviewer == name])
        for name in sorted({review.reviewer for review in reviews})
    }

    def rate(status: str, decision: str, decisions: Decisions = newest) -> Record:
        made = [decisions[id] for id in by_status[status] if id in decisions]
        return _rate(made.count(decision), len(made))

    def wrong(status: str, decision: str) -> list[str]:
        return [id for id in by_status[status] if newest.get(id) == decision]

    strata = [
        {"status": name, "size": sizes[name], "drawn": len(ids), "rejected": rate(name, "rejected")}
        for name, ids in by_status.items()
        if ids
    ]
    return {
        "drawn": len(members),
        "reviewed": len(newest),
        "open": len(members) - len(newest),
        "complete": len(members) == len(newest),
        "strata": strata,
        "false_accept": rate("accepted", "rejected"),
        "false_reject": rate("rejected", "accepted"),
        "broken": _broken([stratum for stratum in strata if stratum["status"] in PUBLISHABLE]),
        "reviewers": [
            {
                "reviewer": reviewer,
                "reviewed": len(decisions),
                "false_accept": rate("accepted", "rejected", decisions),
                "false_reject": rate("rejected", "accepted", decisions),
            }
            for reviewer, decisions in by_reviewer.items()
            if decisions
        ],
        "agreements": _agreements(by_reviewer),
        "disputed": _disputed((member.candidate_id for member in members), by_reviewer),
        "false_accepts": wrong("accepted", "rejected"),
        "false_rejects": wrong("rejected", "accepted"),
    }


def group_rate(
    members: Sequence[AuditMember], questions: Mapping[str, str], reviews: Sequence[ReviewRow]
) -> Record:
    """Return the share of groups with a broken neighbor; `questions` is the question of each member.

    The share `broken` is over fully reviewed groups. Including others with a rejected neighbor would
    overestimate it, since a broken group is known sooner than an intact one. `low` and `high` are the exact
    interval over all drawn, for every outcome of the open ones.
    """
    newest = _newest(members, reviews)
    groups: dict[str, list[str | None]] = {}
    for member in members:
        groups.setdefault(questions[member.candidate_id], []).append(newest.get(member.candidate_id))
    complete = [made for made in groups.values() if None not in made]
    broken = [question for question, made in groups.items() if "rejected" in made]
    undecided = sum(None in made and "rejected" not in made for made in groups.values())
    return {
        "size": members[0].stratum_size,
        "drawn": len(groups),
        "complete": len(complete),
        "broken": _rate(sum("rejected" in made for made in complete), len(complete)),
        "broken_groups": broken,
        "open": undecided,
        "low": exact_interval(len(broken), len(groups), CONFIDENCE)[0],
        "high": exact_interval(len(broken) + undecided, len(groups), CONFIDENCE)[1],
    }


def _newest(members: Sequence[AuditMember], reviews: Sequence[ReviewRow]) -> dict[str, str]:
    """Return the newest decision on each member that has one."""
    ids = {member.candidate_id for member in members}
    ordered = sorted(reviews, key=lambda review: review.id)
    return {review.candidate_id: review.decision for review in ordered if review.candidate_id in ids}


def _rate(count: int, reviewed: int) -> Record:
    """Return a share with its exact interval; all three are None if nothing was reviewed."""
    share = (count / reviewed, *exact_interval(count, reviewed, CONFIDENCE)) if reviewed else (None,) * 3
    return {"count": count, "reviewed": reviewed, "share": share[0], "low": share[1], "high": share[2]}


def _broken(strata: Sequence[Record]) -> Record:
    """Return the share that reviewers would reject of all publishable candidates, weighted by the strata.

    The interval combines exact ones of the strata that hold together with 95% (Bonferroni). All is None if a
    stratum has no review yet.
    """
    sizes = {stratum["status"]: stratum["size"] for stratum in strata}
    rejected = [stratum["rejected"] for stratum in strata]
    if not strata or not all(each["reviewed"] for each in rejected):
        return {"statuses": sizes, "share": None, "low": None, "high": None}
    confidence, weights = 1 - (1 - CONFIDENCE) / len(strata), np.array(list(sizes.values()))
    intervals = [exact_interval(each["count"], each["reviewed"], confidence) for each in rejected]
    bounds = [(each["share"], *interval) for each, interval in zip(rejected, intervals, strict=True)]
    share, low, high = np.average(bounds, axis=0, weights=weights).tolist()
    return {"statuses": sizes, "share": share, "low": low, "high": high}


_AUDITS: Select[*tuple[Any, ...]] = (
    select(
        AuditRow.id, RunRow.id, RunRow.name, AuditRow.kind, AuditRow.seed, AuditRow.size, AuditRow.created_at
    )
    .join(RunRow, RunRow.id == AuditRow.run_id)
    .order_by(AuditRow.id)
)


@dataclass(frozen=True)
class Audit:
    """A drawn audit of candidates, or of questions ("groups") with all their accepted neighbors.

    `members` are in the order of review, which is independent of their verdicts.
    """

    id: int
    run_id: str
    run_name: str
    kind: Kind
    seed: int
    size: int
    created_at: str
    members: tuple[AuditMember, ...] = ()


def open_audit(
    db: Database, run: Run, *, kind: Kind = "candidates", size: int, seed: int
) -> tuple[Audit, bool]:
    """Return the audit of this run, kind, seed and size, drawn if there is none yet, and whether it is new.

    It is drawn from all candidates whose newest verdict in the run is final, by the verdict alone: earlier
    reviews do not move a candidate to another stratum. Once drawn it stays as it is.
    """
    with db.write() as session:
        drawing: Record = {"run_id": run.id, "kind": kind, "seed": seed, "size": size}
        number = session.scalar(select(AuditRow.id).filter_by(**drawing))
        if number is not None:
            return get_audit(session, number), False
        strata: dict[str, list[str]] = {name: [] for name in STRATA}
        accepted: dict[str, list[str]] = defaultdict(list)
        verdicts = session.execute(
            select(StandingRow.question_id, VerdictRow.candidate_id, VerdictRow.status)
            .join(StandingRow, StandingRow.verdict_id == VerdictRow.id)
            .where(StandingRow.run_id == run.id, VerdictRow.final.is_(True))
        )
        for question_id, candidate_id, status in verdicts:
            strata[status].append(candidate_id)
            if status == "accepted":
                accepted[question_id].append(candidate_id)
        groups = kind == "groups"
        members = (
            draw_groups(accepted, size=size, seed=seed) if groups else draw(strata, size=size, seed=seed)
        )
        if not members:
            lacks = "accepted candidate" if groups else "candidate with a final verdict"
            raise InputError(
                f"run {run.name!r} has no {lacks}, so there is nothing to audit. `tagrpo runs show "
                f"{run.name}` reports its state."
            )
        row = AuditRow(**drawing, created_at=utc_now())
        session.add(row)
        session.flush()
        ids = {"audit_id": row.id}
        rows = [{**ids, "position": place, **vars(member)} for place, member in enumerate(members)]
        session.execute(insert(AuditMemberRow), rows)
        return get_audit(session, row.id), True


def get_audit(session: Session, audit_id: int) -> Audit:
    """Return an audit by number."""
    stored = session.execute(_AUDITS.where(AuditRow.id == audit_id)).one_or_none()
    if stored is None:
        audits_there = ", ".join(f"{id} (of {run})" for id, _, run, *_ in session.execute(_AUDITS))
        hint = audits_there or "none yet. Create one with `tagrpo rephrase audit`"
        raise NotFoundError(f"there is no audit {audit_id}. Available: {hint}.")
    members = session.execute(
        select(*columns_of(AuditMemberRow, AuditMember))
        .where(AuditMemberRow.audit_id == audit_id)
        .order_by(AuditMemberRow.position)
    )
    return replace(Audit(*stored), members=tuple(AuditMember(*member) for member in members))


def list_audits(session: Session, run_id: str) -> list[Audit]:
    """Return the audits of a run, oldest first, without their members."""
    return [Audit(*row) for row in session.execute(_AUDITS.where(AuditRow.run_id == run_id))]


def audit_queue(session: Session, audit: Audit, reviewer: str) -> list[str]:
    """Return the ids of the audit's candidates that this reviewer has not decided for it, in its order."""
    decided = decisions_by(session, reviewer, ReviewRow.audit_id == audit.id)
    return [member.candidate_id for member in audit.members if member.candidate_id not in decided]


def audit_progress(session: Session, audit: Audit, reviewer: str) -> ReviewProgress:
    """Return the numbers of the reviewer's decisions on an audit's members."""
    made = list(decisions_by(session, reviewer, ReviewRow.audit_id == audit.id).values())
    return ReviewProgress(len(audit.members), made.count("accepted"), made.count("rejected"))


def audit_rates(session: Session, audit: Audit) -> Record:
    """Return the error rates from the decisions made for this audit so far.

    `groups` is the share of groups with a broken neighbor; None for an audit of candidates.
    """
    reviews, groups = read_reviews(session, ReviewRow.audit_id == audit.id), None
    if audit.kind == "groups":
        row, member = CandidateRow, AuditMemberRow
        query = select(row.id, row.question_id).join(member, member.candidate_id == row.id)
        questions = dict(session.execute(query.where(member.audit_id == audit.id)).all())
        groups = group_rate(audit.members, questions, reviews)
    return {**error_rates(audit.members, reviews), "groups": groups}


def audit_record(audit: Audit, rates: Record, *, new: bool) -> Record:
    """Return an audit and its rates as one JSON object; members are in the order of review.

    Verdicts, and which groups are broken, are left out until the audit is complete. Errors within a question
    may be correlated, so in an audit of groups the rate of neighbors has no interval.
    """
    hidden = set[str]() if rates["complete"] else {"false_accepts", "false_rejects", "broken_groups"}
    record = dict(rates)
    groups = record.pop("groups")
    if groups is not None:
        hidden |= {"strata", "broken", "false_accept", "false_reject", "false_rejects"}
        record["broken_neighbors"] = {name: rates["false_accept"][name] for name in ("count", "reviewed")}
        record["groups"] = {name: value for name, value in groups.items() if name not in hidden - {"broken"}}
    visible = None if rates["complete"] else {"candidate_id"}
    return {
        "audit": audit.id,
        "run": audit.run_name,
        "run_id": audit.run_id,
        "kind": audit.kind,
        "sample": audit.size,
        "seed": audit.seed,
        "created_at": audit.created_at,
        "new": new,
        "complete": rates["complete"],
        **{name: value for name, value in record.items() if name not in hidden},
        "members": [
            {name: value for name, value in vars(member).items() if visible is None or name in visible}
            for member in audit.members
        ],
    }
