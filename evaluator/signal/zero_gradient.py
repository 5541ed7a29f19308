"""Zero-gradient questions: all responses of the group get the same reward, so advantages are 0.

TA-GRPO (arXiv 2601.22478v5), section 3 "Gradient vanishing", Eq. 1 and 3, and Figure 3: the share of
questions whose G responses to the original, or N*G responses to their neighbors, all get the same reward.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evaluator.passk.estimators import pass_hat_k
from evaluator.signal.groups import (
    Bools,
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
    """
    samples = correct + wrong
    enough = samples >= g
    n = np.where(enough, samples, max(g, 1))
    right = np.asarray(pass_hat_k(n, np.where(enough, correct, 0), g), dtype=np.float64)
    left = np.asarray(pass_hat_k(n, np.where(enough, wrong, 0), g), dtype=np.float64)
    return Ends(np.where(enough, right, np.nan), np.where(enough, left, np.nan))


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
    so it is the product of the chances of all right plus that of all wrong; averaged over the subsets of N
    where a question has more neighbors. `all_ends` are [V, 1 + K], the original first.
    """
    right, wrong = (chosen_neighbors(part[:, 1:], n) for part in (all_ends.right, all_ends.wrong))
    if with_original:
        right, wrong = right * all_ends.right[:, 0], wrong * all_ends.wrong[:, 0]
    return np.minimum(1.0, right + wrong)


@dataclass(frozen=True, kw_only=True)
class ShareRow:
    """The share of questions whose group has equal rewards, at one checkpoint."""

    checkpoint: str
    group: str
    responses: int  # size of the group
    share: float
    low: float | None  # 95%, new questions
    high: float | None
    questions: int
    left_out: int  # questions with too few known grades
    unknown: int
    # the share whatever the unknown grades are, over all questions with enough responses
    bound_low: float | None
    bound_high: float | None


@dataclass(frozen=True)
class GapRow:
    """The paired difference of two shares over the questions that have both, with its interval (t)."""

    checkpoint: str
    group: str
    minus: str
    difference: float
    low: float | None
    high: float | None
    questions: int


@dataclass(frozen=True)
class ZeroGradient:
    """The rows of one checkpoint."""

    checkpoint: str
    g: int
    n: int
    shares: tuple[ShareRow, ...]
    gaps: tuple[GapRow, ...]
    notes: tuple[str, ...]  # what could not be shown


def zero_gradient(checkpoint: CheckpointGroups, g: int, n: int) -> ZeroGradient:
    """Return the shares of equal rewards for G responses a prompt and N neighbors a question.

    Where a prompt has more than G responses, the value of a question is the exact chance over random subsets
    of G (see `ends`); with G responses it is 0 or 1. Visits of a question are averaged before questions are.
    All rows but the last stand on the same questions: those with G known grades for the original and for at
    least N neighbors. `MATCHED_GROUP` stands on those of them that have (N+1)G for the original.
    """
    if g < 2:
        raise InputError(f"--g is {g}. A group needs at least 2 responses to have an advantage.")
    if n < 0:
        raise InputError(f"the number of neighbors is {n}. Give 0 or more.")
    if not checkpoint.groups:
        raise InputError(f"{checkpoint.label}: the data contains no responses.")
    counts = count_groups(checkpoint.groups)
    figures = _figures(lambda size: ends(counts.correct, counts.wrong, size), g, n)

    def of_unknown(size: int) -> tuple[Ends, Ends]:
        return unknown_ends(counts.correct, counts.wrong, counts.unknown, size)

    bounds = (
        _figures(lambda size: of_unknown(size)[0], g, n),
        _figures(lambda size: of_unknown(size)[1], g, n),
    )
    # The joint figure needs every prompt that any of the others needs.
    usable = ~np.isnan(figures[JOINT_GROUP if n else ORIGINAL_GROUP])
    if not usable.any():
        raise InputError(_too_few(checkpoint.label, counts, g, n))
    responses = {NEIGHBORS_GROUP: n * g, JOINT_GROUP: (n + 1) * g, MATCHED_GROUP: (n + 1) * g}
    shares, values = [], {}
    for name, figure in figures.items():
        per_visit = np.where(usable, figure, np.nan)
        if np.isnan(per_visit).all():
            continue
        values[name] = per_visit
        estimate = share_estimate(_by_question(counts, per_visit))
        prompts = slice(name in (NEIGHBOR_GROUP, NEIGHBORS_GROUP), 1 if name in OF_ORIGINAL else None)
        unknown = int(counts.unknown[:, prompts].sum())
        low, high = (float(_by_question(counts, bound[name]).mean()) if unknown else None for bound in bounds)
        shares.append(
            ShareRow(
                checkpoint=checkpoint.label,
                group=name,
                responses=responses.get(name, g),
                share=estimate.value,
                low=estimate.low,
                high=estimate.high,
                questions=estimate.questions,
                left_out=counts.questions - estimate.questions,
                unknown=unknown,
                bound_low=low,
                bound_high=high,
            )
        )
    return ZeroGradient(
        checkpoint.label,
        g,
        n,
        tuple(shares),
        tuple(_gaps(checkpoint.label, counts, values)),
        tuple(_notes(counts, usable, values, g, n)),
    )


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


def _gaps(label: str, counts: GroupCounts, values: dict[str, Floats]) -> list[GapRow]:
    rows = []
    for name, minus in (
        (NEIGHBORS_GROUP, ORIGINAL_GROUP),
        (JOINT_GROUP, ORIGINAL_GROUP),
        (JOINT_GROUP, MATCHED_GROUP),
    ):
        if name not in values or minus not in values:
            continue
        difference = values[name] - values[minus]
        if not np.isnan(difference).all():
            gap = difference_estimate(_by_question(counts, difference))
            rows.append(GapRow(label, name, minus, gap.value, gap.low, gap.high, gap.questions))
    return rows


def _notes(counts: GroupCounts, usable: Bools, values: dict[str, Floats], g: int, n: int) -> list[str]:
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
    return notes


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
