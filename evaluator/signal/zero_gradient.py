"""Zero-gradient questions: all responses of the group get the same reward, so advantages are 0.

TA-GRPO (arXiv 2601.22478v5), section 3 "Gradient vanishing", Eq. 1 and 3, and Figure 3: the share of
questions whose G responses to the original, or N*G responses to their neighbors, all get the same reward.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

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
    variant: int | None
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


class _Figure(NamedTuple):
    """Per group [V] the chance of equal rewards (NaN: not known) and its bounds for unknown grades."""

    name: str
    responses: int
    columns: tuple[int, ...]
    values: Floats
    low: Floats
    high: Floats
    variant: int | None = None


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
    figures = list(_figures(counts, g, n))
    # The joint figure needs every prompt that any of the others needs.
    needed = next(each for each in figures if each.name == (JOINT_GROUP if n else ORIGINAL_GROUP))
    usable = ~np.isnan(needed.values)
    if not usable.any():
        raise InputError(_too_few(checkpoint.label, counts, g, n))
    shares, values = [], {}
    for figure in figures:
        per_visit = np.where(usable, figure.values, np.nan)
        if np.isnan(per_visit).all():
            continue
        estimate = share_estimate(_by_question(counts, per_visit))
        unknown = int(counts.unknown[:, figure.columns].sum())
        low, high = (
            float(_by_question(counts, bound).mean()) if unknown else None
            for bound in (figure.low, figure.high)
        )
        shares.append(
            ShareRow(
                checkpoint=checkpoint.label,
                group=figure.name,
                variant=figure.variant,
                responses=figure.responses,
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
        if figure.variant is None:
            values[figure.name] = per_visit
    return ZeroGradient(
        checkpoint.label,
        g,
        n,
        tuple(shares),
        tuple(_gaps(checkpoint.label, counts, values)),
        tuple(_notes(counts, usable, values, g, n)),
    )


def _figures(counts: GroupCounts, g: int, n: int) -> Iterator[_Figure]:
    def three_ends(size: int) -> tuple[Ends, Ends, Ends]:
        """Return the chances by known grades, and their bounds."""
        known = counts.correct, counts.wrong
        low, high = (unknown_ends(*known, counts.unknown, size, most=most) for most in (False, True))
        return ends(*known, size), low, high

    def equal(part: Ends) -> Floats:
        return np.minimum(1.0, part.right + part.wrong)

    def figure(name: str, size: int, columns: tuple[int, ...], three: Iterable[Floats], **of: int) -> _Figure:
        values, low, high = three
        return _Figure(name, size, columns, values, low, high, **of)

    of_g = three_ends(g)
    originals, *neighbors = zip(*(equal(part).T for part in of_g), strict=True)
    yield figure(ORIGINAL_GROUP, g, (0,), originals)
    if n == 0:
        return
    every = tuple(range(1, counts.neighbors + 1))
    yield figure(
        NEIGHBOR_GROUP,
        g,
        every,
        (np.ma.masked_invalid(equal(part)[:, 1:]).mean(axis=1).filled(np.nan) for part in of_g),
    )
    for k, values in enumerate(neighbors, 1):
        yield figure(f"neighbor {k}, G", g, (k,), values, variant=k)
    for name, size, joint in ((NEIGHBORS_GROUP, n * g, False), (JOINT_GROUP, (n + 1) * g, True)):
        pooled = (pooled_equal(part, n, with_original=joint) for part in of_g)
        yield figure(name, size, (0, *every) if joint else every, pooled)
    matched = three_ends((n + 1) * g)
    yield figure(MATCHED_GROUP, (n + 1) * g, (0,), (equal(part)[:, 0] for part in matched))


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
