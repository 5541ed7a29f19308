"""Cost: responses, tokens and money per mixed-reward group; break-evens by their definitions."""

import numpy as np
import pytest

from evaluator.signal.cost import (
    BREAK_EVEN,
    RESCUE,
    TokenCosts,
    cost_report,
    usd_per_token,
)
from evaluator.signal.forecast import Forecast
from evaluator.signal.groups import GroupCounts
from evaluator.signal.rate_model import RateModel
from evaluator.signal.rates import RATES, Mixture, Shift, beta_cells
from evaluator.signal.shapes import GroupShape
from service.errors import InputError


def known(weights: np.ndarray[tuple[int], np.dtype[np.float64]], shift: Shift | None) -> Forecast:
    """A forecast by a known model, whatever its pilot."""
    model, four = RateModel(Mixture("free", weights), shift), np.full((100, 1), 4)
    return Forecast(model, (model, model), 1.0, GroupCounts(np.arange(100), four, four, 0 * four))


def point(rate_place: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    weights = np.zeros(len(RATES))
    weights[rate_place] = 1.0
    return weights


def test_the_break_even_g_is_the_smallest_that_does_as_well() -> None:
    predicted = known(beta_cells(0.4, 0.5), Shift(0.0, 1.0, 0.0))
    rows, found = cost_report(predicted, 8, 3, TokenCosts(None, None))
    assert found is not None
    joint = predicted.share(GroupShape("joint", 3, 8))
    assert predicted.share(GroupShape("as good", 0, found["g_equal_share"])) <= joint
    assert predicted.share(GroupShape("worse", 0, found["g_equal_share"] - 1)) > joint
    assert found["g_equal_share"] > found["joint_responses"] == 32
    assert [row["g"] for row in rows if row["method"] == BREAK_EVEN] == [found["g_equal_share"]]
    assert all(row["tokens"] is None and row["usd"] is None for row in rows)


def test_a_rescue_yields_what_a_simulation_of_it_yields() -> None:
    weights, shift = 0.3 * point(0) + 0.7 * beta_cells(0.4, 0.8), Shift(-0.3, 1.2, 0.2)
    rows, even = cost_report(known(weights, shift), 8, 3, TokenCosts(100.0, 300.0))
    row = next(row for row in rows if row["method"] == RESCUE)
    rng, questions = np.random.default_rng(5), 100_000
    places = rng.choice(len(RATES), size=questions, p=weights)
    edges = shift.chances().cumsum(axis=1)
    neighbors = np.stack(
        [(edges[places] < rng.random(questions)[:, None]).sum(axis=1) for _ in range(3)], axis=1
    ).clip(max=len(RATES) - 1)
    first = rng.binomial(4, RATES[places])
    dead = first == 0
    of_neighbors = rng.binomial([2, 1, 1], RATES[neighbors]).sum(axis=1)
    right = first + np.where(dead, of_neighbors, rng.binomial(4, RATES[places]))
    assert even is not None
    assert even["dead"] == pytest.approx(dead.mean(), abs=0.006)
    assert even["revived"] == pytest.approx((of_neighbors[dead] > 0).mean(), abs=0.006)
    assert row["mixed"] == pytest.approx(((right > 0) & (right < 8)).mean(), abs=0.006)
    assert row["tokens"] == pytest.approx((800 + 4 * 200 * dead.mean()) / row["mixed"], rel=0.015)


def test_questions_that_only_neighbors_solve_have_no_break_even() -> None:
    weights = 0.5 * point(0) + 0.5 * point(len(RATES) // 2)
    _, even = cost_report(known(weights, Shift(0.0, 0.5, 0.5)), 8, 3, TokenCosts(1.0, 1.0))
    assert even is not None
    assert even["g_equal_share"] is None
    assert even["needed_share"] is None


def test_prices_need_both_numbers() -> None:
    assert usd_per_token(None, None) is None
    assert usd_per_token(3.6, 1000.0) == pytest.approx(1e-6)
    with pytest.raises(InputError, match="both"):
        usd_per_token(2.0, None)
    with pytest.raises(InputError, match="speed above 0"):
        usd_per_token(2.0, 0.0)
    with pytest.raises(InputError, match="at least 2"):
        cost_report(known(point(3), None), 1, 0, TokenCosts(None, None))
