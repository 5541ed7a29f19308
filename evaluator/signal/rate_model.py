"""One model of a question's and its neighbors' success rates, fitted to a pilot.

A question's rate has a distribution over questions (`mixtures`); given it, the rates of its neighbors are
independent departures from it (`rates.Shift`). The model holds what the joint group of TA-GRPO
(arXiv 2601.22478v5, Eq. 3) depends on: how much the prompts of a question have in common.
"""

from dataclasses import dataclass
from math import exp

import numpy as np

from evaluator.signal.groups import Floats, GroupCounts, Ints
from evaluator.signal.rates import (
    FAMILIES,
    LARGEST_SHIFT,
    Family,
    Mixture,
    Shift,
    beta_cells,
    binomial_table,
    fit_mixture,
    nelder_mead,
)
from service.errors import InputError

FOLDS = 5
_ROUNDS, _GAIN = 40, 1e-6
_NEGLIGIBLE = 1e-3  # of log-likelihood a group: no reason for a freer family
_FIRST_SHIFT = Shift(0.0, 0.7, 0.05)
_STRAYS_BEFORE = 2.0  # neighbors' worth of Beta(1/2, 1/2), so that a few strays are not fitted one by one
_STRAY_STEPS = 10


@dataclass(frozen=True)
class PilotRows:
    """Distinct rows of counts as numbers of distinct (correct, wrong) pairs, with likelihoods on the grid."""

    own: Floats  # likelihoods of a pair given its prompt's rate [U + 1, J]; the last row is of no counts: 1
    original: Ints  # numbers of pairs [R]; -1, so the last row, for a prompt that is not there
    neighbors: Ints  # likewise [R, K]
    times: Floats  # how often the row occurs [R]
    row_of: Ints  # from the groups to the rows [V]

    @property
    def has_neighbors(self) -> bool:
        return bool((self.neighbors >= 0).any())

    def drawn(self, groups: Ints) -> "PilotRows":
        """Return the pilot of these groups, by number; a group may be there several times."""
        times = np.bincount(self.row_of[groups], minlength=len(self.times))
        used = np.flatnonzero(times)
        places = np.cumsum(times > 0) - 1
        return PilotRows(
            self.own,
            self.original[used],
            self.neighbors[used],
            times[used].astype(np.float64),
            places[self.row_of[groups]],
        )

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


@dataclass(frozen=True)
class RateModel:
    """The fitted model. `shift` is None for a pilot without neighbors."""

    mixture: Mixture
    shift: Shift | None


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
    mixture = start.mixture if start else None
    best = -np.inf
    steps = 60 if free_shift else 500
    for _ in range(rounds if free_shift else 1):
        likelihoods = pilot.rows(current)
        mixture = fit_mixture(family, likelihoods, pilot.times, mixture, steps=steps)
        if not free_shift or current is None:
            break
        reached = float(pilot.times @ mixture.log_likelihood(likelihoods)) / float(pilot.times.sum())
        if reached - best < _GAIN:
            break
        best = reached
        current = _improve_shift(pilot.own, pilot.expected(mixture.posterior(likelihoods)), current)
    assert mixture is not None  # there is at least one round
    return RateModel(mixture, current)


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
            start = None if family == "free" else fit.mixture
            fitted = fit_mixture(family, likelihoods, times, start, steps=200)
            by_visit[out] = fitted.log_likelihood(likelihoods)[pilot.row_of[out]]
        scores[family] = np.bincount(question, weights=by_visit) / np.bincount(question)
    best = max(scores.values(), key=lambda values: float(values.mean()))
    behind = {family: best - values for family, values in scores.items()}
    return next(
        family
        for family, values in behind.items()
        if values.mean() <= max(values.std(ddof=1) / np.sqrt(number), _NEGLIGIBLE)
    )
