"""The one protocol between the steps that compare two answers.

A step takes a normalized gold, a normalized answer and the comparison that they belong to. It returns a
grade, or None to pass the pair on to the next step. `exact` and `quantity` hold the steps, `compare` their
order.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

from evaluator.grading.types import DIFFERENT, EXACT, NEEDS_ALGEBRA, UNPARSABLE, Grade, GradeValue

_MOST_PAIRS = 4_000
_LONGEST_UNORDERED = 40
_DEEPEST = 12
_STRENGTH = {"exact": 0, "choice": 0, "numeric": 1, "symbolic": 2, "tolerance": 3}


class Limit(NamedTuple):
    """How far a number may be from the gold: a share of the gold, or a number."""

    size: Fraction
    relative: bool

    def allows(self, gold: Fraction, number: Fraction) -> bool:
        """Return True for a number within the limit."""
        return abs(gold - number) <= (self.size * abs(gold) if self.relative else self.size)


Step = Callable[[str, str, "PartComparison"], Grade | None]
Algebra = Callable[[str, str, Limit | None], Grade]


class PartComparison:
    """Compare two answers part by part.

    Args:
        steps: what is asked in turn about each pair of parts.
        algebra: settles what no step can; a grade is `NEEDS_ALGEBRA` without it.
        limit: how far numbers may be from the gold's.
    """

    def __init__(self, steps: Sequence[Step], algebra: Algebra | None, limit: Limit | None) -> None:
        self._steps = steps
        self.algebra = algebra
        self.limit = limit
        self._pairs = 0
        self._depth = 0

    def compare(self, gold: str, answer: str) -> Grade:
        """Return the grade of the first step that settles the pair."""
        if gold == answer:
            return EXACT
        self._pairs += 1
        if self._depth > _DEEPEST or self._pairs > _MOST_PAIRS:
            return UNPARSABLE
        self._depth += 1
        grades = (step(gold, answer, self) for step in self._steps)
        grade = next((grade for grade in grades if grade is not None), NEEDS_ALGEBRA)
        self._depth -= 1
        return grade

    def compare_members(self, golds: Sequence[str], answers: Sequence[str], *, ordered: bool) -> Grade:
        """Compare the members of two collections."""
        if len(golds) != len(answers):
            return DIFFERENT
        if not ordered:
            common = Counter(golds) & Counter(answers)
            golds, answers = (list((Counter(side) - common).elements()) for side in (golds, answers))
        if ordered or len(golds) > _LONGEST_UNORDERED:
            return all_of([self.compare(gold, answer) for gold, answer in zip(golds, answers, strict=True)])
        return best_pairing([[self.compare(gold, answer) for answer in answers] for gold in golds])


def best_pairing(grades: Sequence[Sequence[Grade]]) -> Grade:
    """Return the grade of the best pairing, given the grade of every gold (row) with every answer."""
    pairing = find_pairing([[grade.value is GradeValue.CORRECT for grade in row] for row in grades])
    if pairing is None:
        pairing = find_pairing([[grade.value is not GradeValue.WRONG for grade in row] for row in grades])
    if pairing is None:
        return DIFFERENT
    return all_of([grades[row][column] for row, column in enumerate(pairing)])


def all_of(grades: Sequence[Grade]) -> Grade:
    """Return wrong if any part is wrong, else unknown if any is unknown, else correct."""
    if any(grade.value is GradeValue.WRONG for grade in grades):
        return DIFFERENT
    if NEEDS_ALGEBRA in grades:
        return NEEDS_ALGEBRA
    unknown = next((grade for grade in grades if grade.value is GradeValue.UNKNOWN), None)
    return unknown or max(grades, key=lambda grade: _STRENGTH.get(grade.reason, 0), default=EXACT)


def find_pairing(allowed: Sequence[Sequence[bool]]) -> list[int] | None:
    """Return a perfect matching of rows to columns (augmenting paths), None when there is none."""
    row_of: dict[int, int] = {}

    def augment(row: int, seen: set[int]) -> bool:
        for column, fits in enumerate(allowed[row]):
            if fits and column not in seen:
                seen.add(column)
                if column not in row_of or augment(row_of[column], seen):
                    row_of[column] = row
                    return True
        return False

    if not all(augment(row, set()) for row in range(len(allowed))):
        return None
    return sorted(row_of, key=row_of.__getitem__)
