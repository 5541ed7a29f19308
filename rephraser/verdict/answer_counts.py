"""Answers to a question and to a candidate, counted by answer class."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class AnswerCounts:
    """Counts by answer class of the original question and of a candidate, in the same arbitrary order.

    A class is a set of mutually equal answers. `gold` is the place of the gold answer's class, which may have
    no hits; None if it is unknown. Answers without a parsed result belong to no class: a response
    cut off at its token limit says nothing about the problem. Truncated answers are those of cut responses.
    Unsettled answers, whose comparison stayed unknown, are neither shared nor new.
    """

    original: tuple[int, ...]
    candidate: tuple[int, ...]
    gold: int | None
    original_unparsed: int = 0
    candidate_unparsed: int = 0
    original_unsettled: int = 0
    candidate_unsettled: int = 0
    original_truncated: int = 0
    candidate_truncated: int = 0

    def drawn(self, side: str) -> int:
        """Return the number of answers to a side ("original" or "candidate"), parsed or not."""
        classes: tuple[int, ...] = getattr(self, side)
        return sum(classes) + int(getattr(self, f"{side}_unparsed") + getattr(self, f"{side}_unsettled"))

    def correct(self, side: str) -> int:
        """Return the number of correct answers to a side; 0 if the gold class is unknown."""
        classes: tuple[int, ...] = getattr(self, side)
        return 0 if self.gold is None else classes[self.gold]

    @property
    def unsettled(self) -> int:
        """Answers of either side whose class is uncertain."""
        return self.original_unsettled + self.candidate_unsettled

    def wrong(self) -> list[tuple[int, int]]:
        """Return (original, candidate) counts of every class except the gold's."""
        pairs = enumerate(zip(self.original, self.candidate, strict=True))
        return [pair for place, pair in pairs if place != self.gold]


def count_answers(
    original: Sequence[Hashable | None], candidate: Sequence[Hashable | None], gold: Hashable | None
) -> AnswerCounts:
    """Count answers labelled by their class; None is an answer that could not be parsed.

    `gold` is the label of the gold answer's class, also if no answer has it; None if it is unknown. Classes
    are in order of first appearance, the gold's first.
    """
    counts_original, counts_candidate = Counter(original), Counter(candidate)
    labels = dict.fromkeys([gold, *original, *candidate])
    labels.pop(None, None)
    return AnswerCounts(
        original=tuple(counts_original[label] for label in labels),
        candidate=tuple(counts_candidate[label] for label in labels),
        gold=None if gold is None else 0,
        original_unparsed=counts_original[None],
        candidate_unparsed=counts_candidate[None],
    )
