"""Distributions of success rates over questions, fitted to counts: on the grid of `rates`.

Three families, from stiff to free. The beta-binomial has two parameters; the second adds masses at rates of 0
and 1 (questions never and always solved); the third leaves the weights of the grid free (nonparametric
maximum likelihood by EM, Laird, JASA 1978, stopped where the likelihood hardly grows).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from evaluator.signal.groups import Floats
from evaluator.signal.rates import beta_cells, rates

Family = Literal["beta", "beta and masses", "free"]
FAMILIES: tuple[Family, ...] = get_args(Family)

_EM_STEPS = 500
_EM_GAIN = 1e-7  # of the log-likelihood of a group
_SMALLEST = 1e-300


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
    """Return the most likely mixture of a family.

    Args:
        likelihoods: of each row of counts at each rate of the grid [R, J].
        times: how often each row occurs [R]; any weights of at least 0.
        start: a mixture of the same family to start from.
        steps: at most so many steps of EM, or evaluations per parameter.
    """
    return _FITS[family](likelihoods, times, start if start and start.family == family else None, steps)


def _fit_free(likelihoods: Floats, times: Floats, start: Mixture | None, steps: int) -> Mixture:
    weights = np.full(len(rates()), 1 / len(rates())) if start is None else start.weights
    share = times / times.sum()
    best = -np.inf
    for _ in range(steps):
        density = np.maximum(likelihoods @ weights, _SMALLEST)
        reached = float(share @ np.log(density))
        weights = weights * (likelihoods.T @ (share / density))
        if reached - best < _EM_GAIN:
            break
        best = reached
    return Mixture("free", weights / weights.sum())


def _fit_beta(likelihoods: Floats, times: Floats, start: Mixture | None, steps: int) -> Mixture:
    found = _search(_beta_weights, likelihoods, times, start.parameters if start else (0.0, 0.0), steps)
    return Mixture("beta", _beta_weights(found), tuple(found.tolist()))


def _fit_masses(likelihoods: Floats, times: Floats, start: Mixture | None, steps: int) -> Mixture:
    first = start.parameters if start else (0.0, 0.0, -2.0, -2.0)
    found = _search(_mass_weights, likelihoods, times, first, steps)
    return Mixture("beta and masses", _mass_weights(found), tuple(found.tolist()))


def _beta_weights(parameters: Floats) -> Floats:
    a, b = np.exp(np.clip(parameters[:2], -6.0, 6.0)).tolist()
    return beta_cells(a, b)


def _mass_weights(parameters: Floats) -> Floats:
    odds = np.exp(np.clip(parameters[2:], -15.0, 15.0))
    weights: Floats = _beta_weights(parameters) / (1 + odds.sum())
    weights[0] += odds[0] / (1 + odds.sum())
    weights[-1] += odds[1] / (1 + odds.sum())
    return weights


def _search(
    weights: Callable[[Floats], Floats],
    likelihoods: Floats,
    times: Floats,
    start: tuple[float, ...],
    steps: int,
) -> Floats:
    def loss(parameters: Floats) -> float:
        density = np.maximum(likelihoods @ weights(parameters), _SMALLEST)
        return -float(times @ np.log(density)) / float(times.sum())

    return nelder_mead(loss, np.array(start), maxfev=max(60, steps * len(start) // 2), fatol=1e-7)


def nelder_mead(loss: Callable[[Floats], float], start: Floats, **options: Any) -> Floats:
    """Return where the loss is least near `start`, by the simplex method, `maxfev` evaluations at most."""
    from scipy import optimize

    minimize: Any = optimize.minimize  # its stubs know no plain function of an array
    found: Floats = minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-3, **options}).x
    return found


_FITS: dict[Family, Callable[[Floats, Floats, Mixture | None, int], Mixture]] = {
    "beta": _fit_beta,
    "beta and masses": _fit_masses,
    "free": _fit_free,
}
