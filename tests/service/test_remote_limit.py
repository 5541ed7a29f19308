"""Adaptive concurrency, with a clock of the test's own."""

from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.models.remote import AdaptiveLimit, LimitSettings


def answer(limit: AdaptiveLimit, count: int) -> None:
    for _ in range(count):
        limit.on_success(limit.value)


def simulate(limit: AdaptiveLimit, latencies: Sequence[float], capacity: int | None = None) -> float:
    """Send requests as the limit allows to a server that never queues; return when all are answered.

    With a capacity, what comes beyond it is refused at once and sent again.
    """
    now, waiting = 0.0, deque(latencies)
    under_way: list[tuple[float, float]] = []  # end, start
    while waiting or under_way:
        while waiting and len(under_way) < limit.value:
            if capacity is not None and len(under_way) >= capacity:
                limit.on_overload(now, now + 0.01)
                break
            heappush(under_way, (now + waiting.popleft(), now))
        now, _ = heappop(under_way)
        limit.on_success(len(under_way) + 1)
    return now


def test_the_start_doubles_with_each_round() -> None:
    limit = AdaptiveLimit(LimitSettings(largest=64, start=8))
    assert limit.value == 8
    answer(limit, 8)
    assert limit.value == 16
    answer(limit, 16)
    assert limit.value == 32
    answer(limit, 100)
    assert limit.value == 64


def test_after_an_overload_one_more_each_round() -> None:
    limit = AdaptiveLimit(LimitSettings(largest=64, start=32))
    assert limit.on_overload(started=0.0, now=1.0)
    assert limit.value == 16
    answer(limit, 17)
    assert limit.value == 17
    answer(limit, 18)
    assert limit.value == 18


def test_one_event_lowers_once_however_many_requests_it_hits() -> None:
    limit = AdaptiveLimit(LimitSettings(largest=64, start=32))
    lowered = [limit.on_overload(started=0.5, now=1.0 + number / 100) for number in range(20)]
    assert lowered == [True] + [False] * 19
    assert limit.value == 16
    assert limit.on_overload(started=1.5, now=2.0)
    assert limit.value == 8


def test_the_limit_stays_where_nothing_waits_for_it() -> None:
    limit = AdaptiveLimit(LimitSettings(largest=64, start=16))
    for _ in range(200):
        limit.on_success(3)
    assert limit.value == 16


def test_hard_problems_on_a_server_that_never_queues_lower_nothing() -> None:
    limit = AdaptiveLimit(LimitSettings(largest=64))
    growing = [4 + 86 * place / 4999 for place in range(5000)]  # from 4 to 90 s, as problems get harder
    taken = simulate(limit, growing)
    assert limit.value == 64
    assert taken < 1.02 * sum(growing) / 64 + 90


def test_a_server_that_refuses_is_asked_for_what_it_can() -> None:
    limit = AdaptiveLimit(LimitSettings(largest=64))
    latencies = [10.0] * 3000
    taken = simulate(limit, latencies, capacity=24)
    assert 12 <= limit.value <= 25
    assert taken < 1.4 * sum(latencies) / 24


def test_a_time_out_counts_only_beside_refusals() -> None:
    limit = AdaptiveLimit(LimitSettings(largest=64, start=32))
    assert not limit.on_time_out(started=0.0, now=600.0)
    assert limit.value == 32
    assert limit.on_overload(started=650.0, now=651.0)
    assert not limit.on_time_out(started=640.0, now=700.0)  # under way before the decrease
    limit.on_overload(started=650.5, now=660.0)  # says nothing new, but that the server is still refusing
    assert limit.on_time_out(started=655.0, now=760.0)
    assert limit.value == 8


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
            limit.on_success(in_flight)
        else:
            limit.on_overload(now, now + latency)
        assert 1 <= limit.value <= largest


def test_the_literal_first_steps() -> None:
    limit = AdaptiveLimit(LimitSettings(largest=4, start=9))
    assert limit.value == 4
    limit.on_overload(0.0, 1.0)
    limit.on_overload(2.0, 3.0)
    limit.on_overload(4.0, 5.0)
    assert limit.value == pytest.approx(1)
