"""Neighbors whose success rate does not fit their question: the answer may leak, or have changed."""

from typing import Literal

import numpy as np

from evaluator.signal.groups import Floats, GroupCounts, Ints
from evaluator.signal.rate_model import Likelihoods, RateModel, make_pilot
from evaluator.signal.rates import Shift, rates

Direction = Literal["too easy", "too hard"]


def shrunken_rates(counts: GroupCounts, model: RateModel) -> Floats:
    """Return the posterior mean of each prompt's success rate [V, 1 + K]; NaN where a prompt is not there.

    Empirical Bayes under the fitted model: a prompt with few samples is drawn towards what the other prompts
    of its question show, and towards all questions.

    Raises:
        ValueError: neighbors, and a model without a shift.
    """
    tables, posterior, pairs = _posteriors(counts, model)
    grid = rates()
    means = np.full(counts.correct.shape, np.nan)
    there = counts.known > 0
    means[:, 0] = np.where(there[:, 0], posterior @ grid, np.nan)
    if counts.neighbors and model.shift is not None:
        chances = model.shift.chances()
        given = (tables.own * grid) @ chances.T / np.maximum(tables.own @ chances.T, 1e-300)  # [U, J]
        for column in range(1, counts.correct.shape[1]):
            here = there[:, column]
            means[here, column] = (posterior[here] * given[pairs[here, column]]).sum(axis=1)
    return means


def tail_chances(counts: GroupCounts, model: RateModel) -> tuple[Floats, Floats]:
    """Return for each neighbor the chance of as few, and of as many, correct responses as it has [V, K].

    Posterior predictive, leaving the neighbor out: the question's rate is judged by its other prompts, and
    the neighbor's departs from it as `Shift` says, strays excluded. So a question's odd neighbor does not
    speak for itself, and many odd neighbors (which the fit counts as strays) do not excuse each other. NaN
    where a neighbor is not there or the question has no other prompt with known grades.

    Raises:
        ValueError: a model without a shift.
    """
    from scipy.special import bdtr, bdtrc

    if model.shift is None:
        raise ValueError("a model without a shift says nothing about neighbors")
    tables, _, pairs = _posteriors(counts, model)
    related = model.shift.related()
    logs = np.log(np.maximum(tables.neighbor(model.shift), 1e-300))
    own = np.concatenate([tables.own, np.ones((1, tables.own.shape[1]))])[pairs[:, 0]]
    known = counts.known > 0
    total = np.zeros_like(own)
    for column in range(1, counts.correct.shape[1]):
        total += np.where(known[:, column, None], logs[pairs[:, column]], 0.0)
    correct, wrong = tables.pilot.pairs[:, 0, None], tables.pilot.pairs[:, 1, None]
    grid = rates()
    few = bdtr(correct.astype(np.float64), correct + wrong, grid) @ related.T  # [U, J], given the question's
    at_least = np.where(correct > 0, bdtrc(np.maximum(correct - 1.0, 0), correct + wrong, grid), 1.0)
    many = at_least @ related.T
    low, high = np.full((2, len(own), counts.neighbors), np.nan)
    others = known.sum(axis=1) >= 2
    for column in range(1, counts.correct.shape[1]):
        here = known[:, column] & others
        pair = pairs[here, column]
        rest = total[here] - logs[pair]
        weights = model.mixture.weights * own[here] * np.exp(rest - rest.max(axis=1, keepdims=True))
        weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
        low[here, column - 1] = (weights * few[pair]).sum(axis=1)
        high[here, column - 1] = (weights * many[pair]).sum(axis=1)
    return np.clip(low, 0, 1), np.clip(high, 0, 1)


def false_discovery(p_values: Floats) -> Floats:
    """Return adjusted p-values of Benjamini and Hochberg (JRSS B 1995); those at most q keep the FDR at q.

    NaN stays NaN and is no test.
    """
    adjusted = np.full(p_values.shape, np.nan)
    tests = np.flatnonzero(~np.isnan(p_values))
    if len(tests):
        order = tests[np.argsort(-p_values[tests], kind="stable")]
        ranks = np.arange(len(tests), 0, -1)
        adjusted[order] = np.minimum.accumulate(np.minimum(1.0, p_values[order] * len(tests) / ranks))
    return adjusted


def _posteriors(counts: GroupCounts, model: RateModel) -> tuple[Likelihoods, Floats, Ints]:
    """Return tables, the posterior of each group's rate [V, J], and the numbers of its prompts' pairs.

    Prompts that are not there have the number -1.
    """
    if model.shift is None and (counts.known[:, 1:] > 0).any():
        raise ValueError("a model without a shift says nothing about neighbors")
    pilot = make_pilot(counts)
    tables = Likelihoods(pilot)
    shift: Shift | None = model.shift
    posterior = model.mixture.posterior(tables.rows(shift))[pilot.row_of]
    width = counts.correct.shape[1]
    flat = np.stack([counts.correct.ravel(), counts.wrong.ravel()], axis=1)
    _, numbers = np.unique(flat, axis=0, return_inverse=True)
    return tables, posterior, np.where(counts.known.ravel() > 0, numbers.ravel(), -1).reshape(-1, width)
