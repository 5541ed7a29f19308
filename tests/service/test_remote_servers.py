"""Several servers of a model: which is asked, which is left alone, and that nothing is lost or paid twice."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest
from openai_faults import Fault, FaultPlan, Seen, always, for_text
from openai_server import OpenAIServer
from remote_clients import PRICED, QUICK, VLLM, failed

from service.errors import InputError, PrerequisiteError
from service.models.remote import (
    Budget,
    ChatRequest,
    ChatResponse,
    Endpoint,
    Failure,
    Message,
    RemoteClient,
    RetryPolicy,
    RunOutcome,
)
from service.models.remote.servers import pool

Results = list[tuple[int | str, ChatResponse | Failure]]


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "FIRST_S", 0.1)
    monkeypatch.setattr(pool, "LONGEST_S", 0.4)


def question(key: int, **settings: Any) -> ChatRequest:
    return ChatRequest(key, (Message("user", f"What is {key} + 3?"),), max_tokens=50, seed=key, **settings)


def endpoint(servers: Sequence[OpenAIServer | str], **settings: Any) -> Endpoint:
    bases = [server if isinstance(server, str) else server.url for server in servers]
    return Endpoint.at(VLLM, bases, **{"timeout_s": 20.0, **settings})


def remote(servers: Sequence[OpenAIServer | str], timeout_s: float = 20.0, **settings: Any) -> RemoteClient:
    settings = {"retries": QUICK, "prices": PRICED, "seed": 1, **settings}
    return RemoteClient(endpoint(servers, timeout_s=timeout_s), **settings)


def drive(
    servers: Sequence[OpenAIServer],
    count: int,
    on_answer: Callable[[int], object] = lambda _: None,
    **settings: Any,
) -> tuple[RunOutcome, Results]:
    """Ask all of them `count` questions; `on_answer` is told how many came."""
    results: Results = []

    async def main() -> RunOutcome:
        async with AsyncExitStack() as stack:
            for server in servers:
                await stack.enter_async_context(server)
            client = await stack.enter_async_context(remote(servers, **settings))

            async def keep(request: ChatRequest, answer: ChatResponse | Failure) -> None:
                results.append((request.key, answer))
                made = on_answer(len(results))
                if asyncio.iscoroutine(made):
                    await made

            return await asyncio.wait_for(client.run([question(key) for key in range(count)], keep), 60)

    return asyncio.run(main()), results


def check_complete(results: Results, count: int) -> None:
    """Every question has one answer, and was reported once."""
    assert Counter(key for key, _ in results) == Counter(range(count))
    assert all(isinstance(answer, ChatResponse) for _, answer in results)


def paid_once(*servers: OpenAIServer) -> bool:
    return set((sum((server.paid for server in servers), Counter())).values()) == {1}


def from_request(number: int, fault: str) -> FaultPlan:
    """Plan: all goes well up to a request; from then on each meets the fault."""

    def plan(seen: Seen) -> Fault | None:
        return Fault(fault) if seen.ordinal >= number else None

    return plan


@pytest.mark.slow
def test_equal_servers_share_the_requests_and_a_slow_one_gets_fewer() -> None:
    equal = [OpenAIServer(latency_s=0.05), OpenAIServer(latency_s=0.05)]
    outcome, results = drive(equal, 120, max_concurrency=8)
    assert (outcome.answered, outcome.stopped) == (120, None)
    check_complete(results, 120)
    assert paid_once(*equal)
    assert all(40 <= server.stats["requests"] <= 80 for server in equal)
    assert all(server.max_in_flight <= 8 for server in equal)

    slow, fast = OpenAIServer(latency_s=0.5), OpenAIServer(latency_s=0.05)
    _, results = drive([slow, fast], 120, max_concurrency=8)
    check_complete(results, 120)
    assert paid_once(slow, fast)
    assert fast.stats["requests"] > 2 * slow.stats["requests"] > 0


async def test_requests_go_where_the_fewest_are_in_flight() -> None:
    servers = [OpenAIServer(latency_s=0.3) for _ in range(3)]

    async with AsyncExitStack() as stack:
        for server in servers:
            await stack.enter_async_context(server)
        client = await stack.enter_async_context(remote(servers))
        await asyncio.gather(*(client.complete(question(key)) for key in range(12)))
    assert [server.max_in_flight for server in servers] == [4, 4, 4]


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["server_error", "unavailable", "cut_early", "no_model"])
def test_a_server_that_fails_half_way_is_left_alone(fault: str, caplog: pytest.LogCaptureFixture) -> None:
    good, bad = OpenAIServer(latency_s=0.02), OpenAIServer(latency_s=0.02, faults=from_request(20, fault))
    outcome, results = drive([good, bad], 200, max_concurrency=4, halt_after=1)
    assert outcome.stopped is None
    check_complete(results, 200)
    assert paid_once(good, bad)
    # three failures, what was in flight beside them, and one request on trial after each wait
    assert bad.met[fault] <= 3 + 4 + 5 * 4
    assert good.stats["requests"] == 200 - 20
    lines = [record.getMessage() for record in caplog.records if record.name == "tagrpo.servers"]
    assert len(lines) == 1
    assert lines[0].startswith(f"{bad.url} is left alone and tried again from time to time, 1 of 2 servers")


@pytest.mark.slow
def test_a_dead_server_is_asked_again_once_it_is_back(caplog: pytest.LogCaptureFixture) -> None:
    good, dying = OpenAIServer(latency_s=0.05), OpenAIServer(latency_s=0.05)
    again: list[OpenAIServer] = []

    async def fate(count: int) -> None:
        if count == 30:
            await dying.__aexit__()
        elif count == 60:
            again.append(await OpenAIServer(latency_s=0.05, port=dying.port).__aenter__())

    outcome, results = drive([good, dying], 200, fate, max_concurrency=4, halt_after=1)
    assert outcome.stopped is None
    check_complete(results, 200)
    assert again[0].stats["requests"] >= 20
    lines = [record.getMessage() for record in caplog.records if record.name == "tagrpo.servers"]
    assert [line.split(" ")[1] for line in lines] == ["is", "answers"]
    # Answered, but the answer was cut with its server: asked elsewhere, and only those are paid again.
    paid = sum((server.paid for server in (good, dying, again[0])), Counter())
    assert sum(paid.values()) <= 200 + dying.max_in_flight


async def test_with_all_servers_down_the_run_ends_as_with_one() -> None:
    servers = [OpenAIServer(), OpenAIServer()]

    results: Results = []
    async with servers[0], servers[1], remote(servers, halt_after=5) as client:
        for server in servers:
            await server.__aexit__()
        began = time.monotonic()
        outcome = await client.run(
            (question(key) for key in range(1000)),
            lambda request, got: results.append((request.key, got)),
        )
        took_s = time.monotonic() - began
    assert outcome.stopped == "failing"
    assert "5 requests in a row failed" in (outcome.message or "")
    assert any(server.url in (outcome.message or "") for server in servers)
    assert {failed(answer).kind for _, answer in results} == {"connection"}
    assert all(not failed(answer).final for _, answer in results)
    assert took_s < 20


async def test_a_run_goes_on_when_one_of_all_comes_back_in_time() -> None:
    first, second = OpenAIServer(), OpenAIServer()
    patient = RetryPolicy(attempts=10, base_s=0.1)
    async with first, second, remote([first, second], retries=patient) as client:
        await first.__aexit__()
        await second.__aexit__()
        running = asyncio.create_task(client.run([question(key) for key in range(20)], lambda *_: None))
        await asyncio.sleep(0.5)
        assert not running.done()
        async with OpenAIServer(port=second.port) as back:
            outcome = await asyncio.wait_for(running, 30)
            assert back.stats["paid"] == 20
    assert outcome.answered == 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"max_model_len": 4096}, "serves max_model_len 4096 and not 8192 as the other servers do"),
        ({"version": "0.9.2"}, "serves version 0.9.2 and not 0.11.0"),
        ({"root": "some/other"}, "serves root some/other and not test-model"),
        ({"models": ["another"]}, "does not list the model 'test-model', only: another"),
        ({"key": "a key"}, "refuses the key"),
    ],
)
def test_servers_that_differ_are_refused_before_anything_is_asked(other: dict[str, Any], words: str) -> None:
    usual = {"version": "0.11.0", "max_model_len": 8192}
    first, second = OpenAIServer(**usual), OpenAIServer(**{**usual, **other})

    async def main() -> None:
        async with first, second, remote([first, second]):
            pass

    with pytest.raises(PrerequisiteError, match=words) as caught:
        asyncio.run(main())
    assert second.url in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_a_server_does_not_tell_differs_from_nothing() -> None:
    tells, silent = OpenAIServer(version="0.11.0", max_model_len=8192), OpenAIServer(models=None)
    outcome, results = drive([silent, tells], 20)
    check_complete(results, 20)
    assert outcome.stopped is None


@pytest.mark.slow
def test_a_server_that_is_not_up_yet_joins_later_if_it_serves_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(version: str) -> int:
        up, late = OpenAIServer(version="0.11.0", latency_s=0.05), OpenAIServer(version=version)
        async with late:
            pass
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(up)
            client = await stack.enter_async_context(remote([late, up], max_concurrency=2))
            assert (await client.check()).problem is None
            assert (await client.serving()).version == "0.11.0"

            async def join(request: ChatRequest, _: object) -> None:
                if request.key == 5:
                    await stack.enter_async_context(late)

            outcome = await client.run([question(key) for key in range(60)], join)
            assert outcome.answered == 60
            return int(late.stats["requests"])

    assert asyncio.run(main("0.11.0")) > 0
    assert "is left alone" in caplog.text
    assert "answers again" in caplog.text
    assert asyncio.run(main("0.12.0")) == 0


async def test_none_reachable_at_the_start_is_one_problem() -> None:
    first, second = OpenAIServer(), OpenAIServer()
    async with first, second:
        pass
    async with remote([first, second]) as client:
        problem = (await client.check()).problem
    assert (problem or "").startswith("none of 2 servers answers: ")


@pytest.mark.slow
def test_a_busy_server_is_no_dead_one() -> None:
    small, large = OpenAIServer(latency_s=0.03, capacity=2), OpenAIServer(latency_s=0.03, capacity=8)
    outcome, results = drive([small, large], 300, max_concurrency=16, retries=RetryPolicy(base_s=0.02))
    assert outcome.failed == 0
    check_complete(results, 300)
    assert paid_once(small, large)
    assert small.stats["paid"] >= 20
    assert large.stats["paid"] > small.stats["paid"]


def test_others_are_asked_while_a_server_wants_a_pause() -> None:
    resting = OpenAIServer(faults=always(Fault("rate_limit", "30")))
    outcome, results = drive([resting, OpenAIServer()], 40, max_concurrency=4)
    assert outcome.failed == 0
    check_complete(results, 40)
    assert resting.stats["requests"] <= 4


def test_a_request_that_is_too_long_is_not_taken_elsewhere_and_blames_nobody() -> None:
    faults = for_text("What is 7 + 3?", "context_length", "context_length")
    servers = [OpenAIServer(faults=faults), OpenAIServer(faults=faults)]
    outcome, results = drive(servers, 30)
    assert (outcome.answered, outcome.failed) == (29, 1)
    failure = failed(dict(results)[7])
    assert (failure.kind, failure.attempts, failure.final) == ("context length", 1, True)
    assert failure.message.startswith("http://127.0.0.1:")


def test_a_run_ends_at_once_where_every_server_refuses_the_model() -> None:
    servers = [OpenAIServer(models=None, faults=always("no_model")) for _ in range(2)]
    outcome, _ = drive(servers, 50, max_concurrency=2)
    assert outcome.stopped == "unknown model"
    assert sum(server.stats["requests"] for server in servers) <= 10


@pytest.mark.slow
def test_a_server_that_hangs_holds_up_few_requests() -> None:
    hanging, good = OpenAIServer(faults=always("hang")), OpenAIServer(latency_s=0.02)
    outcome, results = drive([hanging, good], 150, max_concurrency=4, timeout_s=0.5)
    assert outcome.stopped is None
    check_complete(results, 150)
    assert hanging.stats["requests"] <= 4 + 4  # what was in flight, and one on trial at a time


def test_a_cap_counts_the_attempts_at_all_servers() -> None:
    servers = [OpenAIServer(faults=always("cut")), OpenAIServer(faults=always("cut"))]
    budget = Budget(max_usd=0.05)
    outcome, results = drive(servers, 50, budget=budget, max_concurrency=2)
    assert outcome.stopped == "budget"
    assert budget.spent_usd <= 0.05
    most = 2 * QUICK.attempts
    assert all(failed(answer).attempts <= most for _, answer in results)
    assert budget.requests == sum(server.stats["requests"] for server in servers)


def test_what_one_server_does_not_take_is_sent_to_none() -> None:
    strict, lax = OpenAIServer(refuse_fields=["seed"], latency_s=0.02), OpenAIServer(latency_s=0.02)
    _, results = drive([strict, lax], 60, max_concurrency=2)
    check_complete(results, 60)
    assert all("seed" not in seen.body for seen in lax.requests[10:])


async def test_interrupting_ends_the_wait_for_servers_that_are_down() -> None:
    first, second = OpenAIServer(), OpenAIServer()
    slow = RetryPolicy(attempts=6, base_s=30.0)
    async with first, second, remote([first, second], retries=slow) as client:
        await first.__aexit__()
        await second.__aexit__()
        running = asyncio.create_task(client.run([question(key) for key in range(4)], lambda *_: None))
        await asyncio.sleep(0.3)
        client.interrupt()
        outcome = await asyncio.wait_for(running, 5)
    assert outcome.stopped == "interrupted"


async def test_a_silent_server_is_named_while_others_answer() -> None:
    hanging, good = OpenAIServer(faults=always("hang")), OpenAIServer(latency_s=0.01)
    async with hanging, good, remote([hanging, good], max_concurrency=2, stall_s=0.2) as client:
        running = asyncio.create_task(client.run([question(key) for key in range(2000)], lambda *_: None))
        complaints: list[str] = []
        while not complaints:
            await asyncio.sleep(0.02)
            complaints = client.complaints()
        client.interrupt()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert hanging.url in complaints[0]
    assert len(complaints) == 1
    assert "wait" in complaints[0]


def test_addresses_are_told_apart() -> None:
    both = Endpoint.at(VLLM, ["http://a:1/v1, http://b:1/v1"])
    assert both.bases == ("http://a:1/v1", "http://b:1/v1")
    assert [alone.bases for alone in both.alone()] == [("http://a:1/v1",), ("http://b:1/v1",)]
    assert Endpoint.at(VLLM, []).bases == ()
    with pytest.raises(InputError, match="http://a:1/v1 is given twice"):
        Endpoint.at(VLLM, ["http://a:1/v1", "http://a:1/v1/"])
    with pytest.raises(InputError, match="address of b holds a name or password"):
        Endpoint.at(VLLM, ["http://a:1/v1", "http://me:secret@b:1/v1"])


def test_the_log_names_the_server_of_each_attempt(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tagrpo.requests")
    good, bad = OpenAIServer(), OpenAIServer(faults=always("server_error"))
    drive([bad, good], 10, max_concurrency=1)
    assert f"{VLLM} at {bad.url}: cell" in caplog.text
    assert "500 server error, " in caplog.text
    assert "again at another server" in caplog.text
