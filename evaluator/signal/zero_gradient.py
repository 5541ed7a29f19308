"""Zero-gradient questions: all responses of the group get the same reward, so advantages are 0.

TA-GRPO (arXiv 2601.22478v5), section 3 "Gradient vanishing", Eq. 1 and 3, and Figure 3: the share of
questions whose G responses to the original, or N*G responses to their neighbors, all get the same reward.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from evaluator.passk.estimators import pass_hat_k
from evaluator.signal.groups import (
    CheckpointGroups,
    Floats,
    GroupCounts,
    Ints,
    count_groups,
    difference_estimate,
    share_estimate,
)
from service.errors import InputError

ORIGINAL_GROUP = "original, G"
NEIGHBOR_GROUP = "one neighbor, G"
NEIGHBORS_GROUP = "neighbors, N*G"
JOINT_GROUP = "joint, (N+1)*G"
MATCHED_GROUP = "original, (N+1)*G"
OF_ORIGINAL = (ORIGINAL_GROUP, MATCHED_GROUP)


class Ends(NamedTuple):
    """For each prompt the chance that G of its responses are all right, and that they are all wrong."""

    right: Floats
    wrong: Floats


def ends(correct: Ints, wrong: Ints, g: int) -> Ends:
    """Return C(c, G)/C(m, G) and C(m-c, G)/C(m, G) for c right and m - c wrong responses.

    These are the shares of the subsets of G of the m responses that are all right, and all wrong: unbiased
    for p^G and (1-p)^G. NaN where m < G.
    """
    samples = correct + wrong
    enough = samples >= g
    n = np.where(enough, samples, max(g, 1))
    right, left = (
        np.where(enough, pass_hat_k(n, np.where(enough, part, 0), g), np.nan) for part in (correct, wrong)
    )
    return Ends(right, left)


def unknown_ends(correct: Ints, wrong: Ints, unknown: Ints, g: int) -> tuple[Ends, Ends]:
    """Return bounds of `ends`, lower and upper, over all ways the unknown grades may turn out."""
    all_right, all_wrong = ends(correct + unknown, wrong, g), ends(correct, wrong + unknown, g)
    return Ends(all_wrong.right, all_right.wrong), Ends(all_right.right, all_wrong.wrong)


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


def pooled_equal(all_ends: Ends, n: int, *, with_original: bool) -> Floats:
    """Return per group the chance that the rewards of N neighbors' G responses each are all equal [V].

    `with_original`: of the joint group of (N+1)G responses. The draws from different prompts are independent,
    so it is the product of the chances of all right plus that of all wrong. `all_ends` are [V, 1 + K].
    """
    right, wrong = (chosen_neighbors(part[:, 1:], n) for part in all_ends)
    if with_original:
        right, wrong = right * all_ends.right[:, 0], wrong * all_ends.wrong[:, 0]
    return np.minimum(1.0, right + wrong)


class ZeroGradient(NamedTuple):
    """Rows of one checkpoint: shares of questions with equal rewards, and paired differences of these."""

    shares: list[dict[str, Any]]
    gaps: list[dict[str, Any]]
    notes: list[str]  # what could not be shown


def zero_gradient(checkpoint: CheckpointGroups, g: int, n: int) -> ZeroGradient:
    """Return the shares of equal rewards for G responses a prompt and N neighbors a question.

    If a prompt has more than G responses, the value of a question is the exact chance over random subsets of
    G (see `ends`). Visits of a question are averaged before questions are. All rows but the last are over the
    same questions: those with G known grades for the original and for at least N neighbors. `MATCHED_GROUP`
    is over those of them that have (N+1)G for the original. `bound_low` and `bound_high` are the share
    whatever the unknown grades are.
    """
    if g < 2:
        raise InputError(f"--g is {g}. A group needs at least 2 responses to have an advantage.")
    if not checkpoint.groups:
        raise InputError(f"{checkpoint.label}: the data contains no responses.")
    counts = count_groups(checkpoint.groups)
    figures = _figures(lambda size: ends(counts.correct, counts.wrong, size), g, n)

    def unknown_figures(side: int) -> dict[str, Floats]:
        of = counts.correct, counts.wrong, counts.unknown
        return _figures(lambda size: unknown_ends(*of, size)[side], g, n)

    bounds = unknown_figures(0), unknown_figures(1)
    # The joint figure needs every prompt that any of the others needs.
    usable = ~np.isnan(figures[JOINT_GROUP if n else ORIGINAL_GROUP])
    if not usable.any():
        raise InputError(_too_few(checkpoint.label, counts, g, n))
    responses = {NEIGHBORS_GROUP: n * g, JOINT_GROUP: (n + 1) * g, MATCHED_GROUP: (n + 1) * g}
    values = {name: np.where(usable, figure, np.nan) for name, figure in figures.items()}
    values = {name: value for name, value in values.items() if not np.isnan(value).all()}
    shares: list[dict[str, Any]] = []
    gaps: list[dict[str, Any]] = []
    for name, value in values.items():
        estimate = share_estimate(_by_question(counts, value))
        prompts = slice(name in (NEIGHBOR_GROUP, NEIGHBORS_GROUP), 1 if name in OF_ORIGINAL else None)
        unknown = int(counts.unknown[:, prompts].sum())
        low, high = (float(_by_question(counts, bound[name]).mean()) if unknown else None for bound in bounds)
        shares.append(
            {
                "checkpoint": checkpoint.label,
                "group": name,
                "responses": responses.get(name, g),
                "share": estimate.value,
                "low": estimate.low,
                "high": estimate.high,
                "questions": estimate.questions,
                "left_out": counts.questions - estimate.questions,
                "unknown": unknown,
                "bound_low": low,
                "bound_high": high,
            }
        )
    for name, minus in (
        (NEIGHBORS_GROUP, ORIGINAL_GROUP),
        (JOINT_GROUP, ORIGINAL_GROUP),
        (JOINT_GROUP, MATCHED_GROUP),
    ):
        difference = values.get(name, np.nan) - values.get(minus, np.full(len(usable), np.nan))
        if not np.isnan(difference).all():
            gap = difference_estimate(_by_question(counts, difference))
            names = {"checkpoint": checkpoint.label, "group": name, "minus": minus}
            interval = {"low": gap.low, "high": gap.high, "questions": gap.questions}
            gaps.append({**names, "difference": gap.value, **interval})
    notes = []
    used = len(np.unique(counts.question[usable]))
    if used < counts.questions:
        what = f"G={g} known grades for the original" + (f" and for {n} neighbors" if n else "")
        notes.append(
            f"{counts.questions - used} of {counts.questions} questions are excluded, because they have "
            f"fewer than {what}"
        )
    if n and MATCHED_GROUP not in values:
        most = int(counts.known[:, 0].max())
        notes.append(
            f'"{MATCHED_GROUP}" needs {(n + 1) * g} responses to an original, but there are at most {most}: '
            "`tagrpo diagnose --only forecast` predicts it"
        )
    return ZeroGradient(shares, gaps, notes)


def _figures(ends_of: Callable[[int], Ends], g: int, n: int) -> dict[str, Floats]:
    """Return by group the chance of equal rewards [V]; NaN: not known."""
    each = ends_of(g)
    equal = np.minimum(1.0, each.right + each.wrong)
    figures = {ORIGINAL_GROUP: equal[:, 0]}
    if n:
        matched = ends_of((n + 1) * g)
        figures |= {
            NEIGHBOR_GROUP: np.ma.masked_invalid(equal[:, 1:]).mean(axis=1).filled(np.nan),
            NEIGHBORS_GROUP: pooled_equal(each, n, with_original=False),
            JOINT_GROUP: pooled_equal(each, n, with_original=True),
            MATCHED_GROUP: np.minimum(1.0, matched.right + matched.wrong)[:, 0],
        }
    return figures


def _by_question(counts: GroupCounts, values: Floats) -> Floats:
    """Return the mean of each question over its visits that have a value."""
    there = ~np.isnan(values)
    return counts.rows(there).by_question(values[there])


def _too_few(label: str, counts: GroupCounts, g: int, n: int) -> str:
    original = int(counts.known[:, 0].max())
    text = f"{label}: no question has G={g} known grades for its original"
    if n:
        text += f" and for {n} neighbors"
    have = int(((counts.known[:, 1:] >= g).sum(axis=1)).max()) if counts.neighbors else 0
    return (
        f"{text} (at most {original} for an original, {have} neighbors with {g}). Give a smaller --g or "
        "--n, or sample more responses."
    )
