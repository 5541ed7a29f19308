"""Success rates on a grid: likelihoods of counts, and how a neighbor's rate departs from its question's."""

from dataclasses import dataclass
from functools import cache

import numpy as np

from evaluator.signal.groups import Floats, Ints

HIGHEST_LOGIT, STEP = 7.0, 0.25


@cache
def logits() -> Floats:
    """Return the grid of logits [J]: -7 to 7 by a quarter, and at its ends rates of exactly 0 and 1."""
    inner = np.arange(-HIGHEST_LOGIT, HIGHEST_LOGIT + STEP / 2, STEP)
    return np.concatenate([[-np.inf], inner, [np.inf]])


@cache
def rates() -> Floats:
    """Return the success rates of the grid [J], 0 and 1 included."""
    from scipy.special import expit

    grid: Floats = expit(logits())
    return grid


@cache
def edges() -> Floats:
    """Return the logits between neighboring cells of the grid [J - 1]."""
    inner = logits()[1:-1]
    return np.concatenate([inner - STEP / 2, [inner[-1] + STEP / 2]])


@cache
def _offsets() -> tuple[Floats, Ints]:
    """Return the different distances between a rate and an edge, and which one leads from rate to edge.

    The grid is even, so that far fewer normal probabilities than pairs of cells are needed.
    """
    number = len(edges()) - 1
    steps = STEP * (np.arange(1 - number, number + 1, dtype=np.float64) - 0.5)
    places: Ints = np.arange(number + 1)[None, :] - np.arange(number)[:, None] + number - 1
    return steps, places


def beta_cells(a: float, b: float) -> Floats:
    """Return the mass of Beta(a, b) in each cell of the grid [J]; what lies beyond logit 7 is rate 0 or 1."""
    from scipy.special import betainc, expit

    return np.diff(np.concatenate([[0.0], betainc(a, b, expit(edges())), [1.0]]))


def binomial_table(correct: Ints, wrong: Ints) -> Floats:
    """Return the binomial likelihood p^c (1-p)^w [..., J] on the grid, each row scaled to a maximum of 1."""
    from scipy.special import xlog1py, xlogy

    grid = rates()
    logs = xlogy(correct[..., None], grid) + xlog1py(wrong[..., None], -grid)
    table: Floats = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return table


LARGEST_SHIFT = 6.0
"""Logits: a fitted mean is within it on both sides, a fitted standard deviation below it."""
MOST_STRAY = 0.3
"""The largest share of neighbors that a fit takes for unrelated to their question."""


@dataclass(frozen=True)
class Shift:
    """How the success rate of a neighbor departs from its question's.

    logit p_n = logit p_0 + N(mean, sd^2) with probability 1 - stray; with probability `stray` the rate has
    nothing to do with the question's and is Beta(1/2, 1/2). A question solved never, or always, at a rate of
    exactly 0 or 1 has neighbors of that rate. `assumed`: given by the user, not fitted.
    """

    mean: float
    sd: float
    stray: float
    assumed: bool = False

    @property
    def at_bound(self) -> str:
        """Which bounds of the fit this one stands at, in words for the user; empty where at none."""
        if self.assumed:
            return ""
        bounds = [
            f"{name} at {bound}"
            for name, value, bound in (
                ("mean", abs(self.mean), LARGEST_SHIFT),
                ("sd", self.sd, LARGEST_SHIFT),
                ("unrelated share", self.stray, MOST_STRAY),
            )
            if value > 0.99 * bound
        ]
        if not bounds:
            return ""
        return (
            f"the fit stands at its bounds ({', '.join(bounds)}): read the values as this or more, and their "
            "intervals as none; neighbors differ so much that a shift in logits hardly describes it"
        )

    def related(self) -> Floats:
        """Return the chance [J, J] of each rate of a neighbor (columns) given the question's (rows)."""
        from scipy.special import ndtr

        steps, edge_of = _offsets()
        below = ndtr((steps - self.mean) / max(self.sd, 1e-3))[edge_of]
        size = len(below) + 2
        chances = np.zeros((size, size))
        chances[0, 0] = chances[-1, -1] = 1.0
        chances[1:-1, 0] = below[:, 0]
        chances[1:-1, 1:-1] = below[:, 1:] - below[:, :-1]
        chances[1:-1, -1] = 1 - below[:, -1]
        return chances

    def chances(self) -> Floats:
        """Return the chance [J, J] of a neighbor's rate given the question's, strays among them."""
        return (1 - self.stray) * self.related() + self.stray * beta_cells(0.5, 0.5)


def equal_chances(weights: Floats, shift: Shift | None, g: int, n: int, *, original: bool) -> Floats:
    """Return per rate of the grid [J] the chance that a group's rewards are all equal, times its weight.

    The group: G responses to the original (where `original`) and G to each of N neighbors, whose rates are
    independent given the question's. The sum is the share of zero-gradient questions.

    Raises:
        ValueError: neighbors without a shift, or an empty group.
    """
    if n == 0 and not original:
        raise ValueError("the group is empty")
    grid = rates()
    right, wrong = np.ones_like(grid), np.ones_like(grid)
    if original:
        right, wrong = grid**g, (1 - grid) ** g
    if n:
        if shift is None:
            raise ValueError("neighbors need a shift")
        chances = shift.chances()
        right = right * (chances @ grid**g) ** n
        wrong = wrong * (chances @ (1 - grid) ** g) ** n
    return weights * (right + wrong)
