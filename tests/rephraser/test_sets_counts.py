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
