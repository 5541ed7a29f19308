"""Zero-gradient shares before training, predicted from a pilot for any N and G."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evaluator.signal.groups import Floats, GroupCounts, Row
from evaluator.signal.rates import (
    PilotRows,
    RateModel,
    Shift,
    fit_given,
    fit_rates,
    make_pilot,
    profile_interval,
)
from evaluator.signal.shapes import GroupShape, ends
from service.errors import InputError

REPLICATES = 40
QUESTIONS_RESAMPLED = 1000
_ROUNDS = 3
_EDGE = 1e-6


@dataclass(frozen=True)
class Forecast:
    """A model fitted to a pilot with replicates of it, ready to predict any shape."""

    model: RateModel
    replicates: tuple[RateModel, ...]
    scale: float
    counts: GroupCounts  # the pilot; a row is a visit of a question

    @property
    def questions(self) -> int:
        return self.counts.questions

    @property
    def samples(self) -> tuple[int, int]:
        """The least and most known grades of a prompt in the pilot."""
        responses = self.counts.known[self.counts.known > 0]
        return int(responses.min()), int(responses.max())

    @cached_property
    def _pilot(self) -> PilotRows:
        return make_pilot(self.counts)

    def share(self, shape: GroupShape) -> float:
        """Return the predicted share of groups of this shape with equal rewards."""
        return _share(self.model, shape)

    def row(self, shape: GroupShape) -> Row:
        """Return the predicted share of a shape with its 95% interval for new questions.

        It holds +- z bootstrap errors on the logit scale, around the prediction and around that moved by what
        the model misses in the pilot itself; and the shares of all distributions of success rates that
        predict the pilot nearly as well as the best does. For groups without neighbors the counts of
        neighbors are left aside: what they say of the question depends on the form of the shift.
        """
        from scipy.special import expit, ndtri

        share, missed = self.share(shape), self._misfit(shape)
        replicates = np.array([_share(model, shape) for model in self.replicates])
        half = float(ndtri(0.975)) * self.scale * float(np.std(_logit(replicates), ddof=1))
        likelihoods = self._pilot.rows(self.model.shift if shape.n else None)
        _, question, visits = np.unique(self.counts.question, return_inverse=True, return_counts=True)
        times: Floats = np.bincount(self._pilot.row_of, 1 / visits[question]).astype(np.float64)
        equal, weights = shape.equal_chances(self.model.shift), self.model.mixture.weights
        least, most = profile_interval(likelihoods, times, equal, weights)
        middle = float(_logit(share))
        low, high = float(expit(middle + min(missed, 0) - half)), float(expit(middle + max(missed, 0) + half))
        return {
            "group": shape.name,
            "n": shape.n,
            "g": shape.g,
            "responses": shape.responses,
            "share": share,
            "low": min(low, share, least),
            "high": max(high, share, most),
            "questions": self.questions,
        }

    def _misfit(self, shape: GroupShape) -> float:
        """Return the logit of the share of groups with neighbors in the pilot itself, less the model's.

        Seen on groups as large as the pilot allows, up to `shape`; 0 if none can be seen, or without
        neighbors.
        """
        counts = self.counts
        g = min(shape.g, int(np.median(counts.known[counts.known > 0])))
        smaller = GroupShape(shape.name, min(shape.n, counts.neighbors), g, shape.original)
        values = smaller.counted(*ends(counts.correct, counts.wrong, g))
        if smaller.n == 0 or np.isnan(values).all():
            return 0.0
        return float(_logit(counts.by_question(values).mean()) - _logit(self.share(smaller)))


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
    counts = counts.rows(counts.known.sum(axis=1) > 0)
    fitted = fit_rates(counts, shift=shift, seed=seed)
    pilot = make_pilot(counts)
    rng = np.random.default_rng(seed)
    order = np.argsort(counts.question, kind="stable")
    names, starts, visits = np.unique(counts.question[order], return_index=True, return_counts=True)
    size = min(len(names), QUESTIONS_RESAMPLED)
    assumed = fitted.shift if fitted.shift is not None and fitted.shift.assumed else None
    fits = []
    for _ in range(REPLICATES if replicates is None else replicates):
        drawn = rng.integers(len(names), size=size)
        rows = np.concatenate(
            [order[start : start + count] for start, count in zip(starts[drawn], visits[drawn], strict=True)]
        )
        fit = fit_given(pilot.drawn(rows), fitted.mixture.family, assumed, fitted, rounds=_ROUNDS)
        fits.append(RateModel(fit.mixture, fit.shift or fitted.shift))
    return Forecast(fitted, tuple(fits), float(np.sqrt(size / len(names))), counts)


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
