"""Wording statistics of a set's neighbors: lengths, and distances to questions and siblings."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from sqlalchemy import and_, func, select
from sqlalchemy.orm import Session

from rephraser.checks.wording import likeness_of_words, wording
from rephraser.tables import CandidateRow, NeighborSetMemberRow, NeighborSetQuestionRow
from service.questions.tables import QuestionRow

QUESTIONS_SAMPLED = 300


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
    """Wording of a set's neighbors, on `questions` of its questions drawn with `seed` (all if fewer).

    Attributes:
        length: characters of a neighbor divided by those of its question.
        from_question: distance of a neighbor's wording from its question's (`rephraser.checks.wording`).
        among_siblings: the same between two neighbors of a question; None if no question has two.
        by_strategy: the first two by strategy.
    """

    questions: int
    seed: int
    neighbors: int
    length: Summary | None
    from_question: Summary | None
    among_siblings: Summary | None
    by_strategy: dict[str, tuple[Summary, Summary]]


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
    every = [value for values in lengths.values() for value in values]
    return Wordings(
        questions=len(texts),
        seed=seed,
        neighbors=len(every),
        length=_summary(every),
        from_question=_summary([value for values in distances.values() for value in values]),
        among_siblings=_summary(siblings),
        by_strategy={
            strategy: (length, distance)
            for strategy in sorted(lengths)
            if (length := _summary(lengths[strategy])) and (distance := _summary(distances[strategy]))
        },
    )


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
    entries: dict[int, tuple[str, list[tuple[str, str]]]] = {}
    for position, question, strategy, text in rows:
        entry = entries.setdefault(position, (question, []))
        if text is not None:
            entry[1].append((strategy, text))
    return [entries[position] for position in sorted(entries)]


def _summary(values: Sequence[float]) -> Summary | None:
    if not values:
        return None
    ordered = sorted(values)
    p10, median, p90 = (ordered[round(share * (len(ordered) - 1))] for share in (0.1, 0.5, 0.9))
    return Summary(len(ordered), sum(ordered) / len(ordered), p10, median, p90)
