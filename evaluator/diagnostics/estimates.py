"""Means over questions with the intervals of these diagnostics."""

from dataclasses import dataclass

import numpy as np

from evaluator.diagnostics.groups import Floats
from evaluator.passk.intervals import new_problems_interval

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


def mean_estimate(values: Floats, confidence: float = 0.95) -> Estimate:
    """Return the mean of any values, one a question, with the t interval; without one for a single question.

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
    return Estimate(mean, mean - half, mean + half, number)
