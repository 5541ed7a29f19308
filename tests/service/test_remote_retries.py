"""Retry policy and Retry-After, without any network."""

import random
from datetime import UTC, datetime

import pytest

from service.models.remote import RetryPolicy
from service.models.remote.chat import FATAL_KINDS, FINAL_KINDS, RETRYABLE_KINDS
from service.models.remote.faults import Fault, blame, kind_of_status, parse_retry_after

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
    assert not FINAL_KINDS & (RETRYABLE_KINDS | FATAL_KINDS)


IS = "This model's maximum context length is"
VLLM_WANTED = "However, you requested"
OWN = {  # The prompt alone, or both together, are too much: this request's fault.
    f"{IS} 4096 tokens. You requested 5120 tokens (4100 in the messages, 1020 in the completion).": 1020,
    f"{IS} 4096 tokens. You requested 5096 tokens (4000 in the messages, 1096 in the completion).": 1096,
    f"{IS} 8192 tokens. However, your messages resulted in 9000 tokens. Please reduce the length.": 1000,
    f"{IS} 4096 tokens. However, your request has 5000 input tokens.": 8192,
    "The decoder prompt (length 5000) is longer than the maximum model length of 4096.": 10,
    "prompt is too long: 208310 tokens > 200000 maximum": 1000,
    "the request exceeds the available context size, try increasing it": 1000,
    "Prompt contains 40000 tokens, too large for model with 32768 maximum context length": 9,
    f"{IS} 4096 tokens. {VLLM_WANTED} 60 output tokens and your prompt contains at least 4037 input tokens, "
    "for a total of at least 4097 tokens.": 60,
    f"{IS} 4096 tokens. {VLLM_WANTED} 4090 output tokens and your prompt contains at least 7 input tokens, "
    "for a total of at least 4097 tokens.": 4090,
    f"{IS} 4096 tokens": 8192,  # no number of the prompt: left to what becomes of the other requests
}
SETTINGS = {  # The answer alone fills the context, or is longer than any may be.
    f"{IS} 4096 tokens. You requested 8222 tokens (30 in the messages, 8192 in the completion).": 8192,
    f"'max_tokens' is too large: 8192. {IS} 4096 tokens and your request has 30 input tokens.": 8192,
    f"{IS} 4096 tokens. However, you requested 8192 output tokens and your prompt contains at least 1 "
    "input tokens, for a total of at least 8193 tokens.": 8192,
    "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a "
    "total of 4126 tokens: 30 tokens from the input messages and 4096 tokens for the completion.": 4096,
    "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 30 `inputs` tokens and 8192": 8192,
    "input length and `max_tokens` exceed context limit: 30 + 300000 > 200000, decrease input length": 300000,
    f"{IS} 4096 tokens. {VLLM_WANTED} 4096 output tokens and your prompt contains 55 characters (more than 0 "
    "characters, which is the upper bound for 0 input tokens).": 4096,
    "max_tokens=5000 cannot be greater than max_model_len=4096. Please request fewer output tokens. "
    "(parameter=max_tokens, value=5000)": 5000,
    "max_tokens is too large: 9000. This model supports at most 4096 completion tokens": 9000,
}
POLICY = {
    "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.": 100,
    "Invalid prompt: your prompt was flagged as violating our usage policy.": 100,
    "Your request was rejected as a result of our safety system.": 100,
}


@pytest.mark.parametrize(
    ("kind", "message", "max_tokens"),
    [
        (kind, *pair)
        for kind, messages in (("context length", OWN), ("settings", SETTINGS), ("content filter", POLICY))
        for pair in messages.items()
    ],
)
def test_a_refusal_is_the_request_s_fault_or_that_of_the_settings(
    kind: str, message: str, max_tokens: int
) -> None:
    fault = Fault(kind_of_status(400, message), message, billed=False)
    assert blame(fault, max_tokens).kind == kind
