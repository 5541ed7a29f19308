import numpy as np
import pytest

from evaluator.signal.cost import compare_choices, needs_neighbors
from evaluator.signal.forecast import GroupShape, forecast
from evaluator.signal.groups import PromptSample, QuestionGroup, count_groups
from evaluator.signal.rate_model import fit_rates


def asked(number: int, right: int, drawn: int = 16, *neighbors: int) -> QuestionGroup:
    prompts = [PromptSample(0, right, drawn - right)]
    prompts += [PromptSample(k, one, drawn - one) for k, one in enumerate(neighbors, 1)]
    return QuestionGroup(f"q{number}", tuple(prompts))


def population(seed: int, questions: int, drawn: int, n: int) -> list[QuestionGroup]:
    """Questions of which many are never or always solved, with neighbors a little off."""
    rng = np.random.default_rng(seed)
    logit = rng.normal(-0.5, 3.0, questions)[:, None] + np.concatenate(
        [np.zeros((questions, 1)), rng.normal(0, 0.7, (questions, n))], axis=1
    )
    right = rng.binomial(drawn, 1 / (1 + np.exp(-logit)))
    return [asked(number, row[0], drawn, *row[1:]) for number, row in enumerate(right.tolist())]


def test_fixed_numbers_are_those_of_the_forecast() -> None:
    groups = population(1, 120, 8, 3)
    fitted = forecast(count_groups(groups), replicates=2)

    rows = compare_choices(groups, fitted.model, 8, 3)

    assert [row.choice for row in rows] == ["N=0", "N=1", "N=2", "N=3", "adaptive"]
    for n, row in enumerate(rows[:4]):
        assert row.mixed == pytest.approx(1 - fitted.share(GroupShape("", n, 8)))
        assert (row.responses, row.with_neighbors) == ((n + 1) * 8, float(n > 0))
        assert row.per_hundred == pytest.approx(100 * row.mixed / row.responses)
    assert rows[0].equal_mixed == pytest.approx(1 - fitted.share(GroupShape("", 0, 32)))
    assert rows[3].equal_mixed == rows[3].mixed


def test_adaptive_draws_less_and_foresees_what_comes() -> None:
    """The forecast of the adaptive choice holds on rates that it does not know."""
    rng = np.random.default_rng(3)
    size, g, n = 600, 8, 3
    logit = rng.normal(-0.5, 3.0, size)[:, None] + np.concatenate(
        [np.zeros((size, 1)), rng.normal(0, 0.7, (size, n))], axis=1
    )
    truth = 1 / (1 + np.exp(-logit))
    right = rng.binomial(16, truth).tolist()
    groups = [asked(number, row[0], 16, *row[1:]) for number, row in enumerate(right)]

    adaptive = compare_choices(groups, fit_rates(count_groups(groups)), g, n)[-1]

    chosen = np.array([needs_neighbors(row[0], 16, g) for row in right])
    powers = truth**g, (1 - truth) ** g
    around = 1 - sum(power.prod(axis=1) for power in powers)
    alone = 1 - sum(power[:, 0] for power in powers)
    assert adaptive.mixed == pytest.approx(np.where(chosen, around, alone).mean(), abs=0.02)
    assert adaptive.with_neighbors == chosen.mean()
    assert adaptive.responses == pytest.approx(g * (1 + n * chosen.mean()))
    large = 1 - truth[:, 0] ** 32 - (1 - truth[:, 0]) ** 32
    assert adaptive.equal_mixed == pytest.approx(np.where(chosen, around, large).mean(), abs=0.02)
