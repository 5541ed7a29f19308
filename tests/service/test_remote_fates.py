"""What the log says of each attempt."""

import logging
import re

import pytest
from openai_faults import Fault, fault_sequence
from openai_server import OpenAIServer
from remote_clients import ask

from service.models.remote import ChatRequest, ChatResponse, Message, RetryPolicy
from service.models.remote.fates import Fates

SECRET = "sk-0123456789abcdef"
REQUEST = ChatRequest(41, (Message("user", "What is the secret of 2 + 3?"),), max_tokens=50)


def lines(caplog: pytest.LogCaptureFixture, server: OpenAIServer, **settings: object) -> list[str]:
    """Return what is said of the request, with `#` for its address and for each number of seconds."""
    with caplog.at_level(logging.INFO, "tagrpo.requests"):
        ask(server, REQUEST, retries=RetryPolicy(attempts=3, base_s=0.01), run_name="r", **settings)
    messages = [record.getMessage() for record in caplog.records if record.name == "tagrpo.requests"]
    assert not [line for line in messages if SECRET in line or "secret of" in line or "Bearer" in line]
    before = f"hosted_vllm/test-model at {server.url}: run r, cell 41, "
    assert all(line.startswith(before) for line in messages)
    return [re.sub(r"\d+\.\d s", "# s", line.removeprefix(before)) for line in messages]


def test_each_attempt_has_a_line(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSTED_VLLM_API_KEY", SECRET)
    server = OpenAIServer(faults=fault_sequence("server_error", Fault("rate_limit", "0.1")))
    assert lines(caplog, server) == [
        "attempt 1: 500 server error, # s, again in # s",
        "attempt 2: 429 rate limited, # s, again in # s",
        "attempt 3: 200, # s, 7 + 4 tokens",
    ]


def test_waiting_for_room_is_told_and_nothing_is_where_the_log_takes_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fates, response = Fates("m", ""), ChatResponse((), 1200, 8, 0.1, "m", "{}", 1, 3.21)
    fates.tell("k", 1, response)
    assert caplog.records == []
    with caplog.at_level(logging.INFO, "tagrpo.requests"):
        fates.tell("k", 1, response, took_s=3.21, waited_s=12.34)
    assert caplog.messages == ["m: cell k, attempt 1: 200, 3.2 s, 1,200 + 8 tokens, waited 12.3 s"]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("content_filter", ["attempt 1: 400 content filter, # s, failed for good"]),
        ("bad_request", ["attempt 1: 400 bad request, # s, failed"]),
        ("unauthorized", ["attempt 1: 401 authentication, # s, failed"]),
        ("hang", ["attempt 1: time-out, # s, again in # s", "attempt 2: time-out, # s, failed for good"]),
    ],
)
def test_a_failure_says_what_follows(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, fault: str, said: list[str]
) -> None:
    monkeypatch.setenv("HOSTED_VLLM_API_KEY", SECRET)
    server = OpenAIServer(faults=fault_sequence(fault, fault))
    assert lines(caplog, server, timeout_s=0.2) == said
