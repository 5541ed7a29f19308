"""Intervals of a share of trials, and two of a mean over problems, each named by the question it answers.

- "new problems": the score on other problems like these. The M problems are a sample.
- "same problems, new samples": the score on exactly these problems. Only the n samples vary.

docs/reference/intervals.md explains which to use; benchmarks/studies/passk_coverage.py measures their
coverage.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evaluator.passk.estimators import Floats, Ints, pass_hat_k

NEW_PROBLEMS = "new problems"
SAME_PROBLEMS = "same problems, new samples"
RERUN = "same problems, new samples: the range of a rerun"

UPPER_TAIL = 0.975
RARE = 5  # if fewer problems than this would be solved, or unsolved, use the t interval over M + 2
_EQUAL = 1e-24  # smaller variances come from rounding
_LEAST_SPREAD, _MOST_SPREAD = 0.02, 0.98
_CELLS_AT_ONCE = 4_000_000


class Interval(NamedTuple):
    """A 95% interval."""

    low: float
    high: float


def new_problems_interval(values: Sequence[float] | NDArray[Any]) -> Interval:
    """Return the interval of the mean over the population that the problems were drawn from.

    Wilson's interval (JASA 1927) with the effective size n_e = m(1-m) / (s^2/M), which is at least M - 1, and
    the t quantile of M - 1 degrees, for any per-problem estimate within 0 to 1: pass@k, pass^k, G-Pass@k.

    If M * min(m, 1-m) < 5, so always for fewer than 10 problems, it is the t interval (M + 1 degrees) of the
    values with one 0 and one 1 added, clipped to 0..1. If all values are equal otherwise, n_e = M.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"an interval needs one value per problem, not an array of shape {array.shape}")
    if not ((array >= -1e-12) & (array <= 1 + 1e-12)).all():
        raise ValueError("the value of each problem must be between 0 and 1")
    low, high = new_problems_bounds(array)
    return Interval(float(low), float(high))


def new_problems_bounds(values: Floats) -> tuple[Floats, Floats]:
    """Return low and high of `new_problems_interval` for values[..., M], without checks."""
    from scipy.special import stdtrit

    problems = values.shape[-1]
    mean = values.mean(axis=-1)
    rare = problems * np.minimum(mean, 1 - mean) < RARE
    if problems == 1:
        low, high = np.zeros_like(mean), np.ones_like(mean)
    else:
        variance = values.var(axis=-1, ddof=1)
        equal = variance < _EQUAL
        size = np.where(equal, problems, mean * (1 - mean) * problems / np.where(equal, 1.0, variance))
        size = np.maximum(size, problems - 1)
        z = stdtrit(problems - 1, UPPER_TAIL)
        middle = (mean + z**2 / (2 * size)) / (1 + z**2 / size)
        half = z * np.sqrt(mean * (1 - mean) / size + z**2 / (4 * size**2)) / (1 + z**2 / size)
        low, high = middle - half, middle + half
    if rare.any():
        both = np.concatenate([values, np.broadcast_to([0.0, 1.0], (*values.shape[:-1], 2))], axis=-1)
        half = stdtrit(problems + 1, UPPER_TAIL) * both.std(axis=-1, ddof=1) / np.sqrt(problems + 2)
        low = np.where(rare, both.mean(axis=-1) - half, low)
        high = np.where(rare, both.mean(axis=-1) + half, high)
    # Rounding must not put the mean outside.
    return np.clip(np.minimum(low, mean), 0, 1), np.clip(np.maximum(high, mean), 0, 1)


def interval_around(ends: Sequence[float], errors: Sequence[Any], rerun: bool = False) -> Interval:
    """Return the 95% interval over exactly these problems; only the samples are random.

    It reaches from z errors below the first value to z errors above the last, clipped to 0..1; for the range
    of another run of that size the errors are sqrt(2) times as large. The errors are of
    `same_problems_errors`.
    """
    from scipy.special import ndtri

    z = float(ndtri(UPPER_TAIL)) * (2**0.5 if rerun else 1.0)
    return Interval(max(0.0, ends[0] - z * float(errors[0])), min(1.0, ends[-1] + z * float(errors[-1])))


def same_problems_errors(n: Ints, c: Ints, ks: Sequence[int]) -> Floats:
    """Return the standard error [K] of mean pass@k over these problems, from new samples alone.

    Empirical Bayes: the problems' success rates have a Beta(a, b) prior, fitted by moments (`fit_rates`).
    Each problem adds the variance of its estimate at rate p, averaged over Beta(c + a, n - c + b). So a
    problem with c = 0 or c = n adds to the error; by c/n alone it would seem certain.
    """
    a, b = fit_rates(n, c)
    pairs, times = np.unique(np.stack([n, c]), axis=1, return_counts=True)
    total = np.zeros(len(ks))
    for samples in np.unique(pairs[0]).tolist():
        here = pairs[0] == samples
        correct = pairs[1][here].astype(np.float64)
        total += times[here] @ estimate_variances(samples, correct + a, samples - correct + b, ks)
    errors: Floats = np.sqrt(total) / len(n)
    return errors


def fit_rates(n: Ints, c: Ints) -> tuple[float, float]:
    """Return a and b of the Beta distribution of the problems' success rates, by moments.

    r = (s^2 / (m(1-m)) - h) / (1 - h), clipped to .02 to .98, with m and s^2 the mean and variance of c/n and
    h the mean of 1/n; S = 1/r - 1, a = mS, b = (1-m)S. If the data do not determine r (one problem, one
    sample each), it is .02, the widest interval. If all samples are wrong, or all right, m is (sum c + 1/2) /
    (sum n + 1).
    """
    rates = c / n
    mean, share = float(rates.mean()), float(np.mean(1 / n))
    spread = _LEAST_SPREAD
    if not 0 < mean < 1:
        mean = (float(c.sum()) + 0.5) / (float(n.sum()) + 1)
    elif len(n) > 1 and share < 1:
        spread = (float(rates.var(ddof=1)) / (mean * (1 - mean)) - share) / (1 - share)
        spread = min(max(spread, _LEAST_SPREAD), _MOST_SPREAD)
    size = 1 / spread - 1
    return mean * size, (1 - mean) * size


def estimate_variances(n: int, a: Floats, b: Floats, ks: Sequence[int]) -> Floats:
    """Return the variance [len(a), K] of a problem's estimate from n samples, averaged over rates Beta(a, b).

    In closed form: with w = C(n-x, k)/C(n, k) the estimate is 1 - w, its mean at rate p is 1 - (1-p)^k, so
    the averaged variance is E w^2 over the beta-binomial x minus E (1-p)^{2k}, a product.
    """
    from scipy.special import betaln, gammaln

    hits = np.arange(n + 1)
    squares = np.stack([np.asarray(pass_hat_k(n, n - hits, k)) for k in ks], axis=1) ** 2
    ways = gammaln(n + 1) - gammaln(hits + 1) - gammaln(n - hits + 1)
    result = np.empty((len(a), len(ks)))
    step = max(1, _CELLS_AT_ONCE // (n + 1))
    for start in range(0, len(a), step):
        alpha, beta = a[start : start + step, None], b[start : start + step, None]
        chances = np.exp(ways + betaln(hits + alpha, n - hits + beta) - betaln(alpha, beta))
        factors = np.cumprod(
            (beta + np.arange(2 * max(ks))) / (alpha + beta + np.arange(2 * max(ks))), axis=1
        )
        result[start : start + step] = chances @ squares / chances.sum(axis=1, keepdims=True)
        result[start : start + step] -= factors[:, 2 * np.array(ks) - 1]
    return np.maximum(result, 0)


def exact_interval(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the exact two-sided interval of a binomial share (Clopper and Pearson, Biometrika 1934).

    It covers the true share with at least the confidence for every number of trials: it is never too short,
    often slightly long.
    """
    if trials < 1 or not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes in {trials} trials are impossible, so there is no interval")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, but is {confidence}")
    from scipy.special import betaincinv

    tail = (1 - confidence) / 2
    low = 0.0 if successes == 0 else float(betaincinv(successes, trials - successes + 1, tail))
    high = 1.0 if successes == trials else float(betaincinv(successes + 1, trials - successes, 1 - tail))
    return low, high
