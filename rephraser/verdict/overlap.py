"""The OVERLAP rule: shared answers accept; no shared and a dominant new answer rejects."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Self

from service.errors import InputError

FEWEST_SHARED = 2  # one shared answer, or one new answer, is an accident, not evidence


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


@dataclass(frozen=True)
class OverlapRule:
    """Thresholds of the OVERLAP rule and the sample sizes for which they were measured.

    The defaults meet three error rates at once, both if a candidate's success is a shift of its question's
    and if it is unrelated to it; see docs/studies/verdicts.md.
    """

    accept_overlap: int = 9  # accept from this many shared answers
    accept_over_new: int = 2  # and from more than this many times the candidate's largest new class
    accept_gold_from: int | None = 5  # with this many correct answers to the original, one must be correct
    reject_new: int = 11  # reject needs a new class with this many hits on the candidate
    reject_original_top: int = 5  # and a class with this many hits on the original
    original_samples: int = 32  # drawn once
    looks: tuple[int, ...] = (12, 16)  # answers at which a verdict is possible; more looks inflate the errors
    max_unparsed_share: float = 0.5  # of either side; with more the verdict is undecided

    def __post_init__(self) -> None:
        most = min(self.original_samples, self.looks[-1])
        if self.accept_overlap > most:
            raise InputError(
                f"overlap rule: accept_overlap {self.accept_overlap} can never be reached with "
                f"{self.original_samples} answers to the original and {self.looks[-1]} to the candidate. "
                f"Give at most {most}, or sample more answers"
            )

    @classmethod
    def scaled(cls, original_samples: int, looks: tuple[int, ...]) -> Self:
        """Return the rule for other sample sizes, each threshold in proportion to its samples.

        Rounded up, and at least 2. The overlap is bounded by the smaller of the two samples and scales with
        it. `accept_over_new` is a ratio and stays. The error rates were measured for the default sizes only.
        """
        base = cls()

        def scale(threshold: int, samples: int, base_samples: int) -> int:
            return max(FEWEST_SHARED, ceil(threshold * samples / base_samples))

        last, base_last = looks[-1], base.looks[-1]
        return cls(
            accept_overlap=scale(base.accept_overlap, min(original_samples, last), base_last),
            accept_gold_from=base.accept_gold_from
            and scale(base.accept_gold_from, original_samples, base.original_samples),
            reject_new=scale(base.reject_new, last, base_last),
            reject_original_top=scale(base.reject_original_top, original_samples, base.original_samples),
            original_samples=original_samples,
            looks=looks,
        )


def overlap(counts: AnswerCounts) -> int:
    """Return O, the shared answers: the sum over classes, gold included, of the smaller count."""
    return sum(map(min, counts.original, counts.candidate))


def new_top(counts: AnswerCounts) -> int:
    """Return M, the size of the candidate's largest class that is not gold and not seen on the original."""
    return max((candidate for original, candidate in counts.wrong() if original == 0), default=0)


def original_top(counts: AnswerCounts) -> int:
    """Return T, the size of the original's largest class, gold included."""
    return max(counts.original, default=0)
