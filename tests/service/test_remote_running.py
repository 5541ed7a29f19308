"""Many requests at once: lazily taken, capped, stopped for good reasons, nothing lost."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from openai_faults import Fault, Seen, always, fault_sequence, first_of, for_text, random_faults
from openai_server import OpenAIServer
from remote_clients import Got, client

from service.models.remote import (
    Budget,
    ChatRequest,
    ChatResponse,
    Failure,
    Message,
    RetryPolicy,
    RunOutcome,
)

PATIENT = RetryPolicy(attempts=6, time_outs=6, base_s=0.01, longest_s=0.1)


def questions(count: int, **settings: Any) -> Iterator[ChatRequest]:
    for number in range(count):
        yield ChatRequest(
            number, (Message("user", f"question {number:05d}"),), seed=number, max_tokens=20, **settings
        )


def worst_usd() -> float:
    return (14 + 16 + 64) * 100e-6 + 20 * 200e-6


def used_usd() -> float:
    return 4 * 100e-6 + 4 * 200e-6


def run(server: OpenAIServer, requests: Any, **settings: Any) -> tuple[RunOutcome, Got]:
    got: Got = {}

    async def main() -> RunOutcome:
        async with server, client(server, **{"retries": PATIENT, **settings}) as remote:
            return await remote.run(requests, lambda request, answer: got.update({request.key: answer}))

    return asyncio.run(main()), got


@pytest.mark.slow
def test_all_are_answered_once_and_in_any_order() -> None:
    server = OpenAIServer(latency_s=0.01)
    outcome, got = run(server, questions(300), max_concurrency=32)
    assert outcome == RunOutcome(answered=300, failed=0, stopped=None, message=None)
    assert sorted(got) == list(range(300))
    assert server.stats["paid"] == 300
    assert server.stats["paid_again"] == 0
    assert 16 <= server.max_in_flight <= 32


def test_every_answer_belongs_to_its_request() -> None:
    server = OpenAIServer(answer=lambda messages, n, seed: [f"{messages[-1]['content']}/{seed}"] * n)
    _, got = run(server, questions(50, n=2))
    for number in range(50):
        answer = got[number]
        assert isinstance(answer, ChatResponse)
        assert [choice.text for choice in answer.choices] == [f"question {number:05d}/{number}"] * 2


@pytest.mark.slow
async def test_requests_are_taken_only_when_they_can_be_sent() -> None:
    taken = 0
    ahead: list[int] = []

    async def source() -> AsyncIterator[ChatRequest]:
        nonlocal taken
        for request in questions(200):
            taken += 1
            yield request

    server = OpenAIServer(latency_s=0.005)
    done = 0

    def count(_: ChatRequest, __: ChatResponse | Failure) -> None:
        nonlocal done
        done += 1
        ahead.append(taken - done)

    async with server, client(server, max_concurrency=8) as remote:
        await remote.run(source(), count)
    assert taken == 200
    assert max(ahead) <= 8


@pytest.mark.slow
def test_a_storm_of_faults_is_weathered() -> None:
    names = ["rate_limit", "server_error", "unavailable", "overloaded", "cut", "cut_early", "invalid_json"]
    names += ["wrong_type", "wrong_shape", "empty_choices", "hang", "drip"]
    shares = dict.fromkeys(names, 0.04)
    server = OpenAIServer(faults=random_faults(shares, seed=3, retry_after="0.02"))
    outcome, got = run(server, questions(150), max_concurrency=16, timeout_s=0.5)
    assert (outcome.answered, outcome.failed, outcome.stopped) == (150, 0, None)
    assert len(got) == 150
    assert set(server.met) == set(names)
    assert server.overlaps == 0  # no request is under way twice at the same time


@pytest.mark.slow
@pytest.mark.parametrize("cap", [0.05, 0.2])
def test_the_cap_holds_with_64_in_flight(cap: float) -> None:
    budget = Budget(max_usd=cap)
    most = 0.0

    def watch(_: Seen) -> None:
        nonlocal most
        most = max(most, budget.spent_usd + budget.reserved_usd)

    server = OpenAIServer(latency_s=0.02, faults=watch)
    outcome, got = run(server, questions(500), budget=budget, max_concurrency=64)
    assert outcome.stopped == "budget"
    assert outcome.message is not None
    assert "--max-usd" in outcome.message
    assert most <= cap + 1e-9
    assert budget.spent_usd == pytest.approx(server.stats["paid"] * used_usd())
    assert budget.spent_usd <= cap
    # It is used up: what is left could not have paid for the worst case of one more.
    assert cap - budget.spent_usd < worst_usd()
    assert len(got) == outcome.answered == server.stats["paid"]


async def test_two_clients_share_one_cap() -> None:
    budget = Budget(max_usd=0.1)

    server = OpenAIServer(latency_s=0.01)
    async with server, client(server, budget=budget) as one, client(server, budget=budget) as two:
        outcomes = await asyncio.gather(
            one.run(questions(200), lambda *_: None), two.run(questions(200), lambda *_: None)
        )
    assert [outcome.stopped for outcome in outcomes] == ["budget", "budget"]
    assert 0.1 - worst_usd() < budget.spent_usd <= 0.1


def test_max_requests_counts_retries() -> None:
    server = OpenAIServer(faults=fault_sequence(*["server_error"] * 5))
    outcome, got = run(server, questions(100), budget=Budget(max_requests=30), max_concurrency=4)
    assert outcome.stopped == "requests"
    assert server.stats["requests"] == 30
    assert outcome.answered == len(got) == 25


@pytest.mark.parametrize(
    ("fault", "stopped"),
    [
        ("unauthorized", "authentication"),
        ("no_model", "unknown model"),
        ("quota", "quota"),
        ("no_room", "settings"),
    ],
)
def test_when_every_request_would_fail_no_more_are_sent(fault: str, stopped: str) -> None:
    server = OpenAIServer(latency_s=0.01, faults=always(fault))
    outcome, got = run(server, questions(500), max_concurrency=8)
    assert outcome.stopped == stopped
    assert outcome.message
    assert server.stats["requests"] <= 16
    assert len(got) == outcome.failed


def test_too_many_failures_in_a_row_stop_the_run() -> None:
    server = OpenAIServer(faults=always("bad_request"))
    outcome, _ = run(server, questions(500), max_concurrency=4, halt_after=10)
    assert outcome.stopped == "failing"
    assert outcome.message is not None
    assert "Invalid value for 'temperature'" in outcome.message
    assert 10 <= outcome.failed <= 14


def test_filtered_questions_do_not_stop_the_run() -> None:
    server = OpenAIServer(faults=always("content_filter"))
    outcome, _ = run(server, questions(60), halt_after=10)
    assert (outcome.failed, outcome.stopped) == (60, None)


def test_a_run_whose_first_requests_are_all_too_long_stops_before_the_others() -> None:
    server = OpenAIServer(faults=always("context_length"))
    outcome, got = run(server, questions(200), max_concurrency=16, halt_after=10)
    assert outcome.stopped == "settings"
    assert "all refused as too long" in (outcome.message or "")
    assert len(got) == outcome.failed <= 10 + 16


@pytest.mark.parametrize("answered_before", [False, True])
async def test_long_questions_stop_no_run_whose_others_are_answered(answered_before: bool) -> None:
    def too_long(seen: Seen) -> Fault | None:
        number = int(str(seen.body["messages"][0]["content"]).split()[-1])
        return Fault("context_length") if answered_before or number < 12 else None

    server = OpenAIServer(faults=too_long)
    async with server, client(server, halt_after=10, retries=PATIENT) as remote:
        outcome = await remote.run(questions(40), lambda *_: None, answered_before=answered_before)
    assert (outcome.failed, outcome.stopped) == (40 if answered_before else 12, None)


def test_one_bad_question_fails_alone() -> None:
    server = OpenAIServer(faults=for_text("question 00007", *["server_error"] * 9))
    outcome, got = run(server, questions(20))
    assert (outcome.answered, outcome.failed, outcome.stopped) == (19, 1, None)
    failure = got[7]
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.attempts) == ("server error", 6)


@pytest.mark.slow
def test_a_crowded_server_is_met_with_fewer_requests() -> None:
    server = OpenAIServer(latency_s=0.02, capacity=6)
    outcome, _ = run(server, questions(250), max_concurrency=64, retries=RetryPolicy(20, 0.01, 0.05))
    assert (outcome.answered, outcome.failed) == (250, 0)
    late = server.requests[len(server.requests) // 2 :]
    refused_late = server.met["rate_limit"] / len(server.requests)
    assert late
    assert refused_late < 0.4  # 64 at once against a capacity of 6 would have refused nine in ten


@pytest.mark.slow
async def test_hard_problems_lower_no_limit() -> None:
    server = OpenAIServer()
    count = 300

    def harder(seen: Seen) -> None:
        server.latency_s = 0.04 + 0.86 * seen.ordinal / count  # a hundredth of 4 to 90 s

    server.faults = harder
    limits = []

    async with server, client(server, max_concurrency=32) as remote:
        await remote.run(questions(count), lambda *_: limits.append(remote._pool.room))
    assert limits == sorted(limits)
    assert (limits[-1], server.max_in_flight) == (32, 32)


async def test_interrupting_finishes_what_is_in_flight() -> None:
    got: Got = {}

    server = OpenAIServer(latency_s=0.01)
    async with server, client(server, max_concurrency=4) as remote:

        def note(request: ChatRequest, answer: ChatResponse | Failure) -> None:
            got[request.key] = answer
            if len(got) == 10:
                remote.interrupt()

        outcome = await remote.run(questions(100), note)
    assert outcome.stopped == "interrupted"
    assert outcome.answered == len(got) == server.stats["paid"]
    assert 10 <= len(got) <= 14


async def test_interrupting_ends_pauses_between_attempts() -> None:
    server = OpenAIServer(faults=always("server_error"))
    got: Got = {}
    async with server, client(server, retries=RetryPolicy(base_s=1000.0)) as remote:
        task = asyncio.create_task(remote.run(questions(3), lambda q, a: got.update({q.key: a})))
        while server.stats["requests"] < 3:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.05)
        remote.interrupt()
        outcome = await asyncio.wait_for(task, 5)
    assert outcome.failed == len(got) == 3


async def test_interrupting_ends_a_pause_that_the_server_asked_for() -> None:
    got: Got = {}

    server = OpenAIServer()
    async with server, client(server, max_concurrency=4) as remote:

        async def note(request: ChatRequest, answer: ChatResponse | Failure) -> None:
            got[request.key] = answer
            remote._pool.servers[0].limit.pause_until(time.monotonic() + 300.0)  # as of Retry-After
            asyncio.get_running_loop().call_later(0.05, remote.interrupt)

        outcome = await asyncio.wait_for(remote.run(questions(100), note), 5)
    assert outcome.stopped == "interrupted"
    assert outcome.answered == len(got) == server.stats["requests"] <= 4


async def test_cancelling_drops_requests_but_not_what_is_being_stored() -> None:
    stored: list[int | str] = []

    server = OpenAIServer(faults=first_of(for_text("question 00000", None), skip_first))
    storing = asyncio.Event()
    go_on = asyncio.Event()

    async def store(request: ChatRequest, _: ChatResponse | Failure) -> None:
        storing.set()
        await go_on.wait()
        stored.append(request.key)

    async with server, client(server, max_concurrency=4) as remote:
        task = asyncio.create_task(remote.run(questions(10), store))
        await storing.wait()
        while server.met["hang"] < 3:
            await asyncio.sleep(0.005)
        task.cancel()
        await asyncio.sleep(0.05)
        assert not task.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert remote.budget.in_flight == 0
    assert stored == [0]


def skip_first(seen: Seen) -> Any:
    return None if "question 00000" in seen.body["messages"][0]["content"] else always("hang")(seen)


def test_when_storing_fails_the_error_comes_out_and_the_rest_is_still_offered() -> None:
    offered: Counter[int | str] = Counter()

    async def main() -> None:
        def store(request: ChatRequest, _: ChatResponse | Failure) -> None:
            offered[request.key] += 1
            raise OSError("no space left on device")

        async with server, client(server, max_concurrency=8) as remote:
            await remote.run(questions(100), store)

    server = OpenAIServer(latency_s=0.02)
    with pytest.raises(OSError, match="no space left"):
        asyncio.run(main())
    assert 1 <= len(offered) <= 16
    assert sum(offered.values()) == server.stats["paid"]  # every answer that was paid for was offered


def test_an_error_of_the_source_comes_out_after_what_is_in_flight() -> None:
    async def source() -> AsyncIterator[ChatRequest]:
        for request in questions(5):
            yield request
        while server.in_flight < 5:
            await asyncio.sleep(0.005)
        raise ValueError("the database went away")

    server = OpenAIServer(latency_s=0.5)
    with pytest.raises(ValueError, match="went away"):
        run(server, source())
    assert server.stats["paid"] == 5


def test_the_source_is_closed_when_the_run_stops_early() -> None:
    closed: list[bool] = []

    async def source() -> AsyncIterator[ChatRequest]:
        try:
            for request in questions(100):
                yield request
        finally:
            closed.append(True)

    outcome, _ = run(OpenAIServer(), source(), budget=Budget(max_requests=3))
    assert outcome.stopped == "requests"
    assert closed == [True]


async def test_one_client_runs_several_times() -> None:
    server = OpenAIServer()
    async with server, client(server) as remote:
        answered = [(await remote.run(questions(20), lambda *_: None)).answered for _ in range(3)]
    assert answered == [20, 20, 20]
