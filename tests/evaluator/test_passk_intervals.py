import subprocess
import sys
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from benchmarks.studies.passk_coverage import KS, POPULATIONS, coverage
from evaluator.passk import (
    NEW_PROBLEMS,
    RERUN,
    SAME_PROBLEMS,
    new_problems_interval,
    pass_at_k,
    same_problems_interval,
)
from evaluator.passk.intervals import estimate_variances, fit_rates, interval_around

ROOT = Path(__file__).resolve().parents[2]


def test_right_or_wrong_problems_get_wilson_with_t() -> None:
    # 0/1 values: s^2/M = m(1-m)/(M-1), so n_e = M - 1.
    values = [1.0] * 12 + [0.0] * 28
    z, m, size = stats.t.ppf(0.975, 39), 0.3, 39
    middle = (m + z * z / (2 * size)) / (1 + z * z / size)
    half = z * sqrt(m * (1 - m) / size + z * z / (4 * size * size)) / (1 + z * z / size)
    shown = new_problems_interval(values)

    assert (shown.low, shown.high) == pytest.approx((middle - half, middle + half), abs=1e-12)


def test_few_solved_problems_get_two_pseudo_problems() -> None:
    values = [0.2] * 4 + [0.0] * 26
    both = np.array([*values, 0.0, 1.0])
    half = stats.t.ppf(0.975, 31) * both.std(ddof=1) / sqrt(32)
    shown = new_problems_interval(values)

    assert shown.low == max(0.0, both.mean() - half) == 0.0
    assert shown.high == pytest.approx(both.mean() + half, abs=1e-12)


@pytest.mark.parametrize("values", [[0.0], [1.0], [0.5], [0.0] * 30, [1.0] * 675, [0.5] * 20, [0.3, 0.3]])
def test_equal_values_do_not_make_a_point(values: list[float]) -> None:
    shown = new_problems_interval(values)

    assert 0 <= shown.low <= values[0] <= shown.high <= 1
    assert shown.high - shown.low > 1 / (len(values) + 1)
    if len(values) == 1:
        assert shown.high - shown.low > 0.95


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60))
def test_intervals_hold_the_mean_mirror_and_grow_with_confidence(values: list[float]) -> None:
    shown, wide = new_problems_interval(values), new_problems_interval(values, confidence=0.99)
    mirrored = new_problems_interval([1 - value for value in values])

    assert 0 <= shown.low <= np.mean(values) + 1e-12
    assert np.mean(values) - 1e-12 <= shown.high <= 1
    assert (1 - mirrored.high, 1 - mirrored.low) == pytest.approx((shown.low, shown.high), abs=1e-6)
    assert wide.low <= shown.low + 1e-12
    assert shown.high <= wide.high + 1e-12


@pytest.mark.parametrize("values", [[], [[0.5]], [1.5], [float("nan")]])
def test_values_that_have_no_interval(values: list[float]) -> None:
    with pytest.raises(ValueError, match="problem"):
        new_problems_interval(values)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95])
def test_a_confidence_that_is_none(confidence: float) -> None:
    with pytest.raises(ValueError, match="confidence"):
        new_problems_interval([0.5, 0.1], confidence=confidence)
    with pytest.raises(ValueError, match="confidence"):
        interval_around(0.5, 0.1, rerun=False, confidence=confidence)


@pytest.mark.parametrize(("n", "a", "b"), [(32, 3.2, 30.1), (32, 0.05, 33.0), (8, 1.0, 1.0)])
def test_the_averaged_variance_is_the_integral(n: int, a: float, b: float) -> None:
    ks = [1, 2, 8]
    # Equal shares of the chance, not equal steps of the rate: the density has poles.
    rates = stats.beta.ppf((np.arange(40_000) + 0.5) / 40_000, a, b)
    chances = stats.binom.pmf(np.arange(n + 1), n, rates[:, None])
    for k, got in zip(ks, estimate_variances(n, np.array([a]), np.array([b]), ks)[0], strict=True):
        value = pass_at_k(n, np.arange(n + 1), k)
        exact = (chances @ value**2 - (chances @ value) ** 2).mean()
        assert got == pytest.approx(exact, rel=5e-3)
        mean = chances @ value
        np.testing.assert_allclose(mean, 1 - (1 - rates) ** k, atol=1e-9)


def test_rates_are_fitted_by_moments() -> None:
    rng = np.random.default_rng(0)
    n = rng.integers(16, 65, 20_000)
    c = rng.binomial(n, rng.beta(0.6, 1.4, 20_000))

    assert fit_rates(n, c) == pytest.approx((0.6, 1.4), rel=0.05)


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


def test_a_rerun_is_wider_by_the_root_of_two() -> None:
    once, rerun = (interval_around(0.5, 0.1, rerun=flag, confidence=0.95) for flag in (False, True))
    assert rerun[1] - 0.5 == pytest.approx(sqrt(2) * (once[1] - 0.5), rel=1e-9)


@pytest.mark.parametrize(
    ("n", "c", "message"), [([], [], "one count"), ([4], [5], "at most n"), ([1], [1], "k")]
)
def test_counts_that_have_no_interval(n: list[int], c: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        same_problems_interval(n, c, 2)


@pytest.mark.slow
@pytest.mark.parametrize("population", POPULATIONS[:1] + POPULATIONS[2:3])
@pytest.mark.parametrize(("problems", "samples"), [(30, 32), (83, 128)])
def test_intervals_cover(population: object, problems: int, samples: int) -> None:
    held = coverage(population, problems, samples, 600, np.random.default_rng(1))  # type: ignore[arg-type]

    # Four standard errors of 600 repetitions at .94 are .039.
    for name in (NEW_PROBLEMS, SAME_PROBLEMS, RERUN):
        assert held[name].shape == (len(KS),)
        assert held[name].min() > 0.90, name


def test_resampled_counts_would_be_biased() -> None:
    """Why there is no two-level bootstrap: resampled counts lose what was seen once."""
    rng = np.random.default_rng(0)
    n, k = 32, 16
    c = rng.binomial(n, np.full(4000, 0.03))
    again = rng.binomial(n, c / n)

    assert np.mean(pass_at_k(n, c, k)) == pytest.approx(1 - 0.97**k, abs=0.02)
    assert np.mean(pass_at_k(n, again, k)) < 1 - 0.97**k - 0.05


@pytest.mark.slow
def test_the_simulation_prints_its_tables() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "benchmarks.studies.passk_coverage", "--repetitions", "2"],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
    ).stdout
    lines = shown.splitlines()

    assert sum(line.startswith("| bimodal | 30 | 32 |") for line in lines) == 3
    assert '"new problems"' in lines[-1]
