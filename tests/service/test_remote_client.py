"""The client against a real HTTP server that misbehaves."""

import asyncio
import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from openai_faults import Fault, always, fault_sequence
from openai_server import OpenAIServer
from remote_clients import ASK, OPENAI, PRICED, QUICK, VLLM, answered, ask, client, failed, unused_url

from service.errors import BudgetError, PrerequisiteError
from service.models.remote import (
    Budget,
    ChatRequest,
    ChatResponse,
    Endpoint,
    Failure,
    PriceTable,
    RemoteClient,
    RetryPolicy,
)

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
WORST = (14 + 16 + 64) * 100e-6 + 100 * 200e-6
USED = 4 * 100e-6 + 8 * 200e-6  # 14 characters, and two answers of 16, at four characters a token


@pytest.mark.parametrize("model", [VLLM, OPENAI])
def test_an_answer_with_its_receipt(model: str) -> None:
    server = OpenAIServer()
    found = answered(ask(server, model=model))
    assert [choice.finish_reason for choice in found.choices] == ["stop", "stop"]
    assert [len(choice.text) for choice in found.choices] == [16, 16]
    assert (found.prompt_tokens, found.completion_tokens) == (4, 8)
    assert found.cost_usd == pytest.approx(USED)
    assert (found.model, found.attempts, found.doubtful_usd) == ("test-model", 1, 0.0)
    raw = json.loads(found.raw)
    assert [choice["message"]["content"] for choice in raw["choices"]] == [c.text for c in found.choices]
    assert raw["usage"]["completion_tokens"] == 8
    body = server.requests[0].body
    assert (body["n"], body["seed"], body["temperature"], body["max_tokens"]) == (2, 5, 0.7, 50)
    assert "top_p" not in body


def test_an_answer_cut_inside_of_a_character_is_not_paid_again() -> None:
    found = answered(ask(OpenAIServer(answer=lambda *_: ["Seven \ud83d"] * 2)))
    assert [choice.text for choice in found.choices] == ["Seven \ufffd"] * 2
    assert (found.attempts, json.loads(found.raw)["choices"][0]["message"]["content"]) == (1, "Seven \ufffd")


@pytest.mark.slow
@pytest.mark.parametrize("model", [VLLM, OPENAI])
@pytest.mark.parametrize(
    ("fault", "kind", "billed"),
    [
        ("rate_limit", "rate limited", 0.0),
        ("server_error", "server error", 0.0),
        ("unavailable", "server error", 0.0),
        ("overloaded", "server error", 0.0),
        ("cut", "connection", WORST),
        ("cut_early", "connection", WORST),
        ("invalid_json", "invalid answer", WORST),
        ("wrong_type", "invalid answer", WORST),
        ("wrong_shape", "invalid answer", WORST),
        ("empty_choices", "invalid answer", USED),
        ("aborted", "invalid answer", USED),
    ],
)
def test_passing_faults_are_retried_and_billed_as_they_may_have_been(
    model: str, fault: str, kind: str, billed: float
) -> None:
    found = answered(ask(OpenAIServer(faults=fault_sequence(fault)), model=model))
    assert found.attempts == 2
    assert found.cost_usd == pytest.approx(billed + USED)
    assert found.doubtful_usd == pytest.approx(billed if billed == WORST else 0.0)

    server = OpenAIServer(faults=always(fault))
    lost = failed(ask(server, model=model))
    assert (lost.kind, lost.attempts, lost.fatal) == (kind, 3, False)
    assert lost.cost_usd == pytest.approx(3 * billed)
    assert len(server.requests) == 3  # nobody but us retries


@pytest.mark.parametrize("model", [VLLM, OPENAI])
@pytest.mark.parametrize("fault", ["hang", "drip"])
async def test_the_time_out_holds_against_silence_and_against_a_trickle(model: str, fault: str) -> None:
    server = OpenAIServer(faults=always(fault))
    async with server, client(server, model, timeout_s=0.2, retries=RetryPolicy(2, 0.01)) as remote:
        began = time.monotonic()
        found = await remote.complete(ASK)
        took = time.monotonic() - began
        while server.in_flight:
            await asyncio.sleep(0.01)  # the client has let go of both connections
        count = len(server.requests)
    lost = failed(found)
    assert (lost.kind, lost.attempts, count) == ("time-out", 2, 2)
    assert lost.final
    assert 0.4 <= took < 3.0
    assert lost.cost_usd == pytest.approx(2 * WORST)


@pytest.mark.parametrize("model", [VLLM, OPENAI])
@pytest.mark.parametrize(
    ("fault", "kind", "fatal"),
    [
        ("bad_request", "bad request", False),
        ("content_filter", "content filter", False),
        ("context_length", "context length", False),
        ("unauthorized", "authentication", True),
        ("no_model", "unknown model", True),
        ("quota", "quota", True),
    ],
)
def test_what_cannot_succeed_is_asked_once(model: str, fault: str, kind: str, fatal: bool) -> None:
    server = OpenAIServer(faults=always(fault))
    lost = failed(ask(server, model=model))
    assert (lost.kind, lost.attempts, lost.fatal) == (kind, 1, fatal)
    assert lost.final == (kind in ("content filter", "context length"))
    assert "litellm" not in lost.message
    assert lost.cost_usd == 0.0
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("fault", "texts", "reasons"),
    [
        ("null_content", {""}, {"stop"}),
        ("empty_content", {""}, {"stop"}),
        ("filtered", {""}, {"content_filter"}),
        ("wrong_content", {"I'm sorry, but I can't help with that."}, {"stop"}),
    ],
)
def test_unusable_content_is_an_answer_that_was_paid_for(
    fault: str, texts: set[str], reasons: set[str]
) -> None:
    found = answered(ask(OpenAIServer(faults=always(fault))))
    assert {choice.text for choice in found.choices} == texts
    assert {choice.finish_reason for choice in found.choices} == reasons
    assert found.attempts == 1
    assert found.cost_usd == pytest.approx(USED)


def test_fewer_choices_than_asked_for_are_handed_over() -> None:
    assert len(answered(ask(OpenAIServer(faults=always("fewer_choices")))).choices) == 1


def test_a_cut_off_text_says_so() -> None:
    found = answered(ask(OpenAIServer(answer=lambda *_: ["x" * 500, "yes"])))
    assert [(len(c.text), c.finish_reason) for c in found.choices] == [(200, "length"), (3, "stop")]


@pytest.mark.parametrize("model", [VLLM, OPENAI])
def test_an_answer_without_usage_costs_its_worst_case(model: str) -> None:
    found = answered(ask(OpenAIServer(faults=always("missing_usage")), model=model))
    assert (found.prompt_tokens, found.completion_tokens) == (0, 0)
    assert found.cost_usd == pytest.approx(WORST)
    assert found.doubtful_usd == pytest.approx(WORST)


def test_an_unknown_price_is_unknown_and_not_zero() -> None:
    assert answered(ask(OpenAIServer(), prices=PriceTable())).cost_usd is None
    assert (
        failed(ask(OpenAIServer(faults=always("hang")), prices=PriceTable(), timeout_s=0.1)).cost_usd is None
    )
    assert failed(ask(OpenAIServer(faults=always("bad_request")), prices=PriceTable())).cost_usd == 0.0


def test_an_unknown_price_under_a_cap_is_refused_before_anything_is_sent() -> None:
    server = OpenAIServer()
    with pytest.raises(BudgetError, match=r"--price hosted_vllm/test-model=IN,OUT"):
        ask(server, prices=PriceTable(), budget=Budget(max_usd=5.0))
    assert server.requests == []


@pytest.mark.parametrize("model", [VLLM, OPENAI])
def test_retry_after_in_seconds_is_waited_for(model: str) -> None:
    server = OpenAIServer(faults=fault_sequence(Fault("rate_limit", "0.4")))
    assert answered(ask(server, model=model)).attempts == 2
    assert 0.4 <= server.arrivals[1] - server.arrivals[0] < 3.0


@pytest.mark.slow
@pytest.mark.parametrize("model", [VLLM, OPENAI])
def test_retry_after_as_a_date_is_waited_for(model: str) -> None:
    due = (datetime.now(UTC) + timedelta(seconds=2)).replace(microsecond=0)
    server = OpenAIServer(faults=fault_sequence(Fault("rate_limit", format_datetime(due, usegmt=True))))
    assert answered(ask(server, model=model)).attempts == 2
    assert due <= datetime.now(UTC) < due + timedelta(seconds=5)


async def test_retry_after_pauses_the_other_requests_too() -> None:
    server = OpenAIServer(faults=fault_sequence(Fault("rate_limit", "0.6")))
    async with server, client(server) as remote:
        first = asyncio.create_task(remote.complete(ASK))
        while not server.met:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.1)
        await asyncio.gather(first, *(remote.complete(ASK) for _ in range(5)))
    assert len(server.arrivals) == 7
    assert min(server.arrivals[1:]) - server.arrivals[0] >= 0.6


def test_a_server_that_is_not_there() -> None:
    url = unused_url()

    async def main() -> ChatResponse | Failure:
        endpoint = Endpoint(VLLM, url, 5.0)
        async with RemoteClient(endpoint, retries=QUICK, prices=PRICED) as remote:
            return await remote.complete(ASK)

    lost = failed(asyncio.run(main()))
    assert (lost.kind, lost.attempts, lost.cost_usd) == ("connection", 3, 0.0)
    assert "Cannot connect" in lost.message


@pytest.mark.parametrize("url", ["localhost:8000/v1", "http://"])
async def test_an_address_that_is_none_is_not_retried(url: str) -> None:
    async with RemoteClient(Endpoint(OPENAI, url, 5.0), retries=QUICK) as remote:
        answer = await remote.complete(ASK)
    lost = failed(answer)
    assert lost.fatal
    assert lost.attempts == 1


def test_a_model_without_a_provider_is_explained() -> None:
    with pytest.raises(PrerequisiteError, match=r"'Qwen3-4B'.*hosted_vllm/NAME"):
        ask(OpenAIServer(), model="Qwen3-4B")


@pytest.mark.parametrize("model", [VLLM, OPENAI])
def test_structured_output_is_asked_for_and_left_out_once_refused(model: str) -> None:
    request = ChatRequest("k", ASK.messages, seed=1, response_schema=SCHEMA)
    server = OpenAIServer()
    assert answered(ask(server, request, model)).attempts == 1
    assert server.requests[0].body["response_format"]["json_schema"]["schema"] == SCHEMA

    async def main() -> list[ChatResponse | Failure]:
        async with old, client(old, model) as remote:
            assert (await remote.check()).structured
            found = [await remote.complete(request) for _ in range(2)]
            assert not (await remote.check()).structured
            return found

    old = OpenAIServer(structured=False)
    first, second = asyncio.run(main())
    assert (answered(first).attempts, answered(second).attempts) == (2, 1)
    assert ["response_format" in seen.body for seen in old.requests] == [True, False, False]


def test_a_refused_seed_is_left_out_but_a_refused_temperature_is_reported() -> None:
    assert answered(ask(OpenAIServer(refuse_fields=["seed"]))).attempts == 2
    lost = failed(ask(OpenAIServer(refuse_fields=["temperature"])))
    assert lost.kind == "bad request"
    assert "temperature" in lost.message


def test_a_complaint_that_goes_on_without_the_field_ends() -> None:
    class Stubborn(OpenAIServer):
        def _refused_field(self, body: Mapping[str, Any]) -> str | None:
            return "seed"

    lost = failed(ask(Stubborn()))
    assert (lost.kind, lost.attempts) == ("bad request", 3)


def test_a_budget_without_room_sends_nothing() -> None:
    server = OpenAIServer()
    lost = failed(ask(server, budget=Budget(max_usd=WORST * 0.99)))
    assert (lost.kind, lost.attempts) == ("budget", 0)
    assert server.requests == []
    assert answered(ask(OpenAIServer(), budget=Budget(max_usd=WORST * 1.01))).attempts == 1


def test_a_retry_that_does_not_fit_is_not_sent() -> None:
    server = OpenAIServer(faults=always("invalid_json"))
    budget = Budget(max_usd=WORST * 2.5)
    lost = failed(ask(server, budget=budget, retries=RetryPolicy(9, 0.01)))
    assert (lost.kind, lost.attempts) == ("invalid answer", 2)
    assert budget.spent_usd == pytest.approx(2 * WORST)
    assert len(server.requests) == 2


async def test_cancelling_gives_back_the_slot_and_charges_the_worst_case() -> None:
    budget = Budget(max_usd=1.0)
    server = OpenAIServer(faults=always("hang"))
    async with server, client(server, budget=budget) as remote:
        task = asyncio.create_task(remote.complete(ASK))
        while not server.in_flight:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert budget.in_flight == 0
        assert budget.spent_usd == pytest.approx(WORST)
        server.faults = fault_sequence()
        assert answered(await remote.complete(ASK)).attempts == 1


def test_one_endpoint_after_another_event_loop() -> None:
    for _ in range(2):
        for model in (VLLM, OPENAI):
            assert answered(ask(OpenAIServer(), model=model)).attempts == 1


def test_a_request_that_ran_out_of_time_is_asked_once_more() -> None:
    server = OpenAIServer(faults=fault_sequence("server_error", "hang", "server_error", "hang"))
    lost = failed(ask(server, timeout_s=0.2, retries=RetryPolicy(base_s=0.01)))
    assert (lost.kind, lost.attempts) == ("time-out", 4)


def test_the_time_of_an_attempt_grows_with_the_longest_response() -> None:
    assert Endpoint("m").attempt_s(1024) == pytest.approx(120 + 102.4)
    assert Endpoint("m", tokens_per_s=40).attempt_s(32768) == pytest.approx(120 + 819.2)
    assert Endpoint("m", timeout_s=5).attempt_s(32768) == 5
