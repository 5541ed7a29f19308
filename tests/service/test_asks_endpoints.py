"""One attempt at a provider or server: what is sent, what a failure means, what is remembered."""

import asyncio
import json
import time
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from asking import FAULTS, OPENAI, VLLM, answer, attempt, opened, question, remote
from openai_faults import Fault as ServerFault
from openai_faults import always, fault_sequence
from openai_server import OpenAIServer

from service.asks import request as kinds
from service.asks.faults import classify, parse_retry_after
from service.asks.redaction import BLOT, redact
from service.asks.request import Fault, read_reply
from service.errors import PrerequisiteError


@pytest.mark.parametrize(("fault", "kind", "billed"), FAULTS)
async def test_a_failed_attempt_is_classified_and_not_repeated(fault, kind, billed):
    async with (
        OpenAIServer(faults=always(fault)) as server,
        opened(remote([server], timeout_s=0.3 if kind == "time-out" else 30)) as endpoint,
    ):
        with pytest.raises(Fault) as failed:
            await answer(endpoint, question())
    assert (failed.value.kind, failed.value.billed) == (kind, billed)
    assert server.stats["requests"] == 1


QUOTA_OF_GEMINI = (
    '{"error": {"code": 429, "message": "You exceeded your current quota, please check your plan and billing '
    'details.", "details": [{"quotaId": "RequestsPer%s-FreeTier"}, {"retryDelay": "26.5s"}]}}'
)
GEMINI, ANTHROPIC = "gemini/gemini-2.0-flash", "anthropic/claude-3-5-sonnet-20240620"


@pytest.mark.parametrize(
    ("model", "status", "body", "kind", "retry_after_s"),
    [
        (GEMINI, 429, QUOTA_OF_GEMINI % "Minute", kinds.RATE_LIMITED, 26.5),
        (GEMINI, 429, QUOTA_OF_GEMINI % "Day", kinds.QUOTA, 26.5),
        (GEMINI, 400, '{"error": {"message": "API key not valid."}}', kinds.AUTHENTICATION, None),
        (ANTHROPIC, 400, '{"error": {"message": "Your credit balance is too low"}}', kinds.QUOTA, None),
        (GEMINI, 422, '{"error": {"message": "no such field"}}', kinds.BAD_REQUEST, None),
        (GEMINI, 200, "<html>", kinds.INVALID_ANSWER, None),
        (GEMINI, 200, '{"candidates": [{', kinds.INVALID_ANSWER, None),
        (GEMINI, 200, "{}", kinds.INVALID_ANSWER, None),
        (ANTHROPIC, 200, "{}", kinds.INVALID_ANSWER, None),
        (ANTHROPIC, 200, "[]", kinds.INVALID_ANSWER, None),
        (ANTHROPIC, 200, '{"content": null}', kinds.INVALID_ANSWER, None),
        (ANTHROPIC, 200, '{"content": [[]]}', kinds.INVALID_ANSWER, None),
        (VLLM, 200, "5", kinds.INVALID_ANSWER, None),
        (VLLM, 200, "null", kinds.INVALID_ANSWER, None),
    ],
)
async def test_replies_of_other_providers_are_classified(
    monkeypatch, model, status, body, kind, retry_after_s
):
    async def reply(request: web.Request) -> web.Response:
        return web.Response(status=status, text=body, content_type="application/json")

    monkeypatch.setenv("MY_GATE", "open-sesame")
    app = web.Application()
    app.router.add_post("/{page:.*}", reply)
    async with TestServer(app) as server:
        endpoint = remote([str(server.make_url("/v1"))], model, api_key_env="MY_GATE")
        with pytest.raises(Fault) as failed:
            await attempt(endpoint, question())
        await endpoint.close()
    fault = failed.value
    assert (fault.kind, fault.retry_after_s) == (kind, retry_after_s)
    assert fault.billed == (kind == kinds.INVALID_ANSWER)
    assert "Traceback" not in fault.message


@pytest.mark.parametrize("body", ['{"choices": [], "usage": {"prompt_tokens": 1e999}}', "[" * 100_000])
def test_a_body_that_cannot_be_read_is_a_fault(body):
    with pytest.raises(Fault, match="not a completion"):
        read_reply(body)


@pytest.mark.parametrize("count", ["-1", "1e300"])
def test_absurd_counts_of_tokens_are_not_known(count):
    usage = f'{{"prompt_tokens": {count}, "completion_tokens": 4}}'
    answer = read_reply(f'{{"choices": [{{"text": "4"}}], "usage": {usage}}}')
    assert (answer.prompt_tokens, answer.completion_tokens) == (0, 0)


def test_an_error_of_our_own_code_is_no_reply():
    fault = classify(TypeError("can only concatenate str"))
    assert (fault.kind, fault.billed, fault.message) == (kinds.BAD_REQUEST, False, "can only concatenate str")


async def test_every_setting_is_sent_neutral_ones_too():
    async with OpenAIServer() as server, opened(remote([server])) as endpoint:
        got = await answer(
            endpoint, question(n=2, extra={"chat_template_kwargs": {"enable_thinking": False}})
        )
    assert [len(choice.text) for choice in got.choices] == [16, 16]
    assert (got.prompt_tokens, got.completion_tokens, got.seeded) == (4, 8, True)
    neutral = {"repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0, "min_p": 0.0}
    assert server.requests[0].body == neutral | {
        "model": "test-model",
        "messages": [{"role": "user", "content": "What is 2 + 3?"}],
        "chat_template_kwargs": {"enable_thinking": False},
        "max_tokens": 50,
        "temperature": 0.7,
        "top_p": 0.95,
        "top_k": -1,
        "seed": 2,
        "n": 2,
    }


async def test_a_thought_that_the_server_took_out_is_kept():
    async with OpenAIServer(thinks=True) as server, opened(remote([server])) as endpoint:
        got = await answer(endpoint, question())
    assert got.choices[0].reasoning == "Let me see.\n"
    assert got.choices[0].full_text.startswith("<think>\nLet me see.\n</think>\n\n")


@pytest.mark.parametrize("model", [VLLM, OPENAI])
@pytest.mark.parametrize("retry_after", ["0.2", "date"])
async def test_retry_after_pauses_all_requests_to_the_server(model, retry_after):
    if retry_after == "date":
        retry_after = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 4))
    fault = ServerFault("rate_limit", retry_after)
    async with (
        OpenAIServer(faults=fault_sequence(fault)) as server,
        opened(remote([server], model)) as endpoint,
    ):
        with pytest.raises(Fault) as failed:
            await attempt(endpoint, question())
        began = time.monotonic()
        await attempt(endpoint, question())
    assert time.monotonic() - began >= failed.value.retry_after_s - 0.1 > 0


@pytest.mark.parametrize("model", [VLLM, OPENAI])
async def test_closing_an_endpoint_leaves_requests_of_others_alone(model):
    async with OpenAIServer(latency_s=0.3) as server, opened(remote([server], model)) as endpoint:
        async with opened(remote([server], model)):
            asked = asyncio.create_task(answer(endpoint, question()))
            while not server.requests:
                await asyncio.sleep(0.005)
        assert (await asked).choices
    assert server.stats["requests"] == 1


@pytest.mark.parametrize("model", [VLLM, OPENAI])
async def test_refused_fields_are_left_out_remembered_and_noted(model):
    async with (
        OpenAIServer(refuse_fields=["seed", "n", "response_format"]) as server,
        opened(remote([server], model)) as endpoint,
    ):
        asked = question(n=4, response_schema={"type": "object"})
        first, second = await answer(endpoint, asked), await answer(endpoint, asked)
    assert [len(got.choices) for got in (first, second)] == [1, 1]
    assert not first.seeded
    assert not second.seeded
    assert server.stats["requests"] == 3 + 1 + 1
    assert not {"seed", "n", "response_format"} & set(server.requests[-1].body)
    assert not endpoint.takes("n")
    assert endpoint.notices == [
        f"{model} does not accept n: tagrpo sends one request per response.",
        f"{model} does not accept response_format: only the prompt requests structured output.",
        f"{model} does not accept seed: the run cannot be repeated exactly.",
    ]


async def test_keys_are_removed_from_replies_and_messages(monkeypatch):
    monkeypatch.setenv("MY_GATE", "open-sesame")
    async with (
        OpenAIServer(
            key="open-sesame",
            answer=lambda messages, n, seed: ["the key is open-sesame"] * n,
            faults=fault_sequence(None, "unauthorized"),
        ) as server,
        opened(remote([server], api_key_env="MY_GATE")) as endpoint,
    ):
        reply = await attempt(endpoint, question())
        with pytest.raises(Fault) as failed:
            await attempt(endpoint, question())
    assert reply.choices[0].text == f"the key is {BLOT}"
    assert "open-sesame" not in str(failed.value) + reply.body
    assert server.requests[0].authorization == "Bearer open-sesame"


@pytest.mark.parametrize(
    "text",
    ["Bearer abcd.efgh", "api_key=12345678", "Incorrect API key provided: abc*****xyz", "sk-proj-12345678"],
)
def test_redaction_removes_keys(text):
    assert BLOT in redact(text)
    assert redact(f"see http://user:pass@host/v1 {text}").startswith(f"see http{'://'}{BLOT}@host/v1 ")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "3"}, 3.0),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({}, None),
    ],
)
def test_retry_after_in_all_spellings(headers, seconds):
    assert parse_retry_after(headers) == seconds


async def test_checks_before_a_run(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("HOSTED_VLLM_API_BASE", raising=False)
    with pytest.raises(PrerequisiteError, match="set OPENAI_API_KEY in the environment"):
        await remote([], "gpt-4-turbo").open()
    with pytest.raises(PrerequisiteError, match="needs the address of its server: --base-url"):
        await remote([], "hosted_vllm/m").open()
    with pytest.raises(PrerequisiteError, match="Spell it as gpt-4-turbo"):
        await remote([], "nobody-knows-this").open()
    with pytest.raises(PrerequisiteError, match=r"cannot be used \(connection"):
        await remote(["http://127.0.0.1:9/v1"]).open()
    async with OpenAIServer(key="right") as server:
        with pytest.raises(PrerequisiteError, match=r"cannot be used \(authentication: Incorrect API key"):
            await remote([server]).open()
    async with OpenAIServer(models=["other"]) as server:
        with pytest.raises(PrerequisiteError, match=r"serve the model 'test-model'. It serves: other"):
            async with opened(remote([server])):
                pass
    about: dict[str, Any] = {"version": "0.11", "max_model_len": 4096}
    async with OpenAIServer(**about) as server, opened(remote([server])) as opened_endpoint:
        serving = opened_endpoint.serving
    assert serving == {"engine": "vllm"} | about | serving


@pytest.mark.parametrize(
    ("model", "fields", "words"),
    [
        ("gpt-4-turbo", {"sampling": {"top_k": 20}}, r"openai does not accept top_k \(20\). Set it to 0"),
        ("gpt-4-turbo", {"sampling": {"min_p": 0.1}}, r"openai does not accept min_p \(0.1\). Set it to 0.0"),
        ("anthropic/claude-3-5-sonnet-20240620", {"prompt": "2 + 2 ="}, "supports chat prompts only"),
        ("gpt-4-turbo", {"extra": {"chat_template_kwargs": {}}}, "does not accept chat_template_kwargs"),
    ],
)
def test_parts_that_a_provider_would_drop_are_refused(model, fields, words):
    endpoint = remote([], model)
    endpoint.check(question())
    with pytest.raises(PrerequisiteError, match=words):
        endpoint.check(question(**fields))


def test_a_setting_that_only_some_providers_take_is_sent_to_those():
    endpoint, asked = remote([], "fireworks_ai/llama-v3p1-8b-instruct"), question(sampling={"top_k": 20})
    endpoint.check(asked)
    assert json.loads(endpoint.batch_body(asked))["top_k"] == 20


def test_a_neutral_setting_that_the_model_does_not_take_is_not_sent():
    asked = question(sampling={"temperature": 1.0, "top_p": 1.0})
    body = json.loads(remote([], "gpt-5").batch_body(asked))
    assert (body["temperature"], "top_p" in body) == (1.0, False)
    assert json.loads(remote([], "gpt-4-turbo").batch_body(asked))["top_p"] == 1.0
