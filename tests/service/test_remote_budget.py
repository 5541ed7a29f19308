"""The cap on money and requests, and the worst case it counts."""

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import BudgetError, InputError
from service.models.remote import Budget, ChatRequest, Message, Price
from service.models.remote.money import Bill, most_prompt_tokens, worst_case_usd


def test_reserved_money_cannot_be_reserved_again() -> None:
    budget = Budget(max_usd=1.0)
    first = budget.reserve(0.6)
    assert first is not None
    assert budget.reserve(0.5) is None
    budget.settle(first, 0.1)
    assert budget.spent_usd == pytest.approx(0.1)
    assert budget.reserve(0.9) is not None
    assert budget.reserve(0.01) is None


def test_requests_are_counted_when_sent_and_given_back_when_not() -> None:
    budget = Budget(max_requests=2)
    first = budget.reserve(None)
    assert first is not None
    assert budget.reserve(None) is not None
    assert budget.reserve(None) is None
    assert budget.exhausted == "requests"
    budget.release(first)
    assert budget.exhausted is None
    assert budget.requests == 1


def test_an_unknown_price_under_a_cap_is_refused() -> None:
    with pytest.raises(BudgetError, match="price is not known"):
        Budget(max_usd=1.0).reserve(None)


def test_unknown_prices_are_counted_apart_without_a_cap() -> None:
    budget = Budget()
    reservation = budget.reserve(None)
    assert reservation is not None
    budget.settle(reservation, None)
    assert (budget.spent_usd, budget.unpriced) == (0.0, 1)


@pytest.mark.parametrize("cap", [-1.0, math.nan, math.inf])
def test_caps_that_are_no_amounts_are_refused(cap: float) -> None:
    with pytest.raises(InputError, match="--max-usd"):
        Budget(max_usd=cap)


def test_a_zero_cap_lets_free_requests_through_only() -> None:
    budget = Budget(max_usd=0.0)
    assert budget.reserve(0.0) is not None
    assert budget.reserve(0.000001) is None


async def test_waiting_for_the_bill_of_another_request() -> None:
    budget = Budget(max_usd=1.0)
    first = budget.reserve(0.9)
    assert first is not None
    waiting = asyncio.create_task(budget.reserve_or_wait(0.5))
    await asyncio.sleep(0)
    assert not waiting.done()
    budget.settle(first, 0.2)
    assert await waiting is not None
    assert budget.reserve(0.4) is None


async def test_waiting_ends_when_nothing_is_in_flight_any_more() -> None:
    budget = Budget(max_usd=1.0)
    first = budget.reserve(0.9)
    assert first is not None
    waiting = asyncio.create_task(budget.reserve_or_wait(0.5))
    await asyncio.sleep(0)
    budget.settle(first, 0.9)
    assert await waiting is None


@given(
    cap=st.floats(0.0, 10.0),
    worst=st.lists(st.floats(0.0, 3.0), max_size=60),
    shares=st.lists(st.floats(0.0, 1.0), min_size=60, max_size=60),
)
def test_spent_and_reserved_never_exceed_the_cap(cap: float, worst: list[float], shares: list[float]) -> None:
    budget = Budget(max_usd=cap)
    open_reservations = []
    for number, usd in enumerate(worst):
        reservation = budget.reserve(usd)
        if reservation is not None:
            open_reservations.append((reservation, usd))
        if open_reservations and number % 3 == 2:
            settled, most = open_reservations.pop(0)
            budget.settle(settled, most * shares[number])
        assert budget.spent_usd + budget.reserved_usd <= cap + 1e-9


def test_the_worst_case_of_a_request() -> None:
    request = ChatRequest(1, (Message("user", "Grüße"),), n=3, max_tokens=100)
    assert most_prompt_tokens(request) == 7 + 16 + 64  # two letters have two bytes each
    usd = worst_case_usd(request, Price(10.0, 30.0))
    assert usd == pytest.approx((87 * 10 + 300 * 30) / 1e6)
    assert worst_case_usd(request, None) is None


def test_a_bill_counts_what_cannot_be_known_at_its_worst() -> None:
    request = ChatRequest(key=1, prompt="", max_tokens=250_000 - 40)  # 80 tokens of prompt at half the price
    bill = Bill(request, Price(1.0, 2.0))
    assert bill.charge(None) == (0.5, True)
    assert bill.charge((1_000_000, 0)) == (1.0, False)
    assert (bill.total_usd, bill.doubtful_usd) == (1.5, 0.5)


def test_a_bill_without_a_price_is_unknown_and_not_zero() -> None:
    bill = Bill(ChatRequest(key=1, prompt=""), None)
    assert bill.total_usd == 0.0  # nothing was billed yet
    bill.charge((10, 10))
    assert bill.total_usd is None
