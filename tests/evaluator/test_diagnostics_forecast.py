"""The forecast: shares of the model, fits, selection, intervals, and the real training run."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from evaluator.signal.forecast import (
    GroupShape,
    check_halves,
    forecast,
    halves,
    observed_share,
    paper_shapes,
    thin,
)
from evaluator.signal.groups import GroupCounts
from evaluator.signal.rate_model import Likelihoods, fit_rates, make_pilot
from evaluator.signal.rates import (
    Shift,
    beta_cells,
    binomial_table,
    equal_chances,
    fit_mixture,
    profile_interval,
    rates,
)
from evaluator.signal.sources.rollouts import read_visits
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
def test_shares_of_a_model_are_those_of_its_simulation() -> None:
    rng = np.random.default_rng(0)
    weights, shift = beta_cells(0.8, 1.2), Shift(-0.4, 0.9, 0.05)
    cells = rng.choice(len(weights), size=200_000, p=weights)
    chances = shift.chances()
    neighbors = np.array([[rng.random() for _ in range(2)] for _ in cells])
    edges = np.cumsum(chances, axis=1)
    drawn = rates()[
        np.array([np.searchsorted(edges[j], row) for j, row in zip(cells, neighbors, strict=True)])
    ]
    own = rates()[cells]
    for original in (True, False):
        success = np.concatenate([own[:, None], drawn], axis=1) if original else drawn
        equal = ((success**4).prod(axis=1) + ((1 - success) ** 4).prod(axis=1)).mean()
        share = weights @ equal_chances(shift, 4 if original else 0, 4, 2)
        assert share == pytest.approx(equal, abs=0.003)


def test_a_shift_keeps_probability_and_impossible_questions() -> None:
    chances = Shift(-3.0, 2.0, 0.0).chances()
    assert chances.sum(axis=1) == pytest.approx(1.0)
    assert chances[0, 0] == 1.0
    assert chances[-1, -1] == 1.0
    still = Shift(0.0, 0.0, 0.0).chances()
    assert still == pytest.approx(np.eye(len(still)), abs=1e-9)


def test_the_likelihood_of_counts_survives_large_numbers() -> None:
    table = binomial_table(np.array([0, 5000]), np.array([5000, 5000]))
    assert np.isfinite(table).all()
    assert table.max(axis=1) == pytest.approx(1.0)
    assert table[1, 0] == 0.0


def test_free_weights_find_masses() -> None:
    correct = np.repeat([0, 16, 8], [50, 30, 20])
    mixture = fit_mixture("free", binomial_table(correct, 16 - correct), np.ones(100))
    assert mixture.weights[rates() < 0.02].sum() == pytest.approx(0.5, abs=1e-3)
    assert mixture.weights[rates() > 0.98].sum() == pytest.approx(0.3, abs=1e-3)
    assert mixture.weights.sum() == pytest.approx(1.0)


def test_the_order_of_neighbors_does_not_matter() -> None:
    rng = np.random.default_rng(1)
    counts = sample(rng, draw_rates(rng, 40, 3), 4)
    turned = GroupCounts(
        counts.question, *(part[:, [0, 3, 1, 2]] for part in (counts.correct, counts.wrong, counts.unknown))
    )
    first, second = make_pilot(counts), make_pilot(turned)
    assert first.neighbors.tolist() == second.neighbors.tolist()
    shift = Shift(0.0, 1.0, 0.0)
    assert Likelihoods(first).rows(shift) == pytest.approx(Likelihoods(second).rows(shift))


def test_prompts_that_are_not_there_say_nothing() -> None:
    counts = GroupCounts(
        np.arange(2), np.array([[3, 0], [3, 2]]), np.array([[1, 0], [1, 2]]), np.zeros((2, 2), int)
    )
    rows = Likelihoods(make_pilot(counts)).rows(Shift(0.0, 1.0, 0.0))
    alone = binomial_table(np.array([3]), np.array([1]))[0]
    assert any(np.allclose(row, alone) for row in rows)


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
        assert row.share == pytest.approx(true, abs=0.03)
        assert row.low < row.share < row.high


@pytest.mark.slow
def test_forecasts_repeat_and_have_wider_intervals_for_smaller_pilots() -> None:
    rng = np.random.default_rng(3)
    success = draw_rates(rng, 400, 1)
    large = sample(rng, success, 8)
    small = large.rows(np.arange(60))
    shape = GroupShape("joint", 1, 8)
    first, again, few = (
        forecast(counts, replicates=10, seed=4).row(shape) for counts in (large, large, small)
    )
    assert first == again
    assert few.high - few.low > 1.5 * (first.high - first.low)


def test_shares_fall_with_g_and_n() -> None:
    rng = np.random.default_rng(5)
    fitted = forecast(sample(rng, draw_rates(rng, 200, 2), 8), replicates=2)
    by_g = [fitted.share(GroupShape("g", 1, g)) for g in (2, 4, 8, 16, 64)]
    by_n = [fitted.share(GroupShape("n", n, 8)) for n in (0, 1, 3, 7)]
    assert by_g == sorted(by_g, reverse=True)
    assert by_n == sorted(by_n, reverse=True)


def test_a_profile_at_the_pilots_own_g_is_the_interval_of_a_proportion() -> None:
    correct = np.repeat([0, 8, 4], [50, 30, 20])
    table, uniform = binomial_table(correct, 8 - correct), np.full(len(rates()), 1 / len(rates()))
    low, high = profile_interval(table, np.ones(100), equal_chances(None, 8, 0, 0), uniform)
    # 80 of 100 by the likelihood ratio, to what rates of the grid can say
    assert low == pytest.approx(0.715, abs=0.01)
    assert high == pytest.approx(0.870, abs=0.01)


def test_a_profile_ends_where_all_questions_are_alike() -> None:
    table, start = binomial_table(np.array([2, 2]), np.array([0, 0])), np.zeros(len(rates()))
    start[-1] = 1.0
    low, high = profile_interval(table, np.ones(2), (np.arange(len(start)) == len(start) - 1) * 1.0, start)
    assert 0 <= low < high <= 1


def test_a_profile_grows_where_more_responses_are_asked_than_were_drawn() -> None:
    correct = np.repeat([0, 1, 2, 8], [60, 30, 8, 40])
    table, uniform = binomial_table(correct, 8 - correct), np.full(len(rates()), 1 / len(rates()))
    times = np.ones(len(correct))
    own, far = (profile_interval(table, times, equal_chances(None, g, 0, 0), uniform) for g in (8, 32))
    # all of the unsolved at a rate of .05: 31% of the 98 hold 32 wrong ones; or most of them at 0
    assert far[0] < 40 / 138 + 0.2 * 98 / 138
    assert far[1] - far[0] > 1.2 * (own[1] - own[0])


def by_phrasing(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    solved = rng.random(shape) < 0.4
    return np.where(solved, rng.beta(12, 1, shape), rng.beta(0.8, 14, shape))


@pytest.mark.slow
def test_prompts_that_are_solved_or_not_by_themselves_do_not_mislead_the_forecast() -> None:
    rng = np.random.default_rng(11)
    fitted = forecast(sample(rng, by_phrasing(rng, (300, 4)), 8), replicates=10)
    assert fitted.model.shift is not None
    assert fitted.model.shift.stray > 0.8
    own = by_phrasing(rng, (100_000, 1))
    for g in (8, 32):
        row = fitted.row(GroupShape("original", 0, g))
        true = float((own**g + (1 - own) ** g).mean())
        assert row.low < true < row.high
        assert row.share == pytest.approx(true, abs=0.08)


@pytest.mark.slow
def test_an_interval_holds_what_the_model_misses_in_the_pilot() -> None:
    rng = np.random.default_rng(12)
    own, others = by_phrasing(rng, (300, 1)), by_phrasing(rng, (300, 1))
    alike = np.concatenate([own, others, others, others], axis=1)  # neighbors are one, questions another
    fitted = forecast(sample(rng, alike, 8), replicates=10)
    row = fitted.row(GroupShape("neighbors", 3, 8, original=False))
    true = float((others**24 + (1 - others) ** 24).mean())
    assert row.share < true / 1.5
    assert row.high > true


def test_the_family_is_chosen_on_held_out_questions() -> None:
    rng = np.random.default_rng(6)
    kinds = rng.choice([0.0, 1.0, 0.5], size=600, p=[0.4, 0.3, 0.3])
    held_out = fit_rates(sample(rng, kinds[:, None], 16))
    assert held_out.mixture.family != "beta"
    rng = np.random.default_rng(0)
    smooth = fit_rates(sample(rng, rng.beta(2.0, 2.0, (600, 1)), 16))
    assert smooth.mixture.family == "beta"
    assert smooth.shift is None


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


def test_one_question_with_neighbors_makes_a_forecast() -> None:
    """Some replicates draw no question with neighbors, and know no shift of their own."""
    rng = np.random.default_rng(7)
    counts = sample(rng, draw_rates(rng, 12, 1), 4)
    counts.correct[1:, 1] = counts.wrong[1:, 1] = 0
    fitted = forecast(counts)
    assert all(shift is not None for _, shift in fitted.replicates)
    row = fitted.row(GroupShape("joint", 1, 4))
    assert row.low < row.share < row.high


def test_a_pilot_of_one_question_is_no_pilot() -> None:
    counts = GroupCounts(np.zeros(2, int), np.array([[1], [2]]), np.array([[1], [0]]), np.zeros((2, 1), int))
    with pytest.raises(InputError, match="at least 2 questions"):
        forecast(counts)
    with pytest.raises(ValueError, match="replicates"):
        forecast(counts, replicates=1)


def test_visits_are_halved_and_thinned() -> None:
    visits = [[(1, 8), (2, 8), (8, 8)], [(0, 8), (8, 8)]]
    first, second = halves(visits)
    assert first.correct[:, 0].tolist() == [1, 0]
    assert second.correct[:, 0].tolist() == [2, 8, 8]
    assert second.question.tolist() == [0, 0, 1]
    assert observed_share(second, 8).value == pytest.approx((0.5 + 1) / 2)
    thinned = thin(second, 4, np.random.default_rng(0))
    assert thinned.known[:, 0].tolist() == [4, 4, 4]
    assert thinned.correct[1:, 0].tolist() == [4, 4]
    with pytest.raises(InputError, match="fewer than 9"):
        thin(second, 9, np.random.default_rng(0))
    with pytest.raises(InputError, match="fewer than G=9"):
        observed_share(second, 9)
    with pytest.raises(InputError, match="prompt 2 has 1 visits"):
        halves([visits[0], [(1, 8)]])


@pytest.mark.slow
@pytest.mark.shared
def test_the_forecast_holds_on_a_real_run(data_folder: Path) -> None:
    visits = read_visits(data_folder / "grpo_group_log_dsrsub.jsonl")
    for g, m in ((8, 8), (8, 4), (4, 4)):
        early = check_halves(visits, g, m=m)
        assert abs(early.error) <= 0.03, early
        at_random = check_halves(visits, g, m=m, at_random=True)
        assert abs(at_random.error) <= 0.01, at_random
        assert at_random.predicted.low <= at_random.observed.value <= at_random.predicted.high
