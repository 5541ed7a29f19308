"""The difficulty audit: effect of rephrasing on success rates, and implausible neighbors."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from evaluator.passk.comparison import holm
from evaluator.signal.groups import (
    ORIGINAL,
    CheckpointGroups,
    Floats,
    GroupCounts,
    Ints,
    QuestionGroup,
    Row,
    count_groups,
    difference_estimate,
    pool_visits,
)
from evaluator.signal.rates import RATES, USUAL_STRAY, RateModel, make_pilot, number_pairs
from evaluator.signal.shapes import Forecast, forecast
from service.errors import InputError

FDR = 0.05
"""False-discovery rate: the largest share of false alarms among flagged neighbors."""
EVERY_STRATEGY = "all neighbors"
UNNAMED = "no strategy named"
DRAWS = 499
_OF_NEIGHBOR = ("variant", "source_id", "strategy", "correct", "known", "unknown")


def audit_difficulty(checkpoint: CheckpointGroups, *, seed: int = 0) -> dict[str, list[Row]]:
    """Return the rows of the audit: tests of equal rates, the spread of shifts, strategies, odd neighbors.

    A neighbor has the p-value of counts at least as odd as its own, given the question's other prompts
    (two-sided), `adjusted` over all neighbors (Benjamini-Hochberg), and a flag if that is at most `FDR`:
    the answer may leak, or may have changed. Visits of a question are pooled. Questions without an original
    or without neighbors are left out, and so are unknown grades.
    """
    from scipy.stats import false_discovery_control

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
    neighbors: list[Row] = []
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
                    **{name: getattr(prompt, name) for name in _OF_NEIGHBOR},
                    "original_correct": original.correct,
                    "original_known": original.known,
                    "p_value": float(p_values[at]),
                    "adjusted": float(adjusted[at]),
                    "flag": direction if adjusted[at] <= FDR else None,
                    "rate": prompt.correct / prompt.known,
                    "original_rate": original.correct / original.known,
                }
            )
    return {
        "difficulty_tests": [
            {"prompts": prompts, **homogeneity(counts.correct[:, first:], counts.known[:, first:], seed=seed)}
            for prompts, first in (("neighbors", 1), ("original and neighbors", 0))
        ],
        "difficulty_spread": [{**_spread(fitted), "questions": len(groups)}],
        "difficulty_strategies": strategy_shifts(groups),
        "difficulty_neighbors": neighbors,
    }


def _spread(fitted: Forecast) -> Row:
    """Return the departure of neighbors' rates from their questions', in logits; intervals by bootstrap."""
    shift = fitted.model.shift
    assert shift is not None, "the audit needs neighbors"
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

    assert model.shift is not None, "a model without a shift cannot predict neighbors"
    pilot = make_pilot(counts)
    distinct, pairs = number_pairs(counts)
    related = model.shift.related() if model.shift.stray <= USUAL_STRAY else model.shift.chances()
    logs = np.log(np.maximum(pilot.neighbor(model.shift), 1e-300))
    own, there = pilot.own[pairs[:, 0]], counts.known > 0
    total = np.zeros_like(own)
    for column in range(1, counts.correct.shape[1]):
        total += logs[pairs[:, column]]
    correct, wrong = distinct[:, 0, None], distinct[:, 1, None]
    few = bdtr(correct.astype(np.float64), correct + wrong, RATES) @ related.T  # [U, J], given the question's
    at_least = np.where(correct > 0, bdtrc(np.maximum(correct - 1.0, 0), correct + wrong, RATES), 1.0)
    many = at_least @ related.T
    low, high = np.full((2, len(own), counts.neighbors), np.nan)
    others = there.sum(axis=1) >= 2
    for column in range(1, counts.correct.shape[1]):
        here = there[:, column] & others
        pair = pairs[here, column]
        rest = total[here] - logs[pair]
        weights = model.weights * own[here] * np.exp(rest - rest.max(axis=1, keepdims=True))
        weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
        low[here, column - 1] = (weights * few[pair]).sum(axis=1)
        high[here, column - 1] = (weights * many[pair]).sum(axis=1)
    return np.clip(low, 0, 1), np.clip(high, 0, 1)


def homogeneity(correct: Ints, known: Ints, *, draws: int = DRAWS, seed: int = 0) -> Row:
    """Test whether all prompts of each question have one success rate; arrays [V, P], a row a question.

    The `statistic` is twice the log-likelihood ratio of one rate per prompt to one rate per question, summed
    over `questions` with at least two prompts, not all correct and not all wrong; `expected` is its mean if
    there is one rate per question. Its reference distribution is conditional on each question's total of
    correct responses: the counts are then multivariate hypergeometric whatever the rates are, so the Monte
    Carlo `p_value` is exact, also for few samples a prompt, where the chi-squared approximation is not
    (Davison and Hinkley 1997, section 4.3). It is None without such questions.

    Args:
        correct, known: correct and graded responses of each prompt; prompts with known = 0 are not there.
        draws: of the reference distribution; the smallest p-value is 1 / (draws + 1).
    """
    totals, samples = correct.sum(axis=1), known.sum(axis=1)
    telling = ((known > 0).sum(axis=1) >= 2) & (totals > 0) & (totals < samples)
    correct, known = correct[telling], known[telling]
    test: Row = {"statistic": 0.0, "expected": 0.0, "p_value": None}
    test |= {"questions": len(correct), "draws": draws}
    if not len(correct):
        return test
    rng = np.random.default_rng(seed)
    observed, drawn = 0.0, np.zeros(draws)
    for counts, sizes in zip(correct, known, strict=True):
        observed += float(_ratios(counts[None], sizes)[0])
        drawn += _ratios(rng.multivariate_hypergeometric(sizes, counts.sum(), size=draws), sizes)
    slack = 1e-9 * max(1.0, observed)  # equal tables must count as equal
    p_value = (1 + int((drawn >= observed - slack).sum())) / (1 + draws)
    return {**test, "statistic": observed, "expected": float(drawn.mean()), "p_value": p_value}


def _ratios(correct: Ints, known: Ints) -> Floats:
    """Return the likelihood-ratio statistic [D] of a question for tables [D, P] with one total."""
    from scipy.special import xlogy

    total, samples = correct[0].sum(), known.sum()
    numbers = np.arange(int(samples) + 1)
    entropy = xlogy(numbers, numbers)
    own = (entropy[correct] + entropy[known - correct] - entropy[known]).sum(axis=1)
    ratios: Floats = 2 * (own - (entropy[total] + entropy[samples - total] - entropy[samples]))
    return ratios


def strategy_shifts(groups: Sequence[QuestionGroup]) -> list[Row]:
    """Return how all neighbors, and those of each strategy, differ from their originals; above 0: easier.

    Questions are strata, so that a strategy used on hard questions does not look hard: the Mantel-Haenszel
    odds ratio (JNCI 1959) sum R / sum S, R = c_n w_0 / T and S = c_0 w_n / T summed over a question's
    neighbors. Its logarithm has the standard error sqrt(sum (R/sum R - S/sum S)^2) over questions as blocks,
    which holds what prompts of a question have in common and that shifts differ, and a t interval of 95%.
    `adjusted` is the p-value of "no shift", Holm-corrected over the strategies; `rate_value` is the mean
    difference of success rates. Groups without an original, and prompts without known grades, are left out.
    """
    counts = count_groups(groups)
    names = np.full(counts.known.shape, "", object)
    for place, group in enumerate(groups):
        for prompt in group.prompts:
            names[place, prompt.variant] = prompt.strategy or UNNAMED
    used = (counts.known > 0) & (counts.known[:, :1] > 0)
    used[:, ORIGINAL] = False
    strategies = Counter(names[used].tolist())
    ordered = sorted(strategies, key=lambda name: (-strategies[name], name))
    chosen = {EVERY_STRATEGY: used} | {name: used & (names == name) for name in ordered}
    rows = [_shift(counts, name, prompts) for name, prompts in chosen.items() if prompts.any()]
    tested = [row for row in rows[1:] if row["p_value"] is not None]
    for row, adjusted in zip(tested, holm([row["p_value"] for row in tested]), strict=True):
        row["adjusted"] = float(adjusted)
    return rows


def _shift(counts: GroupCounts, strategy: str, chosen: NDArray[np.bool_]) -> Row:
    """Return the shift of the chosen neighbors [V, 1 + K], which have an original."""
    samples = np.maximum(counts.known + counts.known[:, :1], 1)
    blocks = chosen.any(axis=1)
    easier, harder = (
        np.where(chosen, right * wrong / samples, 0.0).sum(axis=1)[blocks]
        for right, wrong in ((counts.correct, counts.wrong[:, :1]), (counts.correct[:, :1], counts.wrong))
    )
    telling = (easier + harder) > 0
    shift = low = high = p_value = None
    if easier.sum() > 0 and harder.sum() > 0 and telling.sum() > 1:
        shift, low, high, p_value = _log_odds(easier[telling], harder[telling])
    rates = counts.correct / np.maximum(counts.known, 1)
    means = np.where(chosen, rates, 0.0).sum(axis=1)[blocks] / chosen.sum(axis=1)[blocks]
    rate = difference_estimate(means - rates[blocks, ORIGINAL])
    return {
        "strategy": strategy,
        "neighbors": int(chosen.sum()),
        "questions": int(blocks.sum()),
        "informative": int(telling.sum()),
        "logit_shift": shift,
        "low": low,
        "high": high,
        "p_value": p_value,
        "adjusted": None,
        **{f"rate_{name}": value for name, value in rate.items()},
    }


def _log_odds(easier: Floats, harder: Floats) -> tuple[float, float, float, float]:
    from scipy.special import stdtr, stdtrit

    number = len(easier)
    shift = float(np.log(easier.sum() / harder.sum()))
    influence = easier / easier.sum() - harder / harder.sum()
    error = float(np.sqrt((influence**2).sum() * number / (number - 1)))
    if error < 1e-12:  # each question shows the same odds
        return shift, shift, shift, 1.0 if abs(shift) < 1e-12 else 0.0
    half = float(stdtrit(number - 1, 0.975)) * error
    p_value = 2 * float(stdtr(number - 1, -abs(shift) / error))
    return shift, shift - half, shift + half, p_value
