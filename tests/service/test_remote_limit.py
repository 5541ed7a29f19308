"""Adaptive concurrency, with a clock of the test's own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.models.remote import AdaptiveLimit, LimitSettings


def answer(limit: AdaptiveLimit, count: int, now: float = 0.0, latency: float = 1.0) -> None:
    for _ in range(count):
        limit.on_success(now, now + latency, limit.value)


def test_the_start_doubles_with_each_round() -> None:
    limit = AdaptiveLimit(LimitSettings(largest=64, start=8))
    assert limit.value == 8
    answer(limit, 8)
    assert limit.value == 16
    answer(limit, 16)
    assert limit.value == 32
    answer(limit, 100)
    assert limit.value == 64


def test_after_congestion_one_more_each_round() -> None:
    limit = AdaptiveLimit(LimitSettings(largest=64, start=32))
    assert limit.on_congestion(started=0.0, now=1.0)
    assert limit.value == 16
    answer(limit, 17, now=2.0)
    assert limit.value == 17
    answer(limit, 18, now=3.0)
    assert limit.value == 18


def test_one_event_lowers_once_however_many_requests_it_hits() -> None:
    limit = AdaptiveLimit(LimitSettings(largest=64, start=32))
    lowered = [limit.on_congestion(started=0.5, now=1.0 + number / 100) for number in range(20)]
    assert lowered == [True] + [False] * 19
    assert limit.value == 16
    assert limit.on_congestion(started=1.5, now=2.0)
    assert limit.value == 8


def test_the_limit_stays_where_nothing_waits_for_it() -> None:
    limit = AdaptiveLimit(LimitSettings(largest=64, start=16))
    for _ in range(200):
        limit.on_success(0.0, 1.0, 3)
    assert limit.value == 16


def test_latency_without_throughput_lowers() -> None:
    limit = AdaptiveLimit(LimitSettings(largest=32, start=32))
    answer(limit, 96, latency=1.0)
    assert limit.value == 32
    answer(limit, 32, latency=5.0)  # five times as long for the same number in flight: they only queue
    assert limit.value == 25


def test_latency_that_buys_throughput_does_not_lower() -> None:
    limit = AdaptiveLimit(LimitSettings(largest=64, start=4, shortest_window=4))
    for _ in range(4):
        limit.on_success(0.0, 1.0, 4)
    reached = limit.value
    for _ in range(3 * reached):
        limit.on_success(0.0, 3.5, 64)  # 64 / 3.5 s is more than 4 / 1 s
    assert limit.value > reached


def test_a_slower_server_becomes_the_new_normal() -> None:
    limit = AdaptiveLimit(LimitSettings(largest=32, start=32))
    answer(limit, 64, latency=1.0)
    answer(limit, 4000, latency=4.0)
    assert limit.value == 32


def test_a_pause_holds_until_its_end() -> None:
    limit = AdaptiveLimit(LimitSettings())
    limit.pause_until(10.0)
    limit.pause_until(4.0)
    assert limit.pause_s(7.5) == 2.5
    assert limit.pause_s(11.0) == 0.0


@given(
    events=st.lists(st.tuples(st.booleans(), st.floats(0.01, 100.0), st.integers(0, 80)), max_size=200),
    largest=st.integers(1, 64),
    start=st.integers(1, 100),
)
def test_the_limit_never_leaves_its_bounds(
    events: list[tuple[bool, float, int]], largest: int, start: int
) -> None:
    limit = AdaptiveLimit(LimitSettings(largest=largest, start=start))
    now = 0.0
    for good, latency, in_flight in events:
        now += 0.1
        if good:
            limit.on_success(now, now + latency, in_flight)
        else:
            limit.on_congestion(now, now + latency)
        assert 1 <= limit.value <= largest


def test_the_literal_first_steps() -> None:
    limit = AdaptiveLimit(LimitSettings(largest=4, start=9))
    assert limit.value == 4
    limit.on_congestion(0.0, 1.0)
    limit.on_congestion(2.0, 3.0)
    limit.on_congestion(4.0, 5.0)
    assert limit.value == pytest.approx(1)
