"""Pairs the members of two collections whatever their order. Pure."""

from collections import Counter
from collections.abc import Sequence

from evaluator.grading.outcomes import DIFFERENT, EXACT, Judged
from evaluator.grading.types import GradeValue

_STRENGTH = {"exact": 0, "choice": 0, "numeric": 1, "symbolic": 2, "tolerance": 3}


def without_common(gold: Sequence[str], answer: Sequence[str]) -> tuple[list[str], list[str]]:
    """Both collections without the members that they spell alike."""
    common = Counter(gold) & Counter(answer)
    return _without(gold, common), _without(answer, common)


def _without(members: Sequence[str], common: Counter[str]) -> list[str]:
    left = Counter(common)
    rest = []
    for member in members:
        if left[member]:
            left[member] -= 1
        else:
            rest.append(member)
    return rest


def matched(judged: Sequence[Sequence[Judged]]) -> Judged:
    """The outcome of the best pairing, given the outcome of every row (gold) with every column (answer)."""
    correct = [[one is not None and one.value is GradeValue.CORRECT for one in row] for row in judged]
    paired = pairing(correct)
    if paired is None:
        possible = [[one is None or one.value is not GradeValue.WRONG for one in row] for row in judged]
        paired = pairing(possible)
    if paired is None:
        return DIFFERENT
    return all_of([judged[row][column] for row, column in enumerate(paired)])


def all_of(judged: Sequence[Judged]) -> Judged:
    """Wrong if any part is wrong, else open if any is open, else unknown if any is unknown, else correct."""
    known = [part for part in judged if part is not None]
    if any(part.value is GradeValue.WRONG for part in known):
        return DIFFERENT
    if len(known) < len(judged):
        return None
    unknown = next((part for part in known if part.value is GradeValue.UNKNOWN), None)
    return unknown or max(known, key=lambda part: _STRENGTH.get(part.reason, 0), default=EXACT)


def pairing(allowed: Sequence[Sequence[bool]]) -> list[int] | None:
    """A perfect matching of rows to columns (augmenting paths), or None when there is none."""
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
    return [column for column, _ in sorted(row_of.items(), key=lambda item: item[1])]
