"""The difficulty audit: what rephrasing does to success rates, and which neighbors to look at again."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evaluator.signal.forecast import Forecast, forecast
from evaluator.signal.groups import ORIGINAL, Checkpoint, Floats, QuestionGroup, count_groups, pool_visits
from evaluator.signal.homogeneity import Homogeneity, homogeneity
from evaluator.signal.implausible import Direction, false_discovery, shrunken_rates, tail_chances
from evaluator.signal.rates import Shift
from evaluator.signal.strategy_shifts import StrategyShift, strategy_shifts
from service.errors import InputError

FDR = 0.05


@dataclass(frozen=True)
class NeighborRow:
    """A neighbor beside its original. Rates are of known grades; `shrunken` is the empirical-Bayes estimate.

    `p_value` says how likely counts at least as odd are, given the question's other prompts (two-sided);
    `adjusted` is corrected over all neighbors (Benjamini-Hochberg). `flag` is set where it is at most the
    false-discovery rate: "too easy" (the answer may leak) or "too hard" (it may have changed).
    """

    group_id: str
    variant: int
    source_id: str | None
    strategy: str | None
    correct: int
    known: int
    unknown: int
    original_correct: int
    original_known: int
    shrunken: float
    shrunken_original: float | None
    p_value: float | None
    adjusted: float | None
    flag: Direction | None

    @property
    def rate(self) -> float:
        return self.correct / self.known


@dataclass(frozen=True)
class Spread:
    """The fitted departure of neighbors' rates from their questions', in logits; intervals by bootstrap."""

    shift: Shift
    mean_low: float
    mean_high: float
    sd_low: float
    sd_high: float


@dataclass(frozen=True)
class DifficultyAudit:
    """The audit of one checkpoint; `neighbors` are by question and variant, `flagged` by p-value."""

    checkpoint: str
    questions: int
    between_neighbors: Homogeneity
    with_original: Homogeneity
    spread: Spread
    strategies: tuple[StrategyShift, ...]
    neighbors: tuple[NeighborRow, ...]
    fdr: float

    @property
    def flagged(self) -> list[NeighborRow]:
        rows = [row for row in self.neighbors if row.flag is not None]
        return sorted(rows, key=lambda row: row.p_value if row.p_value is not None else 1.0)


def audit_difficulty(checkpoint: Checkpoint, *, fdr: float = FDR, seed: int = 0) -> DifficultyAudit:
    """Return the audit: tests of equal rates, the spread of shifts, strategies, and odd neighbors.

    Visits of a question are pooled. Questions without an original or without neighbors are left out, and so
    are unknown grades.

    Raises:
        InputError: fewer than two questions have an original and a neighbor with known grades, or a
            false-discovery rate outside 0 to 1.
    """
    if not 0 < fdr < 1:
        raise InputError(f"the false-discovery rate is {fdr}; give more than 0 and less than 1.")
    groups = [group for group in pool_visits(checkpoint.groups) if _comparable(group)]
    if len(groups) < 2:
        raise InputError(
            f"{checkpoint.label}: {len(groups)} questions have graded responses to their original and to a "
            "neighbor; the audit needs at least 2. Sample a neighbor set: `tagrpo eval run` over one."
        )
    counts = count_groups(groups)
    fitted = forecast(counts, seed=seed)
    low, high = tail_chances(counts, fitted.model)
    # Two-sided, as twice the smaller tail; counts are discrete, so this errs on the side of caution.
    p_values = np.minimum(1.0, 2 * np.minimum(low, high))
    adjusted = false_discovery(p_values.ravel()).reshape(p_values.shape)
    rows = _rows(groups, shrunken_rates(counts, fitted.model), (low, high), p_values, adjusted, fdr)
    return DifficultyAudit(
        checkpoint.label,
        len(groups),
        homogeneity(counts.correct[:, 1:], counts.known[:, 1:], seed=seed),
        homogeneity(counts.correct, counts.known, seed=seed),
        _spread(fitted),
        tuple(strategy_shifts(groups)),
        tuple(rows),
        fdr,
    )


def _comparable(group: QuestionGroup) -> bool:
    known = [prompt.variant for prompt in group.prompts if prompt.known]
    return ORIGINAL in known and len(known) > 1


def _rows(
    groups: Sequence[QuestionGroup],
    shrunken: Floats,
    tails: tuple[Floats, Floats],
    p_values: Floats,
    adjusted: Floats,
    fdr: float,
) -> list[NeighborRow]:
    rows = []
    for place, group in enumerate(groups):
        original = group.prompts[0]
        for prompt in group.prompts[1:]:
            if not prompt.known:
                continue
            column = prompt.variant - 1
            value, corrected = float(p_values[place, column]), float(adjusted[place, column])
            easy = tails[1][place, column] < tails[0][place, column]
            direction: Direction = "too easy" if easy else "too hard"
            rows.append(
                NeighborRow(
                    group.group_id,
                    prompt.variant,
                    prompt.source_id,
                    prompt.strategy,
                    prompt.correct,
                    prompt.known,
                    prompt.unknown,
                    original.correct,
                    original.known,
                    float(shrunken[place, prompt.variant]),
                    float(shrunken[place, 0]),
                    value,
                    corrected,
                    direction if corrected <= fdr else None,
                )
            )
    return rows


def _spread(fitted: Forecast) -> Spread:
    shift = fitted.model.shift
    if shift is None:
        raise ValueError("the audit needs neighbors")
    means = np.array([found.mean for _, found in fitted.replicates if found is not None])
    logs = np.log([max(found.sd, 1e-3) for _, found in fitted.replicates if found is not None])
    mean_half = 1.96 * fitted.scale * float(means.std(ddof=1))
    factor = float(np.exp(1.96 * fitted.scale * logs.std(ddof=1)))
    return Spread(shift, shift.mean - mean_half, shift.mean + mean_half, shift.sd / factor, shift.sd * factor)
