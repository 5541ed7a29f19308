"""Do the prompts of a question have one success rate, or do they differ by more than sampling?"""

from dataclasses import dataclass

import numpy as np

from evaluator.signal.groups import Floats, Ints

DRAWS = 499
_CELLS_AT_ONCE = 2_000_000


@dataclass(frozen=True)
class Homogeneity:
    """The test over `questions` that could tell (at least two prompts, not all right and not all wrong).

    `statistic` is twice the log-likelihood ratio of one rate a prompt to one rate a question, `expected` its
    mean where there is one rate a question. `p_value` is None without such questions.
    """

    statistic: float
    expected: float
    p_value: float | None
    questions: int
    draws: int


def homogeneity(correct: Ints, known: Ints, *, draws: int = DRAWS, seed: int = 0) -> Homogeneity:
    """Test whether all prompts of each question have one success rate; arrays [V, P], a row a question.

    The likelihood-ratio statistic of binomial homogeneity, summed over questions, against its distribution
    given each question's total of correct responses: the counts are then multivariate hypergeometric whatever
    the rates are, so the Monte Carlo p-value (1 + at least as large) / (1 + draws) is exact, also for few
    samples a prompt, where the chi-squared approximation is not (Davison and Hinkley 1997, section 4.3).

    Args:
        correct, known: correct and graded responses of each prompt; prompts with known = 0 are not there.
        draws: of the reference distribution; the smallest p-value is 1 / (draws + 1).

    Raises:
        ValueError: no draws, or correct above known.
    """
    if draws < 1:
        raise ValueError(f"draws is {draws}; give 1 or more")
    if (correct > known).any() or (correct < 0).any():
        raise ValueError("correct must lie between 0 and known")
    totals, samples = correct.sum(axis=1), known.sum(axis=1)
    telling = ((known > 0).sum(axis=1) >= 2) & (totals > 0) & (totals < samples)
    correct, known = correct[telling], known[telling]
    number = len(correct)
    if number == 0:
        return Homogeneity(0.0, 0.0, None, 0, draws)
    observed = float(_ratios(correct[None], known).sum())
    rng = np.random.default_rng(seed)
    drawn = np.empty(draws)
    step = max(1, _CELLS_AT_ONCE // correct.size)
    for start in range(0, draws, step):
        count = min(step, draws - start)
        drawn[start : start + count] = _ratios(_redraw(rng, correct, known, count), known).sum(axis=1)
    slack = 1e-9 * max(1.0, observed)  # equal tables must count as equal
    p_value = (1 + int((drawn >= observed - slack).sum())) / (1 + draws)
    return Homogeneity(observed, float(drawn.mean()), p_value, number, draws)


def _redraw(rng: np.random.Generator, correct: Ints, known: Ints, count: int) -> Ints:
    """Return tables [count, V, P] with the totals of the rows of `correct`."""
    left = np.broadcast_to(correct.sum(axis=1), (count, len(correct))).copy()
    behind = known.sum(axis=1)
    drawn = np.empty((count, *correct.shape), dtype=np.int64)
    for column in range(correct.shape[1] - 1):
        behind = behind - known[:, column]
        drawn[:, :, column] = rng.hypergeometric(known[:, column], behind, left)
        left -= drawn[:, :, column]
    drawn[:, :, -1] = left
    return drawn


def _ratios(correct: Ints, known: Ints) -> Floats:
    """Return the likelihood-ratio statistic of each question [D, V] for tables [D, V, P]."""
    from scipy.special import xlogy

    totals, samples = correct[0].sum(axis=-1), known.sum(axis=-1)  # the same in every table
    numbers = np.arange(int(samples.max()) + 1)
    entropy = xlogy(numbers, numbers)
    own = entropy[correct].sum(axis=-1) + entropy[known - correct].sum(axis=-1) - entropy[known].sum(axis=-1)
    ratios: Floats = 2 * (own - (entropy[totals] + entropy[samples - totals] - entropy[samples]))
    return ratios
