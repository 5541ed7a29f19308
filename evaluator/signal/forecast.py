"""Zero-gradient shares before training: predicted from a pilot of m samples a prompt, for any N and G."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evaluator.signal.groups import Floats, GroupCounts
from evaluator.signal.mixtures import Mixture
from evaluator.signal.rate_model import Likelihoods, RateModel, fit_given, fit_rates, make_pilot
from evaluator.signal.rates import Shift, equal_chances
from evaluator.signal.zero_gradient import (
    JOINT_GROUP,
    MATCHED_GROUP,
    NEIGHBOR_GROUP,
    NEIGHBORS_GROUP,
    ORIGINAL_GROUP,
)
from service.errors import InputError

REPLICATES = 40
QUESTIONS_RESAMPLED = 1000
_ROUNDS = 3
_EDGE = 1e-6


@dataclass(frozen=True)
class GroupShape:
    """A group of responses: G to the original (or none) and G to each of `n` neighbors."""

    name: str
    n: int
    g: int
    original: bool = True

    @property
    def responses(self) -> int:
        return self.g * (self.n + self.original)


@dataclass(frozen=True)
class ForecastRow:
    """The predicted share of zero-gradient questions of a shape; the interval is for new questions.

    The interval holds what the pilot's questions and samples leave open, not whether the model is right.
    """

    shape: GroupShape
    share: float
    low: float
    high: float
    questions: int


@dataclass(frozen=True)
class Forecast:
    """A fitted model with replicates of it, ready to predict any shape.

    `samples` is the smallest and the largest number of known grades of a prompt in the pilot.
    """

    model: RateModel
    replicates: tuple[tuple[Mixture, Shift | None], ...]
    scale: float
    questions: int
    samples: tuple[int, int]

    def share(self, shape: GroupShape) -> float:
        """Return the predicted share of groups of this shape with equal rewards.

        Raises:
            InputError: neighbors are asked for, and the pilot has none and no shift is assumed.
        """
        return _share(self.model.mixture, self.model.shift, shape)

    def row(self, shape: GroupShape, confidence: float = 0.95) -> ForecastRow:
        """Return the prediction with its interval: +- z bootstrap errors on the logit scale."""
        share = self.share(shape)
        low, high = self._interval(share, self._spread([shape]), confidence)
        return ForecastRow(shape, share, low, high, self.questions)

    def _spread(self, shapes: Sequence[GroupShape]) -> Floats:
        return np.array(
            [sum(_share(mixture, shift, shape) for shape in shapes) for mixture, shift in self.replicates]
        )

    def _interval(self, share: float, replicates: Floats, confidence: float) -> tuple[float, float]:
        from scipy.special import expit, logit, ndtri

        clipped = np.clip(replicates, _EDGE, 1 - _EDGE)
        error = self.scale * float(np.std(logit(clipped), ddof=1))
        middle = float(np.clip(share, _EDGE, 1 - _EDGE))
        half = float(ndtri(0.5 + confidence / 2)) * error
        low, high = expit(logit(middle) - half), expit(logit(middle) + half)
        return min(float(low), share), max(float(high), share)


def paper_shapes(g: int, n: int) -> list[GroupShape]:
    """Return the groups of arXiv 2601.22478v5: Figure 3, the joint one of Eq. 3, the matched one of 5.4."""
    if n == 0:
        return [GroupShape(ORIGINAL_GROUP, 0, g)]
    return [
        GroupShape(ORIGINAL_GROUP, 0, g),
        GroupShape(NEIGHBOR_GROUP, 1, g, original=False),
        GroupShape(NEIGHBORS_GROUP, n, g, original=False),
        GroupShape(JOINT_GROUP, n, g),
        GroupShape(MATCHED_GROUP, 0, (n + 1) * g),
    ]


def forecast(
    counts: GroupCounts,
    *,
    model: RateModel | None = None,
    shift: Shift | None = None,
    replicates: int | None = None,
    seed: int = 0,
) -> Forecast:
    """Return the forecast from a pilot: the model of `fit_rates` and bootstrap replicates over questions.

    Each replicate draws questions with replacement, with all their visits, and improves the fit from where
    the whole pilot left it. Of more than 1,000 questions 1,000 are drawn and the error is scaled down.

    Args:
        counts: the pilot; a row is a visit of a question.
        model: a model fitted before; else `fit_rates` fits one.
        shift: an assumed shift, for a pilot without neighbors.
        replicates: 40 by default.

    Raises:
        InputError: as `fit_rates`.
        ValueError: fewer than 2 replicates.
    """
    replicates = REPLICATES if replicates is None else replicates
    if replicates < 2:
        raise ValueError(f"an interval needs at least 2 replicates, not {replicates}")
    counts = counts.rows(counts.known.sum(axis=1) > 0)
    fitted = model or fit_rates(counts, shift=shift, seed=seed)
    pilot = make_pilot(counts)
    own = Likelihoods(pilot).own
    rng = np.random.default_rng(seed)
    order = np.argsort(counts.question, kind="stable")
    names, starts, visits = np.unique(counts.question[order], return_index=True, return_counts=True)
    size = min(len(names), QUESTIONS_RESAMPLED)
    given = fitted.shift if fitted.shift is not None and fitted.shift.assumed else None
    found = []
    for _ in range(replicates):
        drawn = rng.integers(len(names), size=size)
        rows = np.concatenate(
            [order[start : start + count] for start, count in zip(starts[drawn], visits[drawn], strict=True)]
        )
        replicate = Likelihoods(pilot.drawn(rows), own)
        times = replicate.pilot.times
        found.append(fit_given(replicate, times, fitted.mixture.family, given, fitted, rounds=_ROUNDS))
    known = counts.known[counts.known > 0]
    return Forecast(
        fitted,
        tuple(found),
        float(np.sqrt(size / len(names))),
        len(names),
        (int(known.min()), int(known.max())),
    )


def _share(mixture: Mixture, shift: Shift | None, shape: GroupShape) -> float:
    if shape.n and shift is None:
        raise InputError(
            "the pilot has no responses to neighbors, so nothing is known of how they differ from their "
            "originals; sample some neighbors, or assume a spread with --assume-shift-sd 0.7."
        )
    return float(equal_chances(mixture.weights, shift, shape.g, shape.n, original=shape.original).sum())
