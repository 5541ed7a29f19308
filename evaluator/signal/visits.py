"""Does the forecast hold on a real training run? Checked on the counts of visits in time order."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evaluator.signal.equal_rewards import ends
from evaluator.signal.estimates import Estimate, share_estimate
from evaluator.signal.forecast import ForecastRow, GroupShape, forecast
from evaluator.signal.groups import Floats, GroupCounts, Ints
from evaluator.signal.mixtures import Family
from evaluator.signal.zero_gradient import ORIGINAL_GROUP
from service.errors import InputError

Visits = Sequence[Sequence[tuple[int, int]]]
EARLY, RANDOM = "early half of each prompt's visits", "random half of each prompt's visits"


@dataclass(frozen=True)
class Check:
    """A forecast beside what happened: the share of groups of `g` with equal rewards.

    `pilot` says what the model was fitted to, `m` responses a visit; `error` is predicted - observed.
    """

    pilot: str
    m: int
    g: int
    family: Family
    predicted: ForecastRow
    observed: Estimate

    @property
    def error(self) -> float:
        return self.predicted.share - self.observed.value


def visit_counts(visits: Visits, chosen: Sequence[Sequence[int]]) -> GroupCounts:
    """Return the chosen visits of each prompt as groups: one row a visit, its prompt as the question."""
    rows = [(number, *visits[number][visit]) for number, places in enumerate(chosen) for visit in places]
    question, correct, size = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return GroupCounts(
        question, correct[:, None], (size - correct)[:, None], np.zeros((len(rows), 1), np.int64)
    )


def halves(visits: Visits, *, rng: np.random.Generator | None = None) -> tuple[GroupCounts, GroupCounts]:
    """Return the first and the second half of each prompt's visits, in time; of shuffled ones with `rng`.

    Of an odd number the one in the middle belongs to the second half.

    Raises:
        InputError: a prompt with fewer than 2 visits.
    """
    first, second = [], []
    for number, row in enumerate(visits):
        if len(row) < 2:
            raise InputError(f"prompt {number + 1} has {len(row)} visits; halves need at least 2.")
        order = list(range(len(row))) if rng is None else rng.permutation(len(row)).tolist()
        middle = len(row) // 2
        first.append(order[:middle])
        second.append(order[middle:])
    return visit_counts(visits, first), visit_counts(visits, second)


def thin(counts: GroupCounts, m: int, rng: np.random.Generator) -> GroupCounts:
    """Return the counts of m of the responses of each group, drawn without replacement.

    Raises:
        InputError: a group has fewer than m.
    """
    known = counts.known[:, 0]
    if (known < m).any():
        raise InputError(f"a visit has {known.min()} responses, fewer than {m}.")
    drawn = rng.hypergeometric(counts.correct[:, 0], counts.wrong[:, 0], m)[:, None]
    return GroupCounts(counts.question, drawn, m - drawn, np.zeros_like(drawn))


def check_halves(
    visits: Visits, g: int, *, m: int | None = None, at_random: bool = False, seed: int = 0
) -> Check:
    """Fit one half of the visits, predict the share of equal rewards at G, and compare with the other half.

    Each visit is a group of its own in the fit: pooling a prompt's visits would average over the drift of its
    success rate and predict too few equal rewards. The halves in time hold the drift of training as well; the
    random ones, where nothing drifts, show the error of the model alone. Shares weigh prompts equally.

    Args:
        m: responses a visit to fit to, drawn without replacement; all of them by default.
        at_random: shuffle each prompt's visits first.

    Raises:
        InputError: a prompt with fewer than 2 visits, or visits with fewer than m or G responses.
    """
    rng = np.random.default_rng(seed)
    fitted, later = halves(visits, rng=rng if at_random else None)
    if m is not None:
        fitted = thin(fitted, m, rng)
    return check(RANDOM if at_random else EARLY, fitted, later, g, seed=seed)


def check(pilot: str, fitted: GroupCounts, later: GroupCounts, g: int, *, seed: int = 0) -> Check:
    """Fit the first counts and compare the forecast at G with the share among the second.

    Raises:
        InputError: visits of the second with fewer than G responses.
    """
    predicted = forecast(fitted, seed=seed)
    return Check(
        pilot,
        int(fitted.known.max()),
        g,
        predicted.model.mixture.family,
        predicted.row(GroupShape(ORIGINAL_GROUP, 0, g)),
        observed_share(later, g),
    )


def observed_share(counts: GroupCounts, g: int) -> Estimate:
    """Return the share of groups of G with equal rewards, prompts weighed equally, with its interval.

    Raises:
        InputError: visits with fewer than G responses.
    """
    found = ends(counts.correct[:, 0], counts.wrong[:, 0], g)
    values: Floats = found.right + found.wrong
    if np.isnan(values).any():
        raise InputError(f"visits have {counts.known.min()} responses, fewer than G={g}.")
    return share_estimate(counts.by_question(values))


def merge_visits(counts: GroupCounts, size: int) -> GroupCounts:
    """Return groups made of `size` neighboring visits of a prompt; visits left over are dropped.

    Their responses come from policies of a few steps, which is the price of seeing groups larger than those
    that were drawn.
    """
    rows: list[Ints] = []
    for question in np.unique(counts.question):
        mine = np.flatnonzero(counts.question == question)
        whole = mine[: len(mine) // size * size].reshape(-1, size)
        correct, wrong = counts.correct[whole, 0].sum(axis=1), counts.wrong[whole, 0].sum(axis=1)
        rows.append(np.stack([np.full(len(whole), question), correct, wrong], axis=1))
    question, correct, wrong = np.concatenate(rows).T
    return GroupCounts(question, correct[:, None], wrong[:, None], np.zeros((len(question), 1), np.int64))
