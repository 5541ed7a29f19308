from math import comb, sqrt

import numpy as np
import pytest
from scipy import stats

from benchmarks.studies.passk_coverage import KS, POPULATIONS, coverage
from evaluator.passk import NEW_PROBLEMS, RERUN, SAME_PROBLEMS, new_problems_interval, same_problems_interval
from evaluator.passk.intervals import exact_interval


def test_right_or_wrong_problems_get_wilson_with_t() -> None:
    # 0/1 values: s^2/M = m(1-m)/(M-1), so n_e = M - 1.
    values = [1.0] * 12 + [0.0] * 28
    z, m, size = stats.t.ppf(0.975, 39), 0.3, 39
    middle = (m + z * z / (2 * size)) / (1 + z * z / size)
    half = z * sqrt(m * (1 - m) / size + z * z / (4 * size * size)) / (1 + z * z / size)
    shown = new_problems_interval(values)

    assert (shown.low, shown.high) == pytest.approx((middle - half, middle + half), abs=1e-12)


@pytest.mark.parametrize("values", [[0.0], [1.0], [0.5], [0.0] * 30, [1.0] * 675, [0.5] * 20, [0.3, 0.3]])
def test_equal_values_do_not_make_a_point(values: list[float]) -> None:
    shown = new_problems_interval(values)

    assert 0 <= shown.low <= values[0] <= shown.high <= 1
    assert shown.high - shown.low > 1 / (len(values) + 1)
    if len(values) == 1:
        assert shown.high - shown.low > 0.95


def test_same_problems_cases_at_the_end() -> None:
    solved, failed = (
        same_problems_interval([32] * 30, [32] * 30, 1),
        same_problems_interval([32] * 30, [0] * 30, 1),
    )
    assert solved.high == 1.0
    assert failed.low == 0.0
    assert solved.low == pytest.approx(1 - failed.high, abs=1e-12)
    assert 0.0005 < failed.high < 0.01
    one = same_problems_interval(1, 1, 1)
    assert one.low < 0.5
    assert one.high == 1.0
    everything = same_problems_interval([8] * 10, [2] * 10, 8)  # k = n: solved or not, nothing between
    assert everything.low < 1.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("population", "problems", "samples"), [(POPULATIONS[0], 30, 32), (POPULATIONS[2], 83, 128)]
)
def test_intervals_cover(population: object, problems: int, samples: int) -> None:
    held = coverage(population, problems, samples, 600, np.random.default_rng(1))  # type: ignore[arg-type]

    # Four standard errors of 600 repetitions at .94 are .039.
    for name in (NEW_PROBLEMS, SAME_PROBLEMS, RERUN):
        assert held[name].shape == (len(KS),)
        assert held[name].min() > 0.90, name


# 0 of n and n of n follow from tail = (1 - p)^n; the others stand in printed tables of the binomial.
@pytest.mark.parametrize(
    ("successes", "trials", "confidence", "low", "high"),
    [
        (0, 10, 0.95, 0.0, 1 - 0.025**0.1),
        (10, 10, 0.95, 0.025**0.1, 1.0),
        (5, 10, 0.95, 0.187086, 0.812914),
        (1, 20, 0.95, 0.001265, 0.248733),
        (0, 1, 0.95, 0.0, 0.975),
        (1, 1, 0.9, 0.05, 1.0),
        (0, 20, 0.99, 0.0, 1 - 0.005**0.05),
    ],
)
def test_known_intervals(successes: int, trials: int, confidence: float, low: float, high: float) -> None:
    assert exact_interval(successes, trials, confidence) == pytest.approx((low, high), abs=1e-6)
    with pytest.raises(ValueError, match="no interval"):
        exact_interval(trials + 1, trials)


@pytest.mark.parametrize("trials", [1, 5, 20, 50])
def test_the_interval_covers_every_share_often_enough(trials: int) -> None:
    intervals = [exact_interval(successes, trials) for successes in range(trials + 1)]
    for step in range(1, 100):
        share = step / 100
        covered = sum(
            comb(trials, k) * share**k * (1 - share) ** (trials - k)
            for k, (low, high) in enumerate(intervals)
            if low <= share <= high
        )
        assert covered >= 0.95, f"share {share}: {covered}"
