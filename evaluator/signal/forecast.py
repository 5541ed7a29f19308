"""Zero-gradient shares before training, predicted from a pilot for any N and G."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evaluator.signal.groups import Floats, GroupCounts
from evaluator.signal.rate_model import RateModel, fit_given, fit_rates, make_pilot
from evaluator.signal.rates import Shift, equal_chances, profile_interval, rates
from evaluator.signal.zero_gradient import (
    JOINT_GROUP,
    MATCHED_GROUP,
    NEIGHBOR_GROUP,
    NEIGHBORS_GROUP,
    ORIGINAL_GROUP,
    ends,
    pooled_equal,
)
from service.errors import InputError

REPLICATES = 40
QUESTIONS_RESAMPLED = 1000
_ROUNDS = 3
_EDGE = 1e-6


@dataclass(frozen=True)
class GroupShape:
    """A group of responses: G to the original (or none) and G to each of `n` neighbors.

    With `spread` they are G in all, over the original and its neighbors; the original takes the rest.
    """

    name: str
    n: int
    g: int
    original: bool = True
    spread: bool = False

    @property
    def each(self) -> int:
        """Responses to a neighbor."""
        return self.g // (self.n + 1) if self.spread else self.g

    @property
    def responses(self) -> int:
        return self.g if self.spread else self.g * (self.n + self.original)

    def equal_chances(self, shift: Shift | None) -> Floats:
        """Return per rate of a question [J] the chance that all rewards are equal."""
        return equal_chances(shift, self.responses - self.n * self.each, self.each, self.n)


@dataclass(frozen=True)
class RescueShape(GroupShape):
    """G responses in two stages (recipe `ta_rescue`).

    Half of them go to the original; where all of those are wrong the others go to its `n` neighbors in turn,
    else to the original too.
    """

    @property
    def responses(self) -> int:
        return self.g

    def dead_chances(self) -> Floats:
        """Return per rate of a question [J] the chance that the first stage is all wrong."""
        chances: Floats = (1 - rates()) ** (self.g // 2)
        return chances

    def unsolved_chances(self, shift: Shift) -> Floats:
        """Return per rate of a question [J] the chance that its neighbors' responses are all wrong."""
        each, more = divmod(self.g - self.g // 2, self.n)
        of_rate, wrong = shift.chances(), 1 - rates()
        fewer, one_more = of_rate @ wrong**each, of_rate @ wrong ** (each + 1)
        unsolved: Floats = fewer ** (self.n - more) * one_more**more
        return unsolved

    def equal_chances(self, shift: Shift | None) -> Floats:
        if shift is None:
            raise ValueError("neighbors need a shift")
        equal: Floats = rates() ** self.g + self.dead_chances() * self.unsolved_chances(shift)
        return equal


@dataclass(frozen=True)
class ForecastRow:
    """The predicted share of zero-gradient questions of a shape, with its interval for new questions."""

    group: str
    n: int
    g: int
    responses: int
    share: float
    low: float
    high: float
    questions: int


class PilotEvidence(NamedTuple):
    """The pilot, against which intervals are held."""

    counts: GroupCounts
    own: Floats  # likelihoods [R, J] of the different rows given the question's rate, by its own counts
    joint: Floats  # the same by its neighbors' counts too
    times: Floats  # questions with each row [R], one of several visits counted once


@dataclass(frozen=True)
class Forecast:
    """A fitted model with replicates of it, ready to predict any shape."""

    model: RateModel
    replicates: tuple[RateModel, ...]
    scale: float
    questions: int
    samples: tuple[int, int]  # least and most known grades of a prompt in the pilot
    evidence: PilotEvidence | None = None  # without it intervals are those of the replicates alone

    def share(self, shape: GroupShape) -> float:
        """Return the predicted share of groups of this shape with equal rewards."""
        return _share(self.model, shape)

    def row(self, shape: GroupShape) -> ForecastRow:
        """Return the prediction with its 95% interval.

        It holds +- z bootstrap errors on the logit scale, around the prediction and around that moved by what
        the model misses in the pilot itself; and the shares of all distributions of success rates that
        predict the pilot nearly as well as the best does. For groups without neighbors the counts of
        neighbors are left aside: what they say of the question depends on the form of the shift.
        """
        from scipy.special import expit, ndtri

        share = self.share(shape)
        replicates = np.array([_share(model, shape) for model in self.replicates])
        error = self.scale * float(np.std(_logit(replicates), ddof=1))
        half = float(ndtri(0.975)) * error
        least, most, missed = share, share, 0.0
        if self.evidence is not None:
            missed = self._misfit(self.evidence.counts, shape)
            equal = shape.equal_chances(self.model.shift)
            likelihoods = self.evidence.joint if shape.n else self.evidence.own
            weights = self.model.mixture.weights
            least, most = profile_interval(likelihoods, self.evidence.times, equal, weights)
        middle = float(_logit(share))
        low, high = float(expit(middle + min(missed, 0) - half)), float(expit(middle + max(missed, 0) + half))
        low, high = min(low, share, least), max(high, share, most)
        return ForecastRow(shape.name, shape.n, shape.g, shape.responses, share, low, high, self.questions)

    def _misfit(self, counts: GroupCounts, shape: GroupShape) -> float:
        """Return the logit of the share of groups with neighbors in the pilot itself, less the model's.

        Seen on groups as large as the pilot allows, up to `shape`; 0 if none can be seen, or without
        neighbors.
        """
        n = min(shape.n, counts.neighbors)
        g = min(shape.g, int(np.median(counts.known[counts.known > 0])))
        values = pooled_equal(ends(counts.correct, counts.wrong, g), n, with_original=shape.original)
        there = ~np.isnan(values)
        if n == 0 or not there.any():
            return 0.0
        seen = float(counts.rows(there).by_question(values[there]).mean())
        predicted = self.share(GroupShape(shape.name, n, g, shape.original))
        return float(_logit(seen) - _logit(predicted))


def paper_shapes(g: int, n: int) -> list[GroupShape]:
    """Return the groups of arXiv 2601.22478v5: Figure 3, the joint one of Eq. 3, the matched one of 5.4."""
    with_neighbors = [
        GroupShape(NEIGHBOR_GROUP, 1, g, original=False),
        GroupShape(NEIGHBORS_GROUP, n, g, original=False),
        GroupShape(JOINT_GROUP, n, g),
        GroupShape(MATCHED_GROUP, 0, (n + 1) * g),
    ]
    return [GroupShape(ORIGINAL_GROUP, 0, g), *(with_neighbors if n else ())]


def forecast(
    counts: GroupCounts,
    *,
    shift: Shift | None = None,
    replicates: int | None = None,
    seed: int = 0,
) -> Forecast:
    """Return the forecast from a pilot: the model of `fit_rates` and bootstrap replicates over questions.

    Each replicate draws at most 1,000 questions with replacement, with all their visits, and improves the fit
    from where the whole pilot left it.

    Args:
        counts: The pilot; a row is a visit of a question.
        shift: An assumed shift, for a pilot without neighbors.
    """
    replicates = REPLICATES if replicates is None else replicates
    counts = counts.rows(counts.known.sum(axis=1) > 0)
    fitted = fit_rates(counts, shift=shift, seed=seed)
    pilot = make_pilot(counts)
    rng = np.random.default_rng(seed)
    order = np.argsort(counts.question, kind="stable")
    names, starts, visits = np.unique(counts.question[order], return_index=True, return_counts=True)
    shared = 1 / visits[np.searchsorted(names, counts.question)]
    size = min(len(names), QUESTIONS_RESAMPLED)
    assumed = fitted.shift if fitted.shift is not None and fitted.shift.assumed else None
    fits = []
    for _ in range(replicates):
        drawn = rng.integers(len(names), size=size)
        rows = np.concatenate(
            [order[start : start + count] for start, count in zip(starts[drawn], visits[drawn], strict=True)]
        )
        fit = fit_given(pilot.drawn(rows), fitted.mixture.family, assumed, fitted, rounds=_ROUNDS)
        fits.append(RateModel(fit.mixture, fit.shift or fitted.shift))
    responses = counts.known[counts.known > 0]
    return Forecast(
        fitted,
        tuple(fits),
        float(np.sqrt(size / len(names))),
        len(names),
        (int(responses.min()), int(responses.max())),
        PilotEvidence(
            counts,
            pilot.rows(None),
            pilot.rows(fitted.shift),
            np.bincount(pilot.row_of, shared).astype(np.float64),
        ),
    )


def _logit(shares: Floats | float) -> Floats:
    from scipy.special import logit

    logits: Floats = logit(np.clip(shares, _EDGE, 1 - _EDGE))
    return logits


def _share(model: RateModel, shape: GroupShape) -> float:
    if shape.n and model.shift is None:
        raise InputError(
            "the pilot has no responses to neighbors, so their difference from the originals is unknown. "
            "Sample some neighbors, or assume a spread with --assume-shift-sd 0.7."
        )
    return float(model.mixture.weights @ shape.equal_chances(model.shift))
