"""Several servers of a model, how many requests each bears, and what a request costs."""

import asyncio
import logging
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from asking import answer, attempt, opened, question, remote
from openai_faults import Fault as ServerFault
from openai_faults import always
from openai_server import OpenAIServer
from pictures import picture

from service.asks import servers as module
from service.asks.money import Price, find_price, max_image_tokens, worst_pico
from service.asks.remote import RemoteEndpoint
from service.asks.request import RATE_LIMITED, TIME_OUT, UNKNOWN_MODEL, Fault, Message
from service.errors import BudgetError, PrerequisiteError
from service.questions.images import read_image


@pytest.fixture(autouse=True)
def short_rests(monkeypatch):
    monkeypatch.setattr(module, "REST_S", 0.2)


@asynccontextmanager
async def served(servers: Sequence[OpenAIServer], **settings: Any) -> AsyncIterator[RemoteEndpoint]:
    async with AsyncExitStack() as stack:
        for server in servers:
            await stack.enter_async_context(server)
        yield await stack.enter_async_context(opened(remote(servers, **settings)))


async def ask_many(endpoint: RemoteEndpoint, count: int, tries: int = 6) -> None:
    await asyncio.gather(*(answer(endpoint, question(number), tries=tries) for number in range(count)))


def paid_once(*servers: OpenAIServer) -> bool:
    return {count for server in servers for count in server.paid.values()} == {1} and sum(
        len(server.paid) for server in servers
    ) == len(set().union(*(server.paid for server in servers)))


async def test_equal_servers_share_the_requests_and_a_slow_one_gets_fewer():
    slow, fast = OpenAIServer(latency_s=0.9), OpenAIServer(latency_s=0.09)
    async with served([slow, fast], max_concurrency=8) as endpoint:
        await ask_many(endpoint, 80)
    assert paid_once(slow, fast)
    assert fast.stats["requests"] > 2 * slow.stats["requests"] > 0

    equal = [OpenAIServer(latency_s=0.2) for _ in range(3)]
    async with served(equal) as endpoint:
        await ask_many(endpoint, 12)
    assert [server.max_in_flight for server in equal] == [4, 4, 4]


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["server_error", "cut_early", "no_model"])
async def test_a_server_that_fails_rests(fault, caplog):
    good, bad = OpenAIServer(latency_s=0.02), OpenAIServer(latency_s=0.02)
    bad.faults = lambda seen: ServerFault(fault) if seen.ordinal >= 20 else None
    async with served([good, bad], max_concurrency=4) as endpoint:
        await ask_many(endpoint, 160)
    assert paid_once(good, bad)
    # Three failures, what was in flight with them, and one request on trial after each rest.
    assert bad.met[fault] <= 3 + 4 + 10
    assert good.stats["requests"] == 160 - 20
    lines = [record.getMessage() for record in caplog.records if record.name == "tagrpo.servers"]
    assert len(lines) == 1
    assert lines[0].startswith(f"{bad.url} is paused and retried periodically; 1 of 2 servers answer. Error:")


async def test_a_dead_server_returns(caplog):
    caplog.set_level(logging.WARNING)
    good, dying = OpenAIServer(latency_s=0.05), OpenAIServer(latency_s=0.05)
    async with served([good, dying], max_concurrency=4) as endpoint:
        await ask_many(endpoint, 10)
        await dying.__aexit__()
        await ask_many(endpoint, 10)
        async with OpenAIServer(latency_s=0.05, port=dying.port) as again:
            await asyncio.sleep(0.5)
            await ask_many(endpoint, 20)
            assert again.stats["paid"] > 0
        assert "answers again" in caplog.text


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"root": "other/weights"}, "root other/weights instead of test-model"),
        ({"version": "0.12"}, "version 0.12 instead of 0.11"),
        ({"max_model_len": 512}, "max_model_len 512 instead of 4096"),
        ({"models": ["other"]}, "does not serve the model 'test-model'"),
    ],
)
async def test_servers_of_different_models_are_refused(other, words):
    same: dict[str, Any] = {"version": "0.11", "max_model_len": 4096}
    async with OpenAIServer(**same) as first, OpenAIServer(**same | other) as second:
        with pytest.raises(PrerequisiteError, match=words):
            await remote([first, second]).open()
        assert first.stats["requests"] + second.stats["requests"] == 0


async def test_servers_that_are_away_or_still_load_their_weights_are_called_so():
    with pytest.raises(PrerequisiteError, match=r"no server answers: .*:9/v1/models cannot be used"):
        await remote(["http://127.0.0.1:9/v1", "http://127.0.0.1:19/v1"]).open()

    class Loading(OpenAIServer):
        async def _models(self, request: web.Request) -> web.Response:
            return web.json_response({"error": {"message": "Loading model", "code": 503}}, status=503)

    async with Loading() as server:
        with pytest.raises(PrerequisiteError, match=r"models cannot be used \(server error: Loading model"):
            await remote([server]).open()


@pytest.mark.slow
async def test_an_overloaded_server_gets_what_it_bears():
    server = OpenAIServer(latency_s=0.02, capacity=4)
    async with served([server], max_concurrency=32) as endpoint:
        await ask_many(endpoint, 200, tries=50)
        limit = endpoint.servers[0].limit
    assert server.stats["paid"] == 200
    assert 2 <= limit <= 8


def test_refusals_halve_the_limit_unless_they_were_in_flight_at_the_last_decrease():
    server, time_out, refusal = module.Server(None, "here", 16), Fault(TIME_OUT, ""), Fault(RATE_LIMITED, "")
    limits = []
    for fault, began, now in (
        (time_out, 0.0, 1.0),
        (refusal, 0.5, 2.0),
        (refusal, 1.0, 4.0),
        (refusal, 3.0, 5.0),
    ):
        server.adapt(fault, began, now)
        limits.append(server.limit)
    assert limits == [16, 8, 8, 4]


OFFLINE = """
import socket, sys
import service.engines.opening
assert "litellm" not in sys.modules

def refuse(*arguments, **settings):
    raise AssertionError("something uses the network")

socket.socket.connect = refuse
socket.getaddrinfo = refuse
from service.asks.money import find_price
price = find_price("gpt-4-turbo")
assert "litellm" in sys.modules
print(price.prompt, price.completion)
"""


@pytest.mark.slow
def test_importing_loads_no_litellm_and_prices_need_no_network():
    done = subprocess.run([sys.executable, "-c", OFFLINE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["10.0", "30.0"]


def test_the_users_price_comes_before_litellms():
    assert find_price("openai/gpt-4-turbo", (1.0, 2.0)) == Price(1.0, 2.0)
    assert find_price("gpt-4-turbo") == Price(10.0, 30.0)
    assert find_price("hosted_vllm/m") is None
    assert find_price("hosted_vllm/m", (0.0, 0.0), required="price") == Price(0.0, 0.0)
    with pytest.raises(BudgetError, match=r"hosted_vllm/m.*solver\.price=\[10,30\]"):
        find_price("hosted_vllm/m", required="solver.price")


def test_the_worst_case_covers_prompt_images_and_all_responses():
    price = Price(1.0, 1.0)
    short = worst_pico(question(2), price)
    assert short == (len("What is 2 + 3?") + 16 + 64 + 50) * 10**6
    assert worst_pico(question(2, n=3), price) == short + 2 * 50 * 10**6
    assert worst_pico(question(2, prompt="é" * 10), price) == (20 + 16 + 64 + 50) * 10**6
    assert worst_pico(question(2), None) is None
    image = read_image(picture(size=(600, 500)))
    pictured = question(2, messages=(Message("user", "What is 2 + 3?", ("What is 2 + 3?", image)),))
    assert max_image_tokens(image) == 2_833 + 2 * 5_667
    assert worst_pico(pictured, price) == short + max_image_tokens(image) * 10**6


async def test_when_every_server_refuses_the_model_the_fault_is_fatal():
    servers = [OpenAIServer(faults=always("no_model")) for _ in range(2)]
    async with served(servers) as endpoint:
        kinds = []
        for _ in range(2):
            with pytest.raises(Fault) as failed:
                await attempt(endpoint, question())
            kinds.append(failed.value.kind)
    assert kinds == ["server error", UNKNOWN_MODEL]
