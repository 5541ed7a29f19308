"""Wording statistics of a set's neighbors: lengths, and distances to questions and siblings."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from rephraser.checks.wording import likeness_of_words, wording
from rephraser.sets.store import load_entries
from rephraser.tables import NeighborSetQuestionRow

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
    by_strategy: dict[str, tuple[Summary | None, Summary | None]]


def wordings(session: Session, set_id: str, *, questions: int = QUESTIONS_SAMPLED, seed: int = 0) -> Wordings:
    """Return lengths and differences of wording over a sample of a version's questions."""
    row = NeighborSetQuestionRow
    size = session.scalar(select(func.count()).select_from(row).where(row.set_id == set_id)) or 0
    places = range(size) if size <= questions else sorted(random.Random(seed).sample(range(size), questions))
    entries = load_entries(session, set_id, places)
    measured: list[tuple[str, float, float]] = []  # strategy, length, distance from the question
    siblings: list[float] = []
    for entry in entries:
        question, words = entry.question.text, wording(entry.question.text)
        sets = [wording(neighbor.text) for neighbor in entry.neighbors]
        measured += [
            (each.strategy, len(each.text) / max(len(question), 1), 1 - likeness_of_words(words, mine))
            for each, mine in zip(entry.neighbors, sets, strict=True)
        ]
        siblings += [1 - likeness_of_words(x, y) for x, y in combinations(sets, 2)]

    def summaries(strategy: str | None = None) -> tuple[Summary | None, Summary | None]:
        chosen = [each for each in measured if strategy in (None, each[0])]
        return _summary([length for _, length, _ in chosen]), _summary([away for _, _, away in chosen])

    length, from_question = summaries()
    return Wordings(
        questions=len(entries),
        seed=seed,
        neighbors=len(measured),
        length=length,
        from_question=from_question,
        among_siblings=_summary(siblings),
        by_strategy={strategy: summaries(strategy) for strategy in sorted({each[0] for each in measured})},
    )


def _summary(values: Sequence[float]) -> Summary | None:
    if not values:
        return None
    ordered = sorted(values)
    p10, median, p90 = (ordered[round(share * (len(ordered) - 1))] for share in (0.1, 0.5, 0.9))
    return Summary(len(ordered), sum(ordered) / len(ordered), p10, median, p90)
