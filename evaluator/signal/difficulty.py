"""The difficulty audit: effect of rephrasing on success rates, and implausible neighbors."""

from typing import Any

import numpy as np

from evaluator.signal.difficulty_tests import homogeneity, strategy_shifts
from evaluator.signal.forecast import Forecast, forecast
from evaluator.signal.groups import ORIGINAL, CheckpointGroups, Floats, GroupCounts, count_groups, pool_visits
from evaluator.signal.rate_model import RateModel, make_pilot, number_pairs
from evaluator.signal.rates import USUAL_STRAY, rates
from service.errors import InputError

FDR = 0.05


def audit_difficulty(
    checkpoint: CheckpointGroups, *, fdr: float = FDR, seed: int = 0
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of the audit: tests of equal rates, the spread of shifts, strategies, odd neighbors.

    A neighbor has the p-value of counts at least as odd as its own, given the question's other prompts
    (two-sided), `adjusted` over all neighbors (Benjamini-Hochberg), and a flag if that is at most the FDR:
    the answer may leak, or may have changed. Visits of a question are pooled. Questions without an original
    or without neighbors are left out, and so are unknown grades.
    """
    from scipy.stats import false_discovery_control

    if not 0 < fdr < 1:
        raise InputError(f"the false-discovery rate is {fdr}, but must be between 0 and 1.")
    groups = []
    for group in pool_visits(checkpoint.groups):
        variants = [prompt.variant for prompt in group.prompts if prompt.known]
        if ORIGINAL in variants and len(variants) > 1:
            groups.append(group)
    if len(groups) < 2:
        raise InputError(
            f"{checkpoint.label}: {len(groups)} questions have graded responses to their original and to a "
            "neighbor, but the audit needs at least 2. Sample a neighbor set with `tagrpo eval run`."
        )
    counts = count_groups(groups)
    fitted = forecast(counts, seed=seed)
    low, high = tail_chances(counts, fitted.model)
    # Two-sided, as twice the smaller tail; counts are discrete, so this errs on the side of caution.
    p_values = np.minimum(1.0, 2 * np.minimum(low, high))
    adjusted, tested = np.full_like(p_values, np.nan), ~np.isnan(p_values)
    adjusted[tested] = false_discovery_control(p_values[tested])
    neighbors: list[dict[str, Any]] = []
    for place, group in enumerate(groups):
        original = group.prompts[0]
        for prompt in group.prompts[1:]:
            if not prompt.known:
                continue
            at = place, prompt.variant - 1
            direction = "too easy" if high[at] < low[at] else "too hard"
            neighbors.append(
                {
                    "group_id": group.group_id,
                    "variant": prompt.variant,
                    "source_id": prompt.source_id,
                    "strategy": prompt.strategy,
                    "correct": prompt.correct,
                    "known": prompt.known,
                    "unknown": prompt.unknown,
                    "original_correct": original.correct,
                    "original_known": original.known,
                    "p_value": float(p_values[at]),
                    "adjusted": float(adjusted[at]),
                    "flag": direction if adjusted[at] <= fdr else None,
                    "rate": prompt.correct / prompt.known,
                    "original_rate": original.correct / original.known,
                }
            )
    only_neighbors = homogeneity(counts.correct[:, 1:], counts.known[:, 1:], seed=seed)
    with_original = homogeneity(counts.correct, counts.known, seed=seed)
    tables = {
        "difficulty_tests": [
            {"prompts": "neighbors", **only_neighbors},
            {"prompts": "original and neighbors", **with_original},
        ],
        "difficulty_spread": [{**_spread(fitted), "questions": len(groups)}],
        "difficulty_strategies": strategy_shifts(groups),
        "difficulty_neighbors": neighbors,
    }
    return {name: [{"checkpoint": checkpoint.label, **row} for row in rows] for name, rows in tables.items()}


def _spread(fitted: Forecast) -> dict[str, Any]:
    """Return the departure of neighbors' rates from their questions', in logits; intervals by bootstrap."""
    shift = fitted.model.shift
    if shift is None:
        raise ValueError("the audit needs neighbors")
    shifts = [replicate.shift for replicate in fitted.replicates if replicate.shift is not None]
    means = np.array([each.mean for each in shifts])
    logs = np.log([max(each.sd, 1e-3) for each in shifts])
    mean_half = 1.96 * fitted.scale * float(means.std(ddof=1))
    factor = float(np.exp(1.96 * fitted.scale * logs.std(ddof=1)))
    return {
        "mean": shift.mean,
        "mean_low": shift.mean - mean_half,
        "mean_high": shift.mean + mean_half,
        "sd": shift.sd,
        "sd_low": shift.sd / factor,
        "sd_high": shift.sd * factor,
        "stray_share": shift.stray,
        "at_bound": shift.at_bound,
    }


def tail_chances(counts: GroupCounts, model: RateModel) -> tuple[Floats, Floats]:
    """Return for each neighbor the chance of as few, and of as many, correct responses as it has [V, K].

    Posterior predictive, leaving the neighbor out: the question's rate is judged by its other prompts, and
    the neighbor's departs from it as `Shift` says, strays excluded unless they are usual. So a question's odd
    neighbor does not speak for itself, and odd neighbors (which the fit counts as strays) do not excuse each
    other. NaN where a neighbor is not there or the question has no other prompt with known grades.
    """
    from scipy.special import bdtr, bdtrc

    if model.shift is None:
        raise ValueError("a model without a shift cannot predict neighbors")
    pilot = make_pilot(counts)
    distinct, pairs = number_pairs(counts)
    related = model.shift.related() if model.shift.stray <= USUAL_STRAY else model.shift.chances()
    logs = np.log(np.maximum(pilot.neighbor(model.shift), 1e-300))
    own = np.concatenate([pilot.own, np.ones((1, pilot.own.shape[1]))])[pairs[:, 0]]
    there = counts.known > 0
    total = np.zeros_like(own)
    for column in range(1, counts.correct.shape[1]):
        total += np.where(there[:, column, None], logs[pairs[:, column]], 0.0)
    correct, wrong = distinct[:, 0, None], distinct[:, 1, None]
    grid = rates()
    few = bdtr(correct.astype(np.float64), correct + wrong, grid) @ related.T  # [U, J], given the question's
    at_least = np.where(correct > 0, bdtrc(np.maximum(correct - 1.0, 0), correct + wrong, grid), 1.0)
    many = at_least @ related.T
    low, high = np.full((2, len(own), counts.neighbors), np.nan)
    others = there.sum(axis=1) >= 2
    for column in range(1, counts.correct.shape[1]):
        here = there[:, column] & others
        pair = pairs[here, column]
        rest = total[here] - logs[pair]
        weights = model.mixture.weights * own[here] * np.exp(rest - rest.max(axis=1, keepdims=True))
        weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
        low[here, column - 1] = (weights * few[pair]).sum(axis=1)
        high[here, column - 1] = (weights * many[pair]).sum(axis=1)
    return np.clip(low, 0, 1), np.clip(high, 0, 1)
