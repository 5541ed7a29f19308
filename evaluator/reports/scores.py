"""Scores of a method on a benchmark: a metric at each k, its bounds and its interval."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from evaluator.evals.votes import Votes, majority_values
from evaluator.passk import (
    NEW_PROBLEMS,
    SAME_PROBLEMS,
    Counts,
    curve,
    g_pass_at_k,
    new_problems_interval,
    pass_hat_k,
    same_problems_interval,
)
from evaluator.passk.counts import with_enough
from evaluator.passk.estimators import Floats, Ints
from service.errors import InputError

PASS_AT_K, PASS_HAT_K, G_PASS_AT_K, MAJ_AT_K = "pass@k", "pass^k", "g-pass@k", "maj@k"
METRICS = (PASS_AT_K, PASS_HAT_K, G_PASS_AT_K, MAJ_AT_K)
INTERVALS = {"new-problems": NEW_PROBLEMS, "same-problems": SAME_PROBLEMS}
"""Intervals by the names they have on the command line."""

Formula = Callable[[Ints, Ints, int], Floats]
"""From samples, correct samples and k to each problem's value."""


@dataclass(frozen=True)
class Metric:
    """What is reported. `tau` belongs to g-pass@k: the share of the k draws that must be correct."""

    name: str = PASS_AT_K
    tau: float = 0.5

    def __post_init__(self) -> None:
        if self.name not in METRICS:
            raise InputError(f"there is no metric {self.name!r}. Choose one of {', '.join(METRICS)}.")
        if not 0 <= self.tau <= 1:
            raise InputError(f"tau is {self.tau}, but must be between 0 and 1.")

    @classmethod
    def parse(cls, text: str) -> "Metric":
        """Return a metric by its name, which may end in tau, as in g-pass@k:0.5."""
        name, colon, tau = text.partition(":")
        try:
            return cls(name, float(tau)) if colon and name == G_PASS_AT_K else cls(text)
        except ValueError:
            raise InputError(f"--metric {text}: give the share as a number, as in g-pass@k:0.5.") from None

    def title(self, k: int) -> str:
        """Return the metric's name at k: pass@32."""
        named = self.name[:-1] + str(k)
        return f"{named} (tau {self.tau:g})" if self.name == G_PASS_AT_K else named


@dataclass(frozen=True)
class Score:
    """A metric at k, as a share."""

    k: int
    value: float  # unknown grades and missing samples counted wrong
    value_high: float  # the same counted correct
    low: float  # 95% interval of the question that `interval` names; it spans both values
    high: float
    interval: str
    problems: int  # that it rests on


def score(counts: Counts, metric: Metric, ks: Sequence[int], interval: str) -> tuple[Score, ...]:
    """Return the scores at `ks` of a metric that is a function of counts; all stand on the same problems.

    Args:
        interval: `NEW_PROBLEMS` or `SAME_PROBLEMS`; the latter for pass@k and pass^k only.
    """
    if metric.name == PASS_AT_K:
        estimates = curve(counts, ks)
        spans = [p.new_problems if interval == NEW_PROBLEMS else p.same_problems for p in estimates.points]
        return tuple(
            Score(p.k, p.value, p.value_high, span.low, span.high, interval, p.problems)
            for p, span in zip(estimates.points, spans, strict=True)
        )
    kept, _ = with_enough(counts, max(ks), allow_missing=False)
    if metric.name == PASS_HAT_K and interval == SAME_PROBLEMS:
        return tuple(_all_right_again(kept, k) for k in sorted(set(ks)))
    check_interval(metric, interval)
    formula = _formula(metric)
    return tuple(
        over_problems(k, formula(kept.n, kept.correct, k), formula(kept.n, kept.most_correct, k))
        for k in sorted(set(ks))
    )


def score_majority(votes: Votes, problem_ids: Sequence[str], ks: Sequence[int]) -> tuple[Score, ...]:
    """Return maj@k on the problems named."""
    chosen = {id: votes[id] for id in problem_ids}
    return tuple(over_problems(k, *majority_values(chosen, k)) for k in sorted(set(ks), reverse=True))[::-1]


def check_interval(metric: Metric, interval: str) -> None:
    """Refuse an interval that a metric has not."""
    if interval == SAME_PROBLEMS and metric.name not in (PASS_AT_K, PASS_HAT_K):
        raise InputError(f'{metric.name} has no "{SAME_PROBLEMS}" interval. Use --interval new-problems.')


def over_problems(k: int, low: Floats, high: Floats) -> Score:
    """Return the score of per-problem values, with unknown grades counted wrong and right: "new problems"."""
    below, above = new_problems_interval(low), new_problems_interval(high)
    return Score(k, float(low.mean()), float(high.mean()), below.low, above.high, NEW_PROBLEMS, len(low))


def average(scores: Sequence[Score]) -> Score:
    """Return the mean over benchmarks, each counting alike whatever its number of problems.

    Its interval is that of a sum of independent estimates by the method of variance estimates recovery (Zou
    and Donner, Statistics in Medicine 2008): the distances to the ends are the roots of the summed squares of
    the parts' distances, over their number. It needs nothing but the parts' own intervals, symmetric or not,
    and that no problem is in two of the benchmarks.
    """
    first = scores[0]
    number = len(scores)
    value = sum(part.value for part in scores) / number
    value_high = sum(part.value_high for part in scores) / number
    down = sqrt(sum((part.value - part.low) ** 2 for part in scores)) / number
    up = sqrt(sum((part.high - part.value_high) ** 2 for part in scores)) / number
    problems = sum(part.problems for part in scores)
    return Score(
        first.k,
        value,
        value_high,
        max(0.0, value - down),
        min(1.0, value_high + up),
        first.interval,
        problems,
    )


def _formula(metric: Metric) -> Formula:
    if metric.name == PASS_HAT_K:
        return lambda n, c, k: np.asarray(pass_hat_k(n, c, k))
    if metric.name == G_PASS_AT_K:
        return lambda n, c, k: np.asarray(g_pass_at_k(n, c, k, metric.tau))
    raise InputError(f"{metric.name} cannot be computed from counts.")


def _all_right_again(counts: Counts, k: int) -> Score:
    """pass^k of c correct is one minus pass@k of the n - c others, and so is its interval."""
    low, high = (
        same_problems_interval(counts.n, counts.n - correct, k)
        for correct in (counts.correct, counts.most_correct)
    )
    values = [
        float(np.mean(pass_hat_k(counts.n, correct, k))) for correct in (counts.correct, counts.most_correct)
    ]
    return Score(k, values[0], values[1], 1 - low.high, 1 - high.low, SAME_PROBLEMS, counts.problems)
