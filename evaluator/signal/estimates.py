"""Means over questions with the intervals of these diagnostics."""

from dataclasses import dataclass

import numpy as np

from evaluator.passk.intervals import RARE, new_problems_interval
from evaluator.signal.groups import Floats

NEW_QUESTIONS = "new questions"
"""The question every interval here answers: what would be seen on other questions like these?"""


@dataclass(frozen=True)
class Estimate:
    """A mean over questions. low and high are None where there are too few questions for an interval."""

    value: float
    low: float | None
    high: float | None
    questions: int


def share_estimate(values: Floats, confidence: float = 0.95) -> Estimate:
    """Return the mean of values in 0..1, one a question, with `new_problems_interval`.

    Raises:
        ValueError: no value, or one outside 0..1.
    """
    interval = new_problems_interval(values, confidence=confidence)
    return Estimate(float(values.mean()), interval.low, interval.high, len(values))


def difference_estimate(values: Floats, confidence: float = 0.95) -> Estimate:
    """Return the mean of paired differences of shares or rates, in -1..1, one a question, with its interval.

    The t interval, cut to -1..1. Where fewer than 5 questions differ at all it is that of the values with one
    -1 and one 1 added, so that a few equal questions do not look like certainty.

    Raises:
        ValueError: no value, or one outside -1..1.
    """
    if len(values) and not (np.abs(values) <= 1 + 1e-12).all():
        raise ValueError("differences of shares lie between -1 and 1")
    found = mean_estimate(values, confidence, bounds=(-1.0, 1.0))
    if np.count_nonzero(np.abs(values) > 1e-12) >= RARE:
        return found
    wider = mean_estimate(np.concatenate([values, [-1.0, 1.0]]), confidence, bounds=(-1.0, 1.0))
    low, high = wider.low, wider.high
    return Estimate(
        found.value,
        None if low is None else min(low, found.value),
        None if high is None else max(high, found.value),
        found.questions,
    )


def mean_estimate(
    values: Floats, confidence: float = 0.95, *, bounds: tuple[float, float] | None = None
) -> Estimate:
    """Return the mean of any values, one a question, with the t interval; without one for a single question.

    Args:
        bounds: between which the mean must lie; the interval is cut to them.

    Raises:
        ValueError: no value.
    """
    from scipy.special import stdtrit

    number = len(values)
    if number == 0:
        raise ValueError("a mean needs at least one value")
    mean = float(values.mean())
    if number == 1:
        return Estimate(mean, None, None, 1)
    half = float(stdtrit(number - 1, 0.5 + confidence / 2) * values.std(ddof=1) / np.sqrt(number))
    low, high = mean - half, mean + half
    if bounds is not None:
        low, high = max(low, bounds[0]), min(high, bounds[1])
    return Estimate(mean, low, high, number)
