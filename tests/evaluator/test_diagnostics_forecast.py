"""The forecast: shares of the model, fits, selection, intervals, and the real training run."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.studies.forecast import check_halves
from benchmarks.studies.forecast_worlds import read_visits
from evaluator.signal.forecast import forecast
from evaluator.signal.groups import GroupCounts
from evaluator.signal.rates import RATES, Shift, binomial_table, profile_interval
from evaluator.signal.shapes import GroupShape, paper_shapes
from service.errors import InputError

Floats = NDArray[np.float64]


def logistic(values: Floats) -> Floats:
    return 1 / (1 + np.exp(-values))


def draw_rates(
    rng: np.random.Generator, questions: int, n: int, mean: float = -0.2, sd: float = 0.7
) -> Floats:
    own = np.clip(rng.beta(0.4, 0.5, questions), 1e-12, 1 - 1e-12)
    logits = np.log(own / (1 - own))[:, None]
    return np.concatenate(
        [own[:, None], logistic(logits + mean + sd * rng.standard_normal((questions, n)))], axis=1
    )


def sample(rng: np.random.Generator, success: Floats, m: int) -> GroupCounts:
    correct = rng.binomial(m, success)
    return GroupCounts(np.arange(len(success)), correct, m - correct, np.zeros_like(correct))


@pytest.mark.slow
def test_a_forecast_finds_the_shares_of_the_population() -> None:
    rng = np.random.default_rng(2)
    population = draw_rates(rng, 100_000, 3)
    fitted = forecast(sample(rng, draw_rates(rng, 1500, 3), 8), replicates=10)
    assert fitted.model.shift is not None
    assert fitted.model.shift.sd == pytest.approx(0.7, abs=0.12)
    assert fitted.model.shift.mean == pytest.approx(-0.2, abs=0.1)
    for shape in paper_shapes(8, 3):
        success = population[:, (0 if shape.original else 1) : 1 + shape.n]
        true = ((success**shape.g).prod(axis=1) + ((1 - success) ** shape.g).prod(axis=1)).mean()
        row = fitted.row(shape)
        assert row["share"] == pytest.approx(true, abs=0.03)
        assert row["low"] < row["share"] < row["high"]


def test_a_profile_at_the_pilots_own_g_is_the_interval_of_a_proportion() -> None:
    correct = np.repeat([0, 8, 4], [50, 30, 20])
    table, uniform = binomial_table(correct, 8 - correct), np.full(len(RATES), 1 / len(RATES))
    low, high = profile_interval(table, np.ones(100), GroupShape("", 0, 8).equal_chances(None), uniform)
    # 80 of 100 by the likelihood ratio, to what rates of the grid can say
    assert low == pytest.approx(0.715, abs=0.01)
    assert high == pytest.approx(0.870, abs=0.01)


def test_neighbors_need_a_pilot_or_an_assumption() -> None:
    rng = np.random.default_rng(7)
    counts = sample(rng, draw_rates(rng, 200, 0), 8)
    joint = GroupShape("joint", 3, 8)
    with pytest.raises(InputError, match="--assume-shift-sd"):
        forecast(counts, replicates=2).share(joint)
    narrow, wide = (
        forecast(counts, shift=Shift(0.0, sd, 0.0, assumed=True), replicates=2).share(joint)
        for sd in (0.01, 1.5)
    )
    alone = forecast(counts, replicates=2).share(GroupShape("matched", 0, 32))
    assert narrow == pytest.approx(alone, abs=0.01)
    assert wide < narrow - 0.03


@pytest.mark.slow
@pytest.mark.shared
def test_the_forecast_holds_on_a_real_run(data_folder: Path) -> None:
    visits = read_visits(data_folder / "grpo_group_log_dsrsub.jsonl")
    for g, m in ((8, 8), (8, 4), (4, 4)):
        predicted, observed = check_halves(visits, g, m=m)
        assert abs(predicted["share"] - observed.value) <= 0.03
        predicted, observed = check_halves(visits, g, m=m, at_random=True)
        assert abs(predicted["share"] - observed.value) <= 0.01
        assert predicted["low"] <= observed.value <= predicted["high"]
