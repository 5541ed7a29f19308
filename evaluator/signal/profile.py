"""The interval of a share under any distribution of success rates: a profile likelihood.

A share of groups with equal rewards is linear in the distribution over questions, w @ h, and the
log-likelihood of the counts is concave in w. So the best distribution of all that have a given share can be
computed; those shares whose best one predicts the counts nearly as well as the best of all make the interval.
Far beyond the pilot's number of responses many shares go with the same counts, since m responses fix no more
than the first m moments of the rates (Lord, Psychometrika 1969): the interval holds that, where the shape of
a family would hide it.
"""

import numpy as np

from evaluator.signal.groups import Floats

_SMALLEST = 1e-300
_STEPS, _HALVINGS, _ENDS, _GAIN, _HEAVY = 30, 20, 10, 1e-3, 1e3


def profile_interval(
    likelihoods: Floats, times: Floats, values: Floats, start: Floats, confidence: float = 0.95
) -> tuple[float, float]:
    """Return the least and the largest share w @ values whose best w is within chi2 / 2 of the best of all.

    Args:
        likelihoods: of each row of counts at each rate of the grid [R, J].
        times: how often each row occurs [R]; rows of one question share one count between them.
        values: of each rate [J], in 0..1.
        start: weights to start from [J].
    """
    from scipy.special import chdtri

    problem = _Problem(likelihoods, times, values)
    weights = 0.99 * start + 0.01 / len(start)
    weights, best = problem.best(weights, None)
    least = best - float(chdtri(1, 1 - confidence)) / 2
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
        for _ in range(_ENDS):
            share = (inside + outside) / 2
            part = (share - float(weights @ self.values)) / (
                float(self.values[vertex]) - float(weights @ self.values)
            )
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

        Newton's method with least squares under constraints (Wang, JRSS B 2007): the log-likelihood's
        quadratic approximation is maximised over all weights, and the step halved until it is better. It ends
        early where `enough` is reached.
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
