"""Neighbor sets in pages: what changed between two versions, counted and paged; rates, lengths, wordings."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

from sqlalchemy import ColumnElement, Select, and_, case, func, or_, select, tuple_
from sqlalchemy.orm import Session, aliased

from rephraser.checks.wording import likeness_of_words, wording
from rephraser.reviews.status import STATUSES
from rephraser.sets.counts import AcceptRate, accept_rates
from rephraser.sets.types import SetHeader
from rephraser.tables import CandidateRow, NeighborSetMemberRow, NeighborSetQuestionRow
from rephraser.views.search import standing_counts
from service.questions.tables import QuestionRow

ChangeKind = Literal["added", "removed", "changed"]
QUESTIONS_SAMPLED = 300


@dataclass(frozen=True)
class ChangeCounts:
    """What differs between two versions; `changed` neighbors are in both with another verdict or origin."""

    questions_added: int
    questions_removed: int
    added: int
    removed: int
    changed: int


@dataclass(frozen=True)
class ChangedMember:
    """A neighbor that was added, removed or changed. The key of a page is (question_id, position)."""

    question_id: str
    position: int
    candidate_id: str
    text: str
    strategy: str
    model: str
    verdict: str
    posterior: float | None
    reviewed: bool
    before: str | None  # the verdict in the other version; None where it is not in it


@dataclass(frozen=True)
class Summary:
    """Quantiles of a number over a sample."""

    count: int
    mean: float
    p10: float
    median: float
    p90: float


@dataclass(frozen=True)
class Wordings:
    """How a set's neighbors are worded, on `questions` of its questions drawn by `seed` (all if fewer).

    Attributes:
        length: characters of a neighbor over those of its question.
        from_question: distance of a neighbor's wording from its question's (`rephraser.checks.wording`).
        among_siblings: the same between two neighbors of a question; None where no question has two.
        by_strategy: the first two by strategy.
    """

    questions: int
    seed: int
    neighbors: int
    length: Summary | None
    from_question: Summary | None
    among_siblings: Summary | None
    by_strategy: dict[str, tuple[Summary, Summary]]


def count_changes(session: Session, a_id: str, b_id: str) -> ChangeCounts:
    """Return how many questions and neighbors differ between the versions with these ids.

    Walks one version once; published versions never change, so the result may be kept.
    """
    in_both, changed = session.execute(_both(b_id, a_id)).one()
    questions = _questions_in_both(session, a_id, b_id)
    members = {id: _size(session, NeighborSetMemberRow, id) for id in (a_id, b_id)}
    sizes = {id: _size(session, NeighborSetQuestionRow, id) for id in (a_id, b_id)}
    return ChangeCounts(
        questions_added=sizes[b_id] - questions,
        questions_removed=sizes[a_id] - questions,
        added=members[b_id] - in_both,
        removed=members[a_id] - in_both,
        changed=int(changed or 0),
    )


def page_changes(
    session: Session,
    a_id: str,
    b_id: str,
    kind: ChangeKind,
    *,
    after: tuple[str, int] | None = None,
    limit: int = 25,
) -> list[ChangedMember]:
    """Return up to `limit` neighbors of a kind behind the key `after`, on the way from version a to b.

    `removed` ones stand as they were in a, the others as they are in b.
    """
    query, here, there = _members(a_id, b_id, kind) if kind == "removed" else _members(b_id, a_id, kind)
    key = tuple_(here.question_id, here.position)
    if after is not None:
        query = query.where(here.question_id >= after[0], key > after)
    rows = session.execute(
        query.join(CandidateRow, CandidateRow.id == here.candidate_id)
        .with_only_columns(
            here.question_id,
            here.position,
            here.candidate_id,
            CandidateRow.text,
            here.strategy,
            here.model,
            here.verdict,
            here.posterior,
            here.reviewed,
            there.verdict,
        )
        .order_by(here.question_id, here.position)
        .limit(limit)
    )
    return [ChangedMember(*row) for row in rows]


def set_rates(header: SetHeader, by: Literal["strategy", "model"] = "strategy") -> list[AcceptRate]:
    """Return the accept rates published with a version, by strategy or by model; none if it was imported."""
    proposals = header.counts.get("proposals", ())
    return accept_rates(proposals if by == "strategy" else [{**p, "strategy": p["model"]} for p in proposals])


def run_rates(
    session: Session, run_id: str, by: Literal["strategy", "model"] = "strategy"
) -> list[AcceptRate]:
    """Return the accept rates of a run as they are now, by strategy or by model (named `strategy` too)."""
    groups: dict[tuple[str, str], dict[str, Any]] = {}
    for one in standing_counts(session, run_id):
        name = one.strategy if by == "strategy" else one.model
        record = groups.setdefault(
            (name, one.proposer), {"strategy": name, **dict.fromkeys((*STATUSES, "pending"), 0)}
        )
        record[one.status] += one.candidates
    return accept_rates(list(groups.values()))


def wordings(session: Session, set_id: str, *, questions: int = QUESTIONS_SAMPLED, seed: int = 0) -> Wordings:
    """Return lengths and differences of wording over a sample of a version's questions."""
    last = session.scalar(
        select(func.max(NeighborSetQuestionRow.position)).where(NeighborSetQuestionRow.set_id == set_id)
    )
    size = 0 if last is None else last + 1
    places = range(size) if size <= questions else sorted(random.Random(seed).sample(range(size), questions))
    texts = _texts(session, set_id, list(places))
    lengths: dict[str, list[float]] = {}
    distances: dict[str, list[float]] = {}
    siblings: list[float] = []
    for question, neighbors in texts:
        words = wording(question)
        sets = [(strategy, text, wording(text)) for strategy, text in neighbors]
        for strategy, text, mine in sets:
            lengths.setdefault(strategy, []).append(len(text) / max(len(question), 1))
            distances.setdefault(strategy, []).append(1 - likeness_of_words(words, mine))
        siblings += [1 - likeness_of_words(x, y) for (_, _, x), (_, _, y) in combinations(sets, 2)]
    found = [value for values in lengths.values() for value in values]
    return Wordings(
        questions=len(texts),
        seed=seed,
        neighbors=len(found),
        length=_summary(found),
        from_question=_summary([value for values in distances.values() for value in values]),
        among_siblings=_summary(siblings),
        by_strategy={
            strategy: (length, distance)
            for strategy in sorted(lengths)
            if (length := _summary(lengths[strategy])) and (distance := _summary(distances[strategy]))
        },
    )


def _both(of: str, other: str) -> Select[*tuple[Any, ...]]:
    """Return the query of how many members both have, and how many of those they have otherwise."""
    here, there = aliased(NeighborSetMemberRow), aliased(NeighborSetMemberRow)
    return (
        select(func.count(), func.sum(case((_differs(here, there), 1), else_=0)))
        .select_from(here)
        .join(there, _same(here, there, other))
        .where(here.set_id == of)
    )


def _members(of: str, other: str, kind: ChangeKind) -> Any:
    """Return the query of members of `of` that `other` lacks or has otherwise, and both sides."""
    here, there = aliased(NeighborSetMemberRow), aliased(NeighborSetMemberRow)
    query = select(here.question_id).where(here.set_id == of)
    if kind == "changed":
        return query.join(there, _same(here, there, other)).where(_differs(here, there)), here, there
    missing = there.candidate_id.is_(None)
    return query.outerjoin(there, _same(here, there, other)).where(missing), here, there


def _same(here: Any, there: Any, other: str) -> ColumnElement[bool]:
    # A candidate belongs to one question, so its id says all.
    return and_(there.candidate_id == here.candidate_id, there.set_id == other)


def _differs(here: Any, there: Any) -> ColumnElement[bool]:
    fields = ("verdict", "posterior", "reviewed", "strategy", "strategy_hash", "model", "proposer")
    return or_(*(getattr(here, name).is_distinct_from(getattr(there, name)) for name in fields))


def _size(session: Session, table: Any, set_id: str) -> int:
    return session.scalar(select(func.count()).where(table.set_id == set_id)) or 0


def _questions_in_both(session: Session, a_id: str, b_id: str) -> int:
    here, there = aliased(NeighborSetQuestionRow), aliased(NeighborSetQuestionRow)
    query = (
        select(func.count())
        .select_from(here)
        .join(there, and_(there.question_id == here.question_id, there.set_id == b_id))
        .where(here.set_id == a_id)
    )
    return session.scalar(query) or 0


def _texts(session: Session, set_id: str, places: Sequence[int]) -> list[tuple[str, list[tuple[str, str]]]]:
    rows = session.execute(
        select(
            NeighborSetQuestionRow.position,
            QuestionRow.text,
            NeighborSetMemberRow.strategy,
            CandidateRow.text,
        )
        .join(QuestionRow, QuestionRow.id == NeighborSetQuestionRow.question_id)
        .outerjoin(
            NeighborSetMemberRow,
            and_(NeighborSetMemberRow.set_id == set_id, NeighborSetMemberRow.question_id == QuestionRow.id),
        )
        .outerjoin(CandidateRow, CandidateRow.id == NeighborSetMemberRow.candidate_id)
        .where(NeighborSetQuestionRow.set_id == set_id, NeighborSetQuestionRow.position.in_(places))
    )
    found: dict[int, tuple[str, list[tuple[str, str]]]] = {}
    for position, question, strategy, text in rows:
        entry = found.setdefault(position, (question, []))
        if text is not None:
            entry[1].append((strategy, text))
    return [found[position] for position in sorted(found)]


def _summary(values: Sequence[float]) -> Summary | None:
    if not values:
        return None
    ordered = sorted(values)
    p10, median, p90 = (ordered[round(share * (len(ordered) - 1))] for share in (0.1, 0.5, 0.9))
    return Summary(len(ordered), sum(ordered) / len(ordered), p10, median, p90)
