from math import comb

import pytest

from evaluator.passk.exact_interval import exact_interval


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


@pytest.mark.parametrize(("successes", "trials"), [(0, 0), (3, 2), (-1, 2)])
def test_no_interval_where_there_is_no_share(successes: int, trials: int) -> None:
    with pytest.raises(ValueError, match="no interval"):
        exact_interval(successes, trials)


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
