"""How many neighbors a question should have: what each choice yields, in mixed groups for responses drawn."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evaluator.signal.groups import ORIGINAL, Floats, QuestionGroup, count_groups
from evaluator.signal.rate_model import RateModel
from evaluator.signal.rates import Shift, binomial_table, rates

ADAPTIVE = "adaptive"
UNMIXED = 0.5


@dataclass(frozen=True)
class ChoiceRow:
    """What one number of neighbors yields.

    A group is mixed where it has a right and a wrong response. Rates are predicted means over the pilot's
    questions.

    Attributes:
        choice: "N=0" to "N=n", or "adaptive": N=n for some questions and none for the others.
        with_neighbors: share of questions that have neighbors.
        responses: drawn for a question, at G to each prompt.
        mixed: share of mixed groups.
        equal_mixed: the same where every question draws (n+1)G responses, spread over its prompts, as
            `tagrpo train` does.
        equal_responses: (n+1)G.
    """

    choice: str
    with_neighbors: float
    responses: float
    mixed: float
    equal_mixed: float
    equal_responses: int

    @property
    def per_hundred(self) -> float:
        """Mixed groups for 100 responses, at G to each prompt."""
        return 100 * self.mixed / self.responses

    @property
    def equal_per_hundred(self) -> float:
        """Mixed groups for 100 responses where every question draws as many."""
        return 100 * self.equal_mixed / self.equal_responses


def unmixed_chance(right: int, drawn: int, g: int) -> float:
    """Return the chance that G more responses are all right or all wrong, `right` of `drawn` seen before.

    E[p^G + (1-p)^G] over the posterior Beta(right + 1/2, drawn - right + 1/2) of the success rate.

    Raises:
        ValueError: more right than drawn, or a group of none.
    """
    from scipy.special import betaln

    if not 0 <= right <= drawn or g < 1:
        raise ValueError(f"{right} right of {drawn} and a group of {g} cannot be")
    a, b = right + 0.5, drawn - right + 0.5
    return float(np.exp(betaln(a + g, b) - betaln(a, b)) + np.exp(betaln(a, b + g) - betaln(a, b)))


def needs_neighbors(right: int, drawn: int, g: int, unmixed: float = UNMIXED) -> bool:
    """Say whether a question alone will probably yield no gradient: `unmixed_chance` from `unmixed` on."""
    return unmixed_chance(right, drawn, g) >= unmixed


def compare_choices(
    groups: Sequence[QuestionGroup], model: RateModel, g: int, n: int, *, unmixed: float = UNMIXED
) -> list[ChoiceRow]:
    """Return what 0 to n neighbors yield, and n for the questions that need them (`needs_neighbors`).

    The choice and its yield come from the same responses; the yield is the mean over each question's
    posterior under the fitted model, so that luck in the pilot is not counted as a gain. Questions without
    known responses to themselves get neighbors.

    Raises:
        ValueError: n above 0 and a model without a shift.
    """
    asked = [next((one for one in group.prompts if one.variant == ORIGINAL), None) for group in groups]
    needs = np.array(
        [one is None or not one.known or needs_neighbors(one.correct, one.known, g, unmixed) for one in asked]
    )
    posterior = _posteriors(groups, model)
    alone, around = _mixed(model.shift, g, g, 0), _mixed(model.shift, g, g, n)
    equal = [_equal_budget(model.shift, g, n, k) for k in range(n + 1)]
    weights = model.mixture.weights
    rows = [
        ChoiceRow(
            f"N={k}",
            float(k > 0),
            float((k + 1) * g),
            float(weights @ _mixed(model.shift, g, g, k)),
            float(weights @ equal[k]),
            (n + 1) * g,
        )
        for k in range(n + 1)
    ]
    if n == 0:
        return rows
    share = float(needs.mean())
    rows.append(
        ChoiceRow(
            ADAPTIVE,
            share,
            g * (1 + n * share),
            float(np.where(needs, posterior @ around, posterior @ alone).mean()),
            float(np.where(needs, posterior @ equal[n], posterior @ equal[0]).mean()),
            (n + 1) * g,
        )
    )
    return rows


def _posteriors(groups: Sequence[QuestionGroup], model: RateModel) -> Floats:
    """Return each question's posterior over the grid of rates given all its responses [Q, J]."""
    counts = count_groups(groups)
    likelihood = binomial_table(counts.correct[:, 0], counts.wrong[:, 0])
    if model.shift is not None:
        chances = model.shift.chances().T
        for column in range(1, 1 + counts.neighbors):
            own = binomial_table(counts.correct[:, column], counts.wrong[:, column])
            likelihood = likelihood * (own @ chances)
    joint = likelihood * model.mixture.weights
    posterior: Floats = joint / joint.sum(axis=1, keepdims=True)
    return posterior


def _mixed(shift: Shift | None, first: int, each: int, n: int) -> Floats:
    """Return per rate of a question [J] the chance of a mixed group: `first` responses to it and `each` to
    each of n neighbors."""
    grid = rates()
    right, wrong = grid**first, (1 - grid) ** first
    if n:
        if shift is None:
            raise ValueError("neighbors need a shift")
        chances = shift.chances()
        right = right * (chances @ grid**each) ** n
        wrong = wrong * (chances @ (1 - grid) ** each) ** n
    mixed: Floats = 1 - right - wrong
    return mixed


def _equal_budget(shift: Shift | None, g: int, n: int, k: int) -> Floats:
    """Return `_mixed` where (n+1)G responses are spread over a question and its k neighbors."""
    each, rest = divmod((n + 1) * g, k + 1)
    return _mixed(shift, each + rest, each, k)
