"""Success rates on a grid: likelihoods of counts, departures of neighbors, distributions over questions.

A distribution is of one of three families, from stiff to free: the beta-binomial, with masses at rates of 0
and 1 added, or with free weights on the grid (nonparametric maximum likelihood by EM, Laird, JASA 1978).

`profile_interval` asks what else goes with the counts. m responses fix no more than the first m moments of
the rates (Lord, Psychometrika 1969), so it widens beyond them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from evaluator.signal.groups import Floats, Ints

Family = Literal["beta", "beta and masses", "free"]
FAMILIES: tuple[Family, ...] = get_args(Family)
HIGHEST_LOGIT, STEP = 7.0, 0.25
LARGEST_SHIFT = 6.0
"""Logits: a fitted mean is within it on both sides, a fitted standard deviation below it."""
USUAL_STRAY = 0.3
"""Up to this share of neighbors unrelated to their question, one of them is odd; beyond it that is usual."""

_EM_STEPS = 500
_EM_GAIN = 1e-7  # of the log-likelihood of a group
_SMALLEST = 1e-300
_STEPS, _HALVINGS, _ENDS, _GAIN, _HEAVY = 30, 20, 10, 1e-3, 1e3  # of `profile_interval`


_INNER: Floats = np.arange(-HIGHEST_LOGIT, HIGHEST_LOGIT + STEP / 2, STEP)
RATES: Floats = np.concatenate([[0.0], 1 / (1 + np.exp(-_INNER)), [1.0]])
"""The success rates of the grid [J]: of logits -7 to 7 by a quarter, and at its ends exactly 0 and 1."""
_EDGES: Floats = np.append(_INNER, HIGHEST_LOGIT + STEP) - STEP / 2
"""The logits between neighboring cells of the grid [J - 1]."""
# The different distances between a rate and an edge, and which one leads from rate to edge.
_DISTANCES: Floats = STEP * (np.arange(1 - len(_INNER), len(_INNER) + 1, dtype=np.float64) - 0.5)
_DISTANCE_OF = np.arange(len(_EDGES))[None, :] - np.arange(len(_INNER))[:, None] + len(_INNER) - 1


def beta_cells(a: float, b: float) -> Floats:
    """Return the mass of Beta(a, b) in each cell of the grid [J]; what lies beyond logit 7 is rate 0 or 1."""
    from scipy.special import betainc, expit

    return np.diff(np.concatenate([[0.0], betainc(a, b, expit(_EDGES)), [1.0]]))


def binomial_table(correct: Ints, wrong: Ints) -> Floats:
    """Return the binomial likelihood p^c (1-p)^w [..., J] on the grid, each row scaled to a maximum of 1."""
    from scipy.special import xlog1py, xlogy

    logs = xlogy(correct[..., None], RATES) + xlog1py(wrong[..., None], -RATES)
    table: Floats = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return table


@dataclass(frozen=True)
class Shift:
    """How a neighbor's rate departs: logit p_n = logit p_0 + N(mean, sd^2); rates of 0 and 1 stay."""

    mean: float
    sd: float
    stray: float  # share of neighbors whose rate has nothing to do with the question's
    assumed: bool = False  # given by the user, not fitted
    # chance of each rate of the grid [J] for those; None: Beta(1/2, 1/2)
    strays: tuple[float, ...] | None = None

    @property
    def at_bound(self) -> str:
        """A warning if a fit is at one of its bounds, else empty."""
        largest = max(abs(self.mean) / LARGEST_SHIFT, self.sd / LARGEST_SHIFT, self.stray)
        if self.assumed or largest <= 0.99:
            return ""
        return (
            "the fit is at its bounds: neighbors differ too much for a logit shift to describe them. Ignore "
            "the mean, the spread and their intervals"
        )

    def related(self) -> Floats:
        """Return the chance [J, J] of each rate of a neighbor (columns) given the question's (rows)."""
        from scipy.special import ndtr

        below = ndtr((_DISTANCES - self.mean) / max(self.sd, 1e-3))[_DISTANCE_OF]
        size = len(below) + 2
        chances = np.zeros((size, size))
        chances[0, 0] = chances[-1, -1] = 1.0
        chances[1:-1, 0] = below[:, 0]
        chances[1:-1, 1:-1] = below[:, 1:] - below[:, :-1]
        chances[1:-1, -1] = 1 - below[:, -1]
        return chances

    def chances(self) -> Floats:
        """Return the chance [J, J] of a neighbor's rate given the question's, strays among them."""
        return (1 - self.stray) * self.related() + self.stray * self.stray_weights()

    def stray_weights(self) -> Floats:
        """Return the chance of each rate of a neighbor that has nothing to do with its question [J]."""
        return beta_cells(0.5, 0.5) if self.strays is None else np.array(self.strays)


@dataclass(frozen=True)
class Mixture:
    """A distribution over the grid of rates; `parameters` are those of its family (none for "free")."""

    family: Family
    weights: Floats
    parameters: tuple[float, ...] = ()

    def log_likelihood(self, likelihoods: Floats) -> Floats:
        """Return the log-likelihood of each row of likelihoods [R, J]."""
        logs: Floats = np.log(np.maximum(likelihoods @ self.weights, _SMALLEST))
        return logs

    def posterior(self, likelihoods: Floats) -> Floats:
        """Return the posterior of the rate given each row of likelihoods [R, J]."""
        joint: Floats = likelihoods * self.weights
        joint /= np.maximum(joint.sum(axis=1, keepdims=True), _SMALLEST)
        return joint


def fit_mixture(
    family: Family,
    likelihoods: Floats,
    times: Floats,
    start: Mixture | None = None,
    *,
    steps: int = _EM_STEPS,
) -> Mixture:
    """Return the most likely mixture of a family, for rows of likelihoods [R, J] that occur `times` [R].

    Args:
        start: A mixture of the same family to start from.
        steps: At most so many steps of EM, or evaluations per parameter.
    """
    if start is not None and start.family != family:
        start = None
    if family == "free":
        return Mixture(family, _free_weights(likelihoods, times / times.sum(), start, steps))
    weights = _beta_weights if family == "beta" else _mass_weights
    first = start.parameters if start else (0.0, 0.0) if family == "beta" else (0.0, 0.0, -2.0, -2.0)

    def loss(parameters: Floats) -> float:
        density = np.maximum(likelihoods @ weights(parameters), _SMALLEST)
        return -float(times @ np.log(density)) / float(times.sum())

    best = nelder_mead(loss, np.array(first), maxfev=max(60, steps * len(first) // 2), fatol=1e-7)
    return Mixture(family, weights(best), tuple(best.tolist()))


def nelder_mead(loss: Callable[[Floats], float], start: Floats, **options: Any) -> Floats:
    """Return where the loss is least near `start`, by the simplex method, `maxfev` evaluations at most."""
    from scipy import optimize

    minimize: Any = optimize.minimize  # its stubs know no plain function of an array
    best: Floats = minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-3, **options}).x
    return best


def _free_weights(likelihoods: Floats, share: Floats, start: Mixture | None, steps: int) -> Floats:
    weights = np.full(len(RATES), 1 / len(RATES)) if start is None else start.weights
    best = -np.inf
    for _ in range(steps):
        density = np.maximum(likelihoods @ weights, _SMALLEST)
        reached = float(share @ np.log(density))
        weights = weights * (likelihoods.T @ (share / density))
        if reached - best < _EM_GAIN:
            break
        best = reached
    normed: Floats = weights / weights.sum()
    return normed


def _beta_weights(parameters: Floats) -> Floats:
    a, b = np.exp(np.clip(parameters[:2], -6.0, 6.0)).tolist()
    return beta_cells(a, b)


def _mass_weights(parameters: Floats) -> Floats:
    odds = np.exp(np.clip(parameters[2:], -15.0, 15.0))
    weights: Floats = _beta_weights(parameters) / (1 + odds.sum())
    weights[0] += odds[0] / (1 + odds.sum())
    weights[-1] += odds[1] / (1 + odds.sum())
    return weights


def profile_interval(
    likelihoods: Floats, times: Floats, values: Floats, start: Floats
) -> tuple[float, float]:
    """Return the least and the largest share w @ values whose best w is within chi2 / 2 of the best of all.

    The log-likelihood is concave in the weights w, so the best weights of a given share can be found.

    Args:
        likelihoods: Of each row of counts at each rate of the grid [R, J].
        times: How often each row occurs [R]; rows of one question share one count between them.
        values: Of each rate [J], in 0..1.
        start: Weights to start from [J].
    """
    from scipy.special import chdtri

    problem = _Problem(likelihoods, times, values)
    weights = 0.99 * start + 0.01 / len(start)
    weights, best = problem.best(weights, None)
    least = best - float(chdtri(1, 0.05)) / 2
    low, high = (
        problem.end(weights, vertex, least) for vertex in (int(values.argmin()), int(values.argmax()))
    )
    return low, high


class _Problem:
    """Log-likelihoods of weights, and the best weights that have a share."""

    def __init__(self, likelihoods: Floats, times: Floats, values: Floats) -> None:
        self.likelihoods, self.times, self.values = likelihoods, times, values
        self._heavy = _HEAVY * float(np.sqrt(times.sum()))

    def log(self, weights: Floats) -> float:
        return float(self.times @ np.log(np.maximum(self.likelihoods @ weights, _SMALLEST)))

    def end(self, weights: Floats, vertex: int, least: float) -> float:
        """Return the share nearest to that of `vertex` whose best weights reach `least`, by bisection."""
        inside, outside = float(weights @ self.values), float(self.values[vertex])
        far = outside
        for _ in range(_ENDS):
            share, now = (inside + outside) / 2, float(weights @ self.values)
            if abs(far - now) < 1e-12:  # all weight is there already
                break
            part = (share - now) / (far - now)
            first = (1 - part) * weights
            first[vertex] += part
            moved, reached = self.best(first, share, enough=least)
            if reached >= least:
                inside, weights = share, moved
            else:
                outside = share
        return inside

    def best(self, weights: Floats, share: float | None, *, enough: float = np.inf) -> tuple[Floats, float]:
        """Return the best weights that have `share` (None: any), from some that have it, and their log.

        Newton's method with least squares under constraints (Wang, JRSS B 2007), the step halved until it is
        better. It ends early where `enough` is reached.
        """
        from scipy.optimize import nnls

        reached = self.log(weights)
        roots = np.sqrt(self.times)
        bounds = [np.ones(len(weights))] if share is None else [np.ones(len(weights)), self.values]
        limits = [1.0] if share is None else [1.0, share]
        for _ in range(_STEPS):
            if reached >= enough:
                break
            ratios = self.likelihoods / np.maximum(self.likelihoods @ weights, _SMALLEST)[:, None]
            rows = np.vstack([roots[:, None] * ratios, self._heavy * np.array(bounds)])
            wanted = np.concatenate([2 * roots, self._heavy * np.array(limits)])
            matrix, triangle = np.linalg.qr(rows)
            aim = nnls(triangle, matrix.T @ wanted, maxiter=100 * len(weights))[0]
            aim = aim / aim.sum()
            step, before = 1.0, reached
            for _ in range(_HALVINGS):
                tried = (1 - step) * weights + step * aim
                if (gained := self.log(tried)) > reached:
                    weights, reached = tried, gained
                    break
                step /= 2
            if reached - before < _GAIN:
                break
        return weights, reached
