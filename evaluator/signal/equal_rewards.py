"""The chance that all responses of a group get one reward, from counts."""

from dataclasses import dataclass

import numpy as np

from evaluator.passk.estimators import pass_hat_k
from evaluator.signal.groups import Floats, GroupCounts, Ints


@dataclass(frozen=True)
class Ends:
    """For each prompt the chance that G of its responses are all right, and that they are all wrong.

    Arrays of one shape. The rewards of a group are all equal exactly where one of the two happens.
    """

    right: Floats
    wrong: Floats


def ends(correct: Ints, wrong: Ints, g: int) -> Ends:
    """Return C(c, G)/C(m, G) and C(m-c, G)/C(m, G) for c right and m - c wrong responses.

    These are the shares of the subsets of G of the m responses that are all right, and all wrong: unbiased
    for p^G and (1-p)^G, since any G of the responses are a draw of G. NaN where m < G: fewer than G responses
    have no unbiased estimate.

    Raises:
        ValueError: G below 1, or counts below 0.
    """
    samples = correct + wrong
    enough = samples >= g
    n = np.where(enough, samples, max(g, 1))
    right = np.asarray(pass_hat_k(n, np.where(enough, correct, 0), g), dtype=np.float64)
    left = np.asarray(pass_hat_k(n, np.where(enough, wrong, 0), g), dtype=np.float64)
    return Ends(np.where(enough, right, np.nan), np.where(enough, left, np.nan))


def unknown_ends(correct: Ints, wrong: Ints, unknown: Ints, g: int, *, most: bool) -> Ends:
    """Return bounds of `ends` over all ways the unknown grades may turn out; the upper ones with `most`.

    Lower: an unknown response is wrong where all have to be right, and right where all have to be wrong.
    Upper: it is what is wanted. A prompt without unknown grades keeps its values.
    """
    if most:
        right, wrong_ends = ends(correct + unknown, wrong, g).right, ends(correct, wrong + unknown, g).wrong
    else:
        right, wrong_ends = ends(correct, wrong + unknown, g).right, ends(correct + unknown, wrong, g).wrong
    return Ends(right, wrong_ends)


def chosen_neighbors(values: Floats, n: int) -> Floats:
    """Return the mean over all subsets of N columns of the product of their values: [V] of values [V, K].

    It is e_N(values) / C(columns, N), e_N the elementary symmetric polynomial: what N of a question's
    neighbors, drawn at random, would give. NaN columns are left out; NaN where fewer than N are left; 1 for
    N = 0.
    """
    present = ~np.isnan(values)
    number = present.sum(axis=1)
    # table[v, i] = mean over i-subsets of the columns seen so far; means, so that nothing grows.
    table = np.zeros((len(values), n + 1))
    table[:, 0] = 1.0
    seen = np.zeros(len(values))
    sizes = np.arange(1, n + 1)
    for column in range(values.shape[1]):
        here = present[:, column]
        seen = seen + here
        share = np.minimum(1.0, sizes / np.maximum(seen, 1)[:, None])  # of the i-subsets those that hold it
        with_it = table[:, :-1] * np.where(here, values[:, column], 0.0)[:, None]
        table[:, 1:] = np.where(here[:, None], share * with_it + (1 - share) * table[:, 1:], table[:, 1:])
    return np.where(number >= n, table[:, n], np.nan)


def original_equal(counts: GroupCounts, g: int) -> Floats:
    """Return per group the chance that G responses to the original get one reward [V]; NaN where m < G."""
    own = ends(counts.correct[:, 0], counts.wrong[:, 0], g)
    return own.right + own.wrong


def neighbor_equal(counts: GroupCounts, g: int) -> Floats:
    """Return the same for each neighbor [V, K]."""
    each = ends(counts.correct[:, 1:], counts.wrong[:, 1:], g)
    return each.right + each.wrong


def pooled_equal(all_ends: Ends, n: int, *, with_original: bool) -> Floats:
    """Return per group the chance that the rewards of N neighbors' G responses each are all equal [V].

    `with_original`: of the joint group of (N+1)G responses. The draws from different prompts are independent,
    so it is the product of the chances of all right plus that of all wrong; averaged over the subsets of N
    where a question has more neighbors. `all_ends` are [V, 1 + K], the original first.
    """
    right, wrong = (chosen_neighbors(part[:, 1:], n) for part in (all_ends.right, all_ends.wrong))
    if with_original:
        right, wrong = right * all_ends.right[:, 0], wrong * all_ends.wrong[:, 0]
    return np.minimum(1.0, right + wrong)
