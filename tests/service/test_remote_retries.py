"""Retry policy and Retry-After, without any network."""

import random
from datetime import UTC, datetime

import pytest

from service.models.remote import RetryPolicy
from service.models.remote.chat import FATAL_KINDS, RETRYABLE_KINDS
from service.models.remote.faults import parse_retry_after

NOW = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": " 0.25 "}, 0.25),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"Retry-After": "Mon, 04 May 2026 12:00:30 GMT"}, 30.0),
        ({"Retry-After": "Mon, 04 May 2026 11:00:00 GMT"}, 0.0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-3"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "inf"}, None),
        ({}, None),
    ],
)
def test_retry_after_in_all_spellings(headers: dict[str, str], seconds: float | None) -> None:
    assert parse_retry_after(headers, NOW) == seconds


def test_pauses_double_with_jitter_up_to_the_longest() -> None:
    policy = RetryPolicy(attempts=8, base_s=1.0, longest_s=10.0)
    rng = random.Random(3)
    for attempt, ceiling in enumerate([1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0], start=1):
        pauses = [policy.delay("server error", attempt, rng) for _ in range(200)]
        found = [pause for pause in pauses if pause is not None]
        assert len(found) == 200
        assert ceiling / 2 <= min(found) < ceiling * 0.55
        assert ceiling * 0.95 < max(found) <= ceiling
    assert policy.delay("server error", 8, rng) is None


def test_retry_after_is_a_lower_bound_and_too_long_a_wait_gives_up() -> None:
    policy = RetryPolicy(base_s=1.0, longest_retry_after_s=60.0)
    rng = random.Random(0)
    for _ in range(50):
        pause = policy.delay("rate limited", 1, rng, 20.0)
        assert pause is not None
        assert 20.05 <= pause <= 20.1
    assert policy.delay("rate limited", 1, rng, 61.0) is None


@pytest.mark.parametrize(
    "kind", ["bad request", "authentication", "unknown model", "quota", "content filter", "context length"]
)
def test_what_cannot_succeed_is_not_retried(kind: str) -> None:
    assert RetryPolicy().delay(kind, 1, random.Random(0)) is None


def test_no_kind_is_both_retried_and_fatal() -> None:
    assert not RETRYABLE_KINDS & FATAL_KINDS
