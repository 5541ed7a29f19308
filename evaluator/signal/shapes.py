"""Groups of responses by shape: the chance that all rewards of a group are equal, so that it has no gradient.

TA-GRPO (arXiv 2601.22478v5), section 3 "Gradient vanishing", Eq. 1 and 3, and Figure 3. The chance follows
from counts of responses (`GroupShape.counted`) or from success rates (`GroupShape.equal_chances`).
`zero_gradient` makes the table of observed shares; `forecast` predicts them from a pilot for any N and G.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from evaluator.passk.estimators import pass_hat_k
from evaluator.signal.groups import (
    CheckpointGroups,
    Floats,
    GroupCounts,
    Ints,
    PartTables,
    Row,
    count_groups,
    difference_estimate,
    share_estimate,
)
from evaluator.signal.rates import (
    RATES,
    PilotRows,
    RateModel,
    Shift,
    fit_given,
    fit_rates,
    make_pilot,
    profile_interval,
)
from service.errors import InputError

ORIGINAL_GROUP = "original, G"
NEIGHBOR_GROUP = "one neighbor, G"
NEIGHBORS_GROUP = "neighbors, N*G"
JOINT_GROUP = "joint, (N+1)*G"
MATCHED_GROUP = "original, (N+1)*G"
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

    def counted(self, right: Floats, wrong: Floats) -> Floats:
        """Return per question [V] the chance of equal rewards, from `ends` of each prompt [V, 1 + K].

        Of more neighbors, any N are taken. The draws from different prompts are independent, so the chance is
        the product of the chances of all right plus that of all wrong.
        """
        sides = [_mean_product(side[:, 1:], self.n) for side in (right, wrong)]
        if self.original:
            sides = [sides[0] * right[:, 0], sides[1] * wrong[:, 0]]
        return np.minimum(1.0, sides[0] + sides[1])

    def equal_chances(self, shift: Shift | None) -> Floats:
        """Return per rate of a question [J] the chance that all rewards are equal."""
        first, grid = self.responses - self.n * self.each, RATES
        right, wrong = grid**first, (1 - grid) ** first
        if self.n:
            assert shift is not None, "neighbors need a shift"
            chances = shift.chances()
            right = right * (chances @ grid**self.each) ** self.n
            wrong = wrong * (chances @ (1 - grid) ** self.each) ** self.n
        equal: Floats = right + wrong
        return equal


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
        chances: Floats = (1 - RATES) ** (self.g // 2)
        return chances

    def unsolved_chances(self, shift: Shift) -> Floats:
        """Return per rate of a question [J] the chance that its neighbors' responses are all wrong."""
        each, more = divmod(self.g - self.g // 2, self.n)
        of_rate, wrong = shift.chances(), 1 - RATES
        fewer, one_more = of_rate @ wrong**each, of_rate @ wrong ** (each + 1)
        unsolved: Floats = fewer ** (self.n - more) * one_more**more
        return unsolved

    def equal_chances(self, shift: Shift | None) -> Floats:
        assert shift is not None, "neighbors need a shift"
        equal: Floats = RATES**self.g + self.dead_chances() * self.unsolved_chances(shift)
        return equal


def paper_shapes(g: int, n: int) -> list[GroupShape]:
    """Return the groups of arXiv 2601.22478v5: Figure 3, the joint one of Eq. 3, the matched one of 5.4."""
    with_neighbors = [
        GroupShape(NEIGHBOR_GROUP, 1, g, original=False),
        GroupShape(NEIGHBORS_GROUP, n, g, original=False),
        GroupShape(JOINT_GROUP, n, g),
        GroupShape(MATCHED_GROUP, 0, (n + 1) * g),
    ]
    return [GroupShape(ORIGINAL_GROUP, 0, g), *(with_neighbors if n else ())]


def ends(correct: Ints, wrong: Ints, g: int) -> tuple[Floats, Floats]:
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
    return right, left


def _mean_product(values: Floats, n: int) -> Floats:
    """Return the mean over all subsets of N columns of the product of their values: [V] of values [V, K].

    It is e_N(values) / C(columns, N), e_N the elementary symmetric polynomial. NaN columns are left out; NaN
    where fewer than N are left; 1 for N = 0.
    """
    present = ~np.isnan(values)
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
    return np.where(present.sum(axis=1) >= n, table[:, n], np.nan)


def zero_gradient(checkpoint: CheckpointGroups, g: int, n: int) -> PartTables:
    """Return the shares of equal rewards for G responses a prompt and N neighbors a question.

    If a prompt has more than G responses, the value of a question is the exact chance over random subsets of
    G (see `ends`). Visits of a question are averaged before questions are. All rows but the last are over the
    same questions: those with G known grades for the original and for at least N neighbors. `MATCHED_GROUP`
    is over those of them that have (N+1)G for the original. `bound_low` and `bound_high` are the share
    whatever the unknown grades are.
    """
    if not checkpoint.groups:
        raise InputError(f"{checkpoint.label}: the data contains no responses.")
    counts, label = count_groups(checkpoint.groups), checkpoint.label
    shapes = {shape.name: shape for shape in paper_shapes(g, n)}
    values = {
        name: shape.counted(*ends(counts.correct, counts.wrong, shape.g)) for name, shape in shapes.items()
    }
    needed = f"G={g} known grades for the original" + (f" and for {n} neighbors" if n else "")
    # The joint figure needs every prompt that any of the others needs.
    usable = ~np.isnan(values[JOINT_GROUP if n else ORIGINAL_GROUP])
    if not usable.any():
        known = counts.correct + counts.wrong
        neighbors = int((known[:, 1:] >= g).sum(axis=1).max())
        raise InputError(
            f"{label}: no question has {needed} (at most {known[:, 0].max()} for an original, {neighbors} "
            f"neighbors with {g}). Give a smaller --g or --n, or sample more responses."
        )
    values = {name: np.where(usable, value, np.nan) for name, value in values.items()}
    values = {name: value for name, value in values.items() if not np.isnan(value).all()}
    shares: list[Row] = []
    for name, value in values.items():
        shape, estimate = shapes[name], share_estimate(counts.by_question(value))
        prompts = slice(0 if shape.original else 1, None if shape.n else 1)
        unknown = int(counts.unknown[:, prompts].sum())
        low, high = unknown_bounds(counts, shape) if unknown else (None, None)
        shares.append(
            {
                "group": name,
                "responses": shape.responses,
                "share": estimate.pop("value"),
                **estimate,
                "left_out": counts.questions - estimate["questions"],
                "unknown": unknown,
                "bound_low": low,
                "bound_high": high,
            }
        )
    gaps: list[Row] = []
    pairs = ((NEIGHBORS_GROUP, ORIGINAL_GROUP), (JOINT_GROUP, ORIGINAL_GROUP), (JOINT_GROUP, MATCHED_GROUP))
    for name, minus in pairs:
        if name in values and minus in values:
            gap = difference_estimate(counts.by_question(values[name] - values[minus]))
            gaps.append({"group": name, "minus": minus, "difference": gap.pop("value"), **gap})
    notes = []
    if left_out := counts.questions - counts.rows(usable).questions:
        notes.append(
            f"{label}: {left_out} of {counts.questions} questions are excluded, because they have fewer than "
            f"{needed}"
        )
    if n and MATCHED_GROUP not in values:
        notes.append(
            f'{label}: "{MATCHED_GROUP}" needs {(n + 1) * g} responses to an original, but there are at most '
            f"{counts.known[:, 0].max()}: `tagrpo diagnose --only forecast` predicts it"
        )
    return {"zero_gradient": shares, "zero_gradient_gaps": gaps}, notes


def unknown_bounds(counts: GroupCounts, shape: GroupShape) -> tuple[float, float]:
    """Return the lowest and the highest share of a group over all ways the unknown grades may turn out."""
    most_right, least_wrong = ends(counts.correct + counts.unknown, counts.wrong, shape.g)
    least_right, most_wrong = ends(counts.correct, counts.wrong + counts.unknown, shape.g)
    low, high = shape.counted(least_right, least_wrong), shape.counted(most_right, most_wrong)
    return float(counts.by_question(low).mean()), float(counts.by_question(high).mean())


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
        equal, weights = shape.equal_chances(self.model.shift), self.model.weights
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
    counts: GroupCounts, *, shift: Shift | None = None, replicates: int | None = None, seed: int = 0
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
    _, question = np.unique(counts.question, return_inverse=True)
    size = min(counts.questions, QUESTIONS_RESAMPLED)
    assumed = fitted.shift if fitted.shift is not None and fitted.shift.assumed else None
    fits = []
    for _ in range(REPLICATES if replicates is None else replicates):
        drawn = np.bincount(rng.integers(counts.questions, size=size), minlength=counts.questions)
        fit = fit_given(pilot.weighted(drawn[question]), fitted.family, assumed, fitted, rounds=_ROUNDS)
        fits.append(replace(fit, shift=fit.shift or fitted.shift))
    return Forecast(fitted, tuple(fits), float(np.sqrt(size / counts.questions)), counts)


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
    return float(model.weights @ shape.equal_chances(model.shift))
