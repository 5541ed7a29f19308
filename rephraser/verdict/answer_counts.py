"""Answers to a question and to a candidate, counted by answer class."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class AnswerCounts:
    """Counts by answer class of the original question and of a candidate.

    A class is a set of mutually equal answers. Both tuples list the same classes in the same arbitrary order.
    The class of the gold answer may have no hits; `gold` is None if the gold's class is unknown. Answers
    without a parsed result belong to no class and are counted separately: a solver cut off at its token limit
    is no evidence about the problem. So are unsettled answers, whose comparison stayed unknown: they are
    neither shared nor new. Truncated answers are those among the unparsed whose response was cut off.
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

    @property
    def original_total(self) -> int:
        """Answers to the original that belong to a class."""
        return sum(self.original)

    @property
    def candidate_total(self) -> int:
        """Answers to the candidate that belong to a class."""
        return sum(self.candidate)

    @property
    def original_drawn(self) -> int:
        """All answers to the original, parsed or not."""
        return self.original_total + self.original_unparsed + self.original_unsettled

    @property
    def candidate_drawn(self) -> int:
        """All answers to the candidate, parsed or not."""
        return self.candidate_total + self.candidate_unparsed + self.candidate_unsettled

    @property
    def unsettled(self) -> int:
        """Answers of either side whose class is uncertain."""
        return self.original_unsettled + self.candidate_unsettled

    @property
    def original_gold(self) -> int:
        """Correct answers to the original; 0 if the gold class is unknown."""
        return 0 if self.gold is None else self.original[self.gold]

    @property
    def candidate_gold(self) -> int:
        """Correct answers to the candidate; 0 if the gold class is unknown."""
        return 0 if self.gold is None else self.candidate[self.gold]

    def wrong(self) -> list[tuple[int, int]]:
        """Return (original, candidate) counts of every class except the gold's."""
        pairs = list(zip(self.original, self.candidate, strict=True))
        return pairs if self.gold is None else pairs[: self.gold] + pairs[self.gold + 1 :]


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
