"""Counts of graded, correct and unknown samples per problem, and pass@k over k, all on the same problems."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from evaluator.passk.estimators import Floats, IntegerArray, Ints, pass_at_k, whole_numbers
from evaluator.passk.intervals import Interval, interval_around, new_problems_bounds, same_problems_errors
from service.errors import InputError

_NAMED = 5  # maximum ids in a message


class Counts:
    """Counts of M problems, at least one, as read-only int64 arrays in the order of the ids.

    Args:
        problem_ids: M different ids.
        n: Samples [M]: correct, wrong and unknown ones. 0 is allowed here, but not in a curve.
        correct: Samples graded correct [M].
        unknown: Samples without a known grade [M]: the grader ran out of time, or they were requested but are
            missing. Without it, all grades are known.
    """

    def __init__(
        self,
        problem_ids: Iterable[str],
        n: IntegerArray,
        correct: IntegerArray,
        unknown: IntegerArray | None = None,
    ) -> None:
        self.problem_ids = ids = tuple(problem_ids)
        if not ids:
            raise InputError("the counts contain no problems, so there is nothing to estimate")
        if repeated := [key for key, times in Counter(ids).items() if times > 1]:
            raise InputError(f"problem ids are repeated: {named(repeated)}. Add their counts with pool first")
        self.n, self.correct = self._column("n", n), self._column("correct", correct)
        self.unknown = self._column("unknown", [0] * len(ids) if unknown is None else unknown)
        wrong = self.n - self.correct - self.unknown
        if wrong.min() < 0:
            at = int(np.argmin(wrong))
            raise InputError(
                f"problem {ids[at]}: {self.correct[at]} correct and {self.unknown[at]} unknown are more than "
                f"its {self.n[at]} samples"
            )

    def _column(self, name: str, values: IntegerArray) -> Ints:
        try:
            column = whole_numbers(name, values)
        except ValueError as error:
            raise InputError(f"counts: {error}") from None
        if column.shape != (len(self.problem_ids),):
            raise InputError(
                f"counts: {name} has shape {column.shape}, but there are {len(self.problem_ids)} problem ids"
            )
        if column.min() < 0:
            at = int(np.argmin(column))
            raise InputError(
                f"problem {self.problem_ids[at]}: {name} is {column[at]}, but must be at least 0"
            )
        column.flags.writeable = False
        return column

    @property
    def problems(self) -> int:
        return len(self.problem_ids)

    @property
    def most_correct(self) -> Ints:
        """Correct samples [M] if every unknown one were correct."""
        return self.correct + self.unknown

    def select(self, ids: Iterable[str]) -> "Counts":
        """Return the counts of some problems, in the order of these ids."""
        ids, rows = tuple(ids), {id: row for row, id in enumerate(self.problem_ids)}
        places = np.array([rows[id] for id in ids], dtype=np.int64)
        return Counts(ids, self.n[places], self.correct[places], self.unknown[places])


def pool(counts: Sequence[Counts]) -> Counts:
    """Add several runs or seeds over the same problems, in the order of the first.

    Pooling needs exchangeable samples: runs that differ in seeds only. The estimate from pooled counts is
    unbiased; a mean of the runs' curves ends at the smallest n and is noisier for large k.
    """
    if not counts:
        raise InputError("no runs to pool")
    first = counts[0]
    total = [first.n, first.correct, first.unknown]
    for other in counts[1:]:
        if differing := {*first.problem_ids} ^ {*other.problem_ids}:
            raise InputError(
                f"runs with different problems cannot be pooled: only one has {named(sorted(differing))}"
            )
        other = other.select(first.problem_ids)
        columns = (other.n, other.correct, other.unknown)
        total = [mine + theirs for mine, theirs in zip(total, columns, strict=True)]
    return Counts(first.problem_ids, *total)


def with_enough(
    several: Sequence[Counts], k: int, *, allow_missing: bool
) -> tuple[list[Counts], tuple[str, ...]]:
    """Return the counts of the problems with at least k samples in each, and the ids of the others."""
    fewest: dict[str, int] = {}
    for counts in several:
        for id, n in zip(counts.problem_ids, counts.n.tolist(), strict=True):
            fewest[id] = min(n, fewest.get(id, n))
    short = [id for id, n in fewest.items() if n < k]
    if len(short) == len(fewest):
        raise InputError(
            f"none of the {len(fewest)} problems has {k} graded samples (the maximum is "
            f"{max(fewest.values())}). Sample more responses, or choose a smaller k"
        )
    if short and not allow_missing:
        raise InputError(
            f"{len(short)} of {len(fewest)} problems have fewer than {k} graded samples: {named(short)}. "
            "Sample more responses, choose a smaller k, or pass --allow missing to exclude these problems"
        )
    kept = [[id for id in counts.problem_ids if fewest[id] >= k] for counts in several]
    if not all(kept):
        raise InputError(f"no problem of one of the methods has {k} graded samples")
    return [counts.select(ids) for counts, ids in zip(several, kept, strict=True)], tuple(short)


def named(ids: Sequence[str]) -> str:
    """Return the first ids and the number of the others, for messages."""
    if not ids:
        return "none"
    named = ", ".join(ids[:_NAMED])
    return named if len(ids) <= _NAMED else f"{named} and {len(ids) - _NAMED} more"


@dataclass(frozen=True)
class CurvePoint:
    """Mean pass@k of the curve's problems.

    If some grades are unknown, `value` counts them wrong and `value_high` right; the true value is between.
    Each interval then starts at the low end for all unknown wrong, and ends at the high end for all unknown
    right.
    """

    k: int
    value: float
    value_high: float
    new_problems: Interval
    same_problems: Interval
    rerun: Interval
    problems: int


def curve(counts: Counts, ks: Iterable[int]) -> dict[int, CurvePoint]:
    """Return pass@k by ascending k with both kinds of interval; all problems need max(ks) samples."""
    wanted = check_ks(ks)
    [kept], _ = with_enough([counts], wanted[-1], allow_missing=False)
    low, high = values_over_k(kept.n, kept.correct, wanted), values_over_k(kept.n, kept.most_correct, wanted)
    new_low, new_high = new_problems_bounds(low)[0], new_problems_bounds(high)[1]
    sides = (kept.correct, kept.most_correct) if kept.unknown.any() else (kept.correct,)
    errors = np.stack([same_problems_errors(kept.n, correct, wanted) for correct in sides], axis=1)
    points = {}
    for row, k in enumerate(wanted):
        ends = float(low[row].mean()), float(high[row].mean())
        same, rerun = (interval_around(ends, errors[row], again) for again in (False, True))
        new = Interval(float(new_low[row]), float(new_high[row]))
        points[k] = CurvePoint(k, *ends, new, same, rerun, kept.problems)
    return points


def values_over_k(n: Ints, c: Ints, ks: tuple[int, ...]) -> Floats:
    """Return pass@k of each problem [K, M]."""
    values: Floats = pass_at_k(n, c, np.array(ks)[:, None])
    return values


def check_ks(ks: Iterable[int]) -> tuple[int, ...]:
    """Return the ks ascending, each once."""
    try:
        wanted = sorted(set(whole_numbers("k", list(ks)).tolist()))
    except ValueError as error:
        raise InputError(str(error)) from None
    if not wanted or wanted[0] < 1:
        raise InputError(
            "a curve needs at least one k" if not wanted else f"k must be at least 1, not {wanted[0]}"
        )
    return tuple(wanted)
