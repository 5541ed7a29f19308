import pytest
from hypothesis import given
from hypothesis import strategies as st

from rephraser.sets.counts import accept_rates, clopper_pearson


def record(strategy: str, **counts: int) -> dict[str, object]:
    zero = dict.fromkeys(("accepted", "undecided", "unverified", "rejected", "pending"), 0)
    return {"proposer": "llm", "strategy": strategy, "strategy_hash": "h", "model": "m", **zero, **counts}


# 0 of 10 and 10 of 10 follow from .025 = (1-p)^10; 5 of 10 is symmetric; all as printed in tables.
@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        (0, 10, 0.0, 1 - 0.025**0.1),
        (10, 10, 0.025**0.1, 1.0),
        (5, 10, 0.187086, 0.812914),
        (1, 20, 0.001265, 0.248733),
    ],
)
def test_clopper_pearson(successes: int, trials: int, low: float, high: float) -> None:
    assert clopper_pearson(successes, trials) == pytest.approx((low, high), abs=1e-6)


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_holds_the_share_and_is_symmetric(case: tuple[int, int]) -> None:
    successes, trials = case
    low, high = clopper_pearson(successes, trials)
    mirrored_low, mirrored_high = clopper_pearson(trials - successes, trials)

    assert 0 <= low <= successes / trials <= high <= 1
    assert (1 - mirrored_high, 1 - mirrored_low) == pytest.approx((low, high), abs=1e-9)


@pytest.mark.parametrize(("successes", "trials"), [(0, 0), (3, 2), (-1, 2)])
def test_no_interval_where_there_is_no_share(successes: int, trials: int) -> None:
    with pytest.raises(ValueError, match="no interval"):
        clopper_pearson(successes, trials)


def test_rates_of_all_and_by_strategy() -> None:
    rates = accept_rates(
        [
            record("perspectives", accepted=5, rejected=3, undecided=2, pending=1),
            record("format", accepted=1, rejected=1),
            record("format", rejected=2, unverified=4),
        ]
    )

    assert [(r.strategy, r.accepted, r.judged, r.unverified, r.rate) for r in rates] == [
        ("all", 6, 14, 5, 6 / 14),
        ("format", 1, 4, 4, 0.25),
        ("perspectives", 5, 10, 1, 0.5),
    ]
    assert (rates[2].low, rates[2].high) == pytest.approx((0.187086, 0.812914), abs=1e-6)


def test_one_strategy_is_not_repeated() -> None:
    assert [rate.strategy for rate in accept_rates([record("format", accepted=1)])] == ["all"]


def test_without_compared_answers_there_is_no_rate() -> None:
    (rate,) = accept_rates([record("rules", unverified=90, rejected=10)])

    assert (rate.rate, rate.low, rate.high) == (None, None, None)
    assert (rate.judged, rate.unverified) == (10, 90)


def test_all_rejected_is_a_rate_of_zero() -> None:
    (rate,) = accept_rates([record("llm", rejected=10)])

    assert rate.rate == 0
    assert rate.high == pytest.approx(1 - 0.025**0.1)


def test_no_proposals_no_rates() -> None:
    assert accept_rates([]) == []
