"""pass@k over k, every point on the same problems."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from evaluator.passk.counts import Counts, with_enough
from evaluator.passk.estimators import Floats, Ints, pass_at_k, whole_numbers
from evaluator.passk.intervals import Interval, interval_around, new_problems_bounds, same_problems_errors
from service.errors import InputError


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
