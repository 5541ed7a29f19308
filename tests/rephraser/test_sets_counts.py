import pytest

from rephraser.sets.counts import accept_rates


def record(strategy: str, **counts: int) -> dict[str, object]:
    zero = dict.fromkeys(("accepted", "undecided", "unverified", "rejected", "pending"), 0)
    return {"proposer": "llm", "strategy": strategy, "strategy_hash": "h", "model": "m", **zero, **counts}


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
