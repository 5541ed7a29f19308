"""One model of a question's and its neighbors' success rates on a grid, fitted to a pilot.

A question's rate has a distribution over questions (`RateModel`); given it, the rates of its neighbors are
independent departures from it (`Shift`). The model holds what the joint group of TA-GRPO
(arXiv 2601.22478v5, Eq. 3) depends on: how much the prompts of a question have in common. A distribution is
of one of three families, from stiff to free: the beta-binomial, with masses at rates of 0 and 1 added, or
with free weights on the grid (nonparametric maximum likelihood by EM, Laird, JASA 1978).

`profile_interval` asks what else goes with the counts. m responses fix no more than the first m moments of
the rates (Lord, Psychometrika 1969), so it widens beyond them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import exp
from typing import Any, Literal, get_args

import numpy as np

from evaluator.signal.groups import Floats, GroupCounts, Ints
from service.errors import InputError

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
FOLDS = 5
_ROUNDS, _ROUND_GAIN = 40, 1e-6
_NEGLIGIBLE = 1e-3  # of log-likelihood a group: no reason for a freer family
_STRAYS_BEFORE = 2.0  # neighbors' worth of Beta(1/2, 1/2), so that a few strays are not fitted one by one
_STRAY_STEPS = 10


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
class RateModel:
    """The fitted model: success rates of questions on the grid, and how those of neighbors depart from them.

    `parameters` are those of the distribution's family (none for "free").
    """

    family: Family
    weights: Floats
    parameters: tuple[float, ...] = ()
    shift: Shift | None = None  # None for a pilot without neighbors

    def log_likelihood(self, likelihoods: Floats) -> Floats:
        """Return the log-likelihood of each row of likelihoods [R, J]."""
        logs: Floats = np.log(np.maximum(likelihoods @ self.weights, _SMALLEST))
        return logs

    def posterior(self, likelihoods: Floats) -> Floats:
        """Return the posterior of the rate given each row of likelihoods [R, J]."""
        joint: Floats = likelihoods * self.weights
        joint /= np.maximum(joint.sum(axis=1, keepdims=True), _SMALLEST)
        return joint


def fit_weights(
    family: Family,
    likelihoods: Floats,
    times: Floats,
    start: RateModel | None = None,
    *,
    steps: int = _EM_STEPS,
) -> RateModel:
    """Return the most likely model of a family, for rows of likelihoods [R, J] that occur `times` [R].

    Args:
        start: A model of the same family to start from.
        steps: At most so many steps of EM, or evaluations per parameter.
    """
    if start is not None and start.family != family:
        start = None
    if family == "free":
        return RateModel(family, _free_weights(likelihoods, times / times.sum(), start, steps))
    first = start.parameters if start else (0.0, 0.0) if family == "beta" else (0.0, 0.0, -2.0, -2.0)

    def loss(parameters: Floats) -> float:
        density = np.maximum(likelihoods @ _beta_weights(parameters), _SMALLEST)
        return -float(times @ np.log(density)) / float(times.sum())

    best = nelder_mead(loss, np.array(first), maxfev=max(60, steps * len(first) // 2), fatol=1e-7)
    return RateModel(family, _beta_weights(best), tuple(best.tolist()))


def nelder_mead(loss: Callable[[Floats], float], start: Floats, **options: Any) -> Floats:
    """Return where the loss is least near `start`, by the simplex method, `maxfev` evaluations at most."""
    from scipy import optimize

    minimize: Any = optimize.minimize  # its stubs know no plain function of an array
    best: Floats = minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-3, **options}).x
    return best


def _free_weights(likelihoods: Floats, share: Floats, start: RateModel | None, steps: int) -> Floats:
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
    """Return the weights of a Beta distribution, with masses at rates of 0 and 1 if they have odds."""
    a, b = np.exp(np.clip(parameters[:2], -6.0, 6.0)).tolist()
    weights, odds = beta_cells(a, b), np.exp(np.clip(parameters[2:], -15.0, 15.0))
    if len(odds):
        weights[[0, -1]] += odds
    normed: Floats = weights / (1 + odds.sum())
    return normed


_FIRST_SHIFT = Shift(0.0, 0.7, 0.05)


@dataclass(frozen=True)
class PilotRows:
    """Distinct rows of counts as numbers of distinct (correct, wrong) pairs, with likelihoods on the grid."""

    own: Floats  # likelihoods of a pair given its prompt's rate [U + 1, J]; the last row is of no counts: 1
    original: Ints  # numbers of pairs [R]; -1, so the last row, for a prompt that is not there
    neighbors: Ints  # likewise [R, K]
    times: Floats  # how often the row occurs [R]
    row_of: Ints  # from the groups of the whole pilot to its rows [V]

    @property
    def has_neighbors(self) -> bool:
        return bool((self.neighbors >= 0).any())

    def weighted(self, times_of_group: Ints) -> "PilotRows":
        """Return the rows of the groups that occur, each of them `times_of_group` [V]."""
        times = np.bincount(self.row_of, times_of_group).astype(np.float64)
        used = np.flatnonzero(times)
        return replace(self, original=self.original[used], neighbors=self.neighbors[used], times=times[used])

    def neighbor(self, shift: Shift) -> Floats:
        """Return the likelihood of a neighbor's counts given its question's rate [U + 1, J]."""
        table: Floats = self.own @ shift.chances().T
        return table

    def rows(self, shift: Shift | None) -> Floats:
        """Return the likelihood of each row given the question's rate [R, J], up to a factor."""
        originals: Floats = self.own[self.original]
        if shift is None or not self.has_neighbors:
            return originals
        logs = np.log(np.maximum(self.neighbor(shift), 1e-300))
        total = np.zeros_like(originals)
        for column in self.neighbors.T:
            total += logs[column]
        return np.asarray(originals * np.exp(np.maximum(total, -600.0)))

    def expected(self, posterior: Floats) -> Floats:
        """Return how often each pair of counts is a neighbor's at each rate of its question [U + 1, J]."""
        used = np.zeros_like(self.own)
        weighted = posterior * self.times[:, None]
        for column in self.neighbors.T:
            there = column >= 0
            np.add.at(used, column[there], weighted[there])
        return used


def make_pilot(counts: GroupCounts) -> PilotRows:
    """Return the counts with known grades as distinct rows, the neighbors of each in no order."""
    pairs, numbers = number_pairs(counts)
    numbers[:, 1:] = np.sort(numbers[:, 1:], axis=1)
    rows, row_of, times = np.unique(numbers, axis=0, return_inverse=True, return_counts=True)
    own = binomial_table(pairs[:, 0], pairs[:, 1])
    own = np.concatenate([own, np.ones((1, own.shape[1]))])
    return PilotRows(own, rows[:, 0], rows[:, 1:], times.astype(np.float64), row_of.ravel())


def number_pairs(counts: GroupCounts) -> tuple[Ints, Ints]:
    """Return the distinct (correct, wrong) pairs [U, 2] and the number of each prompt's [V, 1 + K], or -1."""
    flat = np.stack([counts.correct.ravel(), counts.wrong.ravel()], axis=1)
    pairs, numbers = np.unique(flat, axis=0, return_inverse=True)
    return pairs, np.where(counts.known > 0, numbers.reshape(counts.known.shape), -1)


def fit_rates(counts: GroupCounts, *, shift: Shift | None = None, seed: int = 0) -> RateModel:
    """Return the model fitted to the known grades of a pilot, by maximum likelihood.

    All families are fitted, and the stiffest is taken whose mean log-likelihood on questions held
    out (5 folds over questions, the shift fitted to all) lies within one standard error of the best one.

    Args:
        counts: A row is one visit of a question.
        shift: Taken as it is; else fitted if the pilot has neighbors.
    """
    counts = counts.rows(counts.known.sum(axis=1) > 0)
    if counts.questions < 2:
        raise InputError(
            f"a forecast needs at least 2 questions with graded responses, not {counts.questions}."
        )
    pilot = make_pilot(counts)
    fits = {name: fit_given(pilot, name, shift) for name in FAMILIES}
    return fits[_cross_validate(counts, pilot, fits, seed)]


def fit_given(
    pilot: PilotRows,
    family: Family,
    shift: Shift | None = None,
    start: RateModel | None = None,
    *,
    rounds: int = _ROUNDS,
) -> RateModel:
    """Fit the weights of a family and, unless given, the shift in turns until the likelihood hardly grows."""
    free_shift = shift is None and pilot.has_neighbors
    current = shift if not free_shift else (start.shift if start and start.shift else _FIRST_SHIFT)
    model, best = start, -np.inf
    steps = 60 if free_shift else 500
    for _ in range(rounds if free_shift else 1):
        likelihoods = pilot.rows(current)
        model = fit_weights(family, likelihoods, pilot.times, model, steps=steps)
        if not free_shift or current is None:
            break
        reached = float(pilot.times @ model.log_likelihood(likelihoods)) / float(pilot.times.sum())
        if reached - best < _ROUND_GAIN:
            break
        best = reached
        current = _improve_shift(pilot.own, pilot.expected(model.posterior(likelihoods)), current)
    assert model is not None  # there is at least one round
    return replace(model, shift=current)


def _improve_shift(own: Floats, expected: Floats, start: Shift) -> Shift:
    """Return a likelier shift, given how often each pair of counts is a neighbor's at each rate [U + 1, J].

    EM: the share of strays and their rates, then mean and deviation of the others by the simplex method.
    """
    used = expected.sum(axis=1) > 0
    own, expected = own[used], expected[used]
    total = float(expected.sum())
    prior = _STRAYS_BEFORE * beta_cells(0.5, 0.5)
    stray, strays = start.stray, start.stray_weights()
    related = own @ start.related().T
    for _ in range(_STRAY_STEPS):
        of_strays = own @ strays
        table = (1 - stray) * related + stray * of_strays[:, None]
        weights = (expected * stray * of_strays[:, None] / np.maximum(table, 1e-300)).sum(axis=1)  # [U]
        stray = min(max(float(weights.sum()) / total, 1e-6), 1 - 1e-6)
        strays = prior + strays * (own.T @ (weights / np.maximum(of_strays, 1e-300)))
        strays = strays / strays.sum()
    of_strays = stray * (own @ strays)[:, None]

    def read(parameters: Floats) -> Shift:
        mean, log_sd = parameters.tolist()
        return Shift(
            min(max(mean, -LARGEST_SHIFT), LARGEST_SHIFT),
            min(exp(max(log_sd, -4.0)), LARGEST_SHIFT) if log_sd < LARGEST_SHIFT else LARGEST_SHIFT,
            stray,
            strays=tuple(strays.tolist()),
        )

    def loss(parameters: Floats) -> float:
        table = (1 - stray) * (own @ read(parameters).related().T) + of_strays
        return -float((expected * np.log(np.maximum(table, 1e-300))).sum()) / total

    first = np.array([start.mean, np.log(max(start.sd, 0.02))])
    simplex = first + np.array([[0, 0], [0.15, 0], [0, 0.25]])
    return read(nelder_mead(loss, first, maxfev=40, fatol=1e-8, initial_simplex=simplex))


def _cross_validate(
    counts: GroupCounts, pilot: PilotRows, fits: dict[Family, RateModel], seed: int
) -> Family:
    """Return the first family that predicts questions it was not fitted to as well as the best one does.

    Compared are mean log-likelihoods of a group; as well: within a standard error over questions.
    """
    _, question = np.unique(counts.question, return_inverse=True)
    number = int(question.max()) + 1
    folds = min(FOLDS, number)
    fold_of = np.random.default_rng(seed).permutation(number) % folds
    scores: dict[Family, Floats] = {}
    for family, fit in fits.items():
        likelihoods = pilot.rows(fit.shift)
        by_visit = np.empty(len(pilot.row_of))
        for fold in range(folds):
            out = fold_of[question] == fold
            times = np.bincount(pilot.row_of[~out], minlength=len(pilot.times)).astype(np.float64)
            # What was fitted to all groups must not leak into the free weights.
            start = None if family == "free" else fit
            fitted = fit_weights(family, likelihoods, times, start, steps=200)
            by_visit[out] = fitted.log_likelihood(likelihoods)[pilot.row_of[out]]
        scores[family] = np.bincount(question, weights=by_visit) / np.bincount(question)
    best = max(scores.values(), key=lambda values: float(values.mean()))
    behind = {family: best - values for family, values in scores.items()}
    return next(
        family
        for family, values in behind.items()
        if values.mean() <= max(values.std(ddof=1) / np.sqrt(number), _NEGLIGIBLE)
    )


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
