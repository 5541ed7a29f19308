"""Batch jobs against the test server: submitted once, resumed, collected at half price."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from openai_faults import for_text
from openai_server import OpenAIServer
from remote_clients import OPENAI, VLLM, Got, batch_client

from service.errors import BudgetError, InputError, PrerequisiteError
from service.models.remote import (
    BatchClient,
    BatchStatus,
    Budget,
    ChatRequest,
    ChatResponse,
    Endpoint,
    Failure,
    Message,
    PriceTable,
    RetryPolicy,
    batch,
)

REQUESTS = [
    ChatRequest(number, (Message("user", f"question {number}"),), n=2, max_tokens=20, seed=number)
    for number in range(6)
]
USED = (3 * 100e-6 + 8 * 200e-6) / 2


def with_client(
    server: OpenAIServer, work: Callable[[BatchClient], Awaitable[Any]], model: str = OPENAI, **settings: Any
) -> Any:
    async def main() -> Any:
        async with server, batch_client(server, model, **settings) as batches:
            return await work(batches)

    return asyncio.run(main())


async def whole(batches: BatchClient) -> tuple[BatchStatus, Got]:
    job = await batches.submit("t1", REQUESTS)
    status = await batches.wait(job.id, every_s=0.01)
    return status, {request.key: answer async for request, answer in batches.collect(status, REQUESTS)}


@pytest.mark.parametrize("model", [VLLM, OPENAI])
def test_a_job_from_submission_to_receipt(model: str) -> None:
    server = OpenAIServer(batch_polls=3)
    status, got = with_client(server, whole, model)
    assert (status.state, status.total, status.completed, status.failed) == ("done", 6, 6, 0)
    assert sorted(got) == [0, 1, 2, 3, 4, 5]
    for answer in got.values():
        assert isinstance(answer, ChatResponse)
        assert len(answer.choices) == 2
        assert answer.cost_usd == pytest.approx(USED)
        assert (answer.attempts, answer.model) == (1, "test-model")


@pytest.mark.parametrize("name", ["OPENAI_BASE_URL", "OPENAI_API_BASE"])
async def test_a_job_goes_where_the_environment_sends_single_requests(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with OpenAIServer() as server:
        monkeypatch.setenv(name, server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        async with BatchClient(Endpoint(OPENAI), retries=RetryPolicy(attempts=1)) as batches:
            job, created = await batches.submit("t1", REQUESTS), server.batches.created
    assert (job.total, created) == (6, 1)


async def test_a_request_is_as_large_as_its_line_in_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    line = batch._line

    def counted(key: str, body: dict[str, Any]) -> bytes:
        content = line(key, body)
        written.append(len(content))
        return content

    wide = [ChatRequest(n, (Message("user", "\u4e00" * n + "\\n"),), max_tokens=2) for n in range(3)]
    async with OpenAIServer() as server, batch_client(server) as batches:
        sizes = [batches.line_bytes(request) for request in wide]
        monkeypatch.setattr(batch, "_line", counted)
        await batches.submit("t", wide)
        sent = written
    assert sizes == sent
    assert sizes[2] - sizes[1] == 3


async def test_the_same_question_gets_the_same_answer_as_alone() -> None:
    from service.models.remote import RemoteClient

    server = OpenAIServer()
    async with server, batch_client(server) as batches:
        _, got = await whole(batches)
        async with RemoteClient(batches.endpoint) as remote:
            alone = await remote.complete(REQUESTS[3])
    together = got[3]
    assert isinstance(alone, ChatResponse)
    assert isinstance(together, ChatResponse)
    assert alone.choices == together.choices
    assert server.stats["paid_again"] == 1  # the very same request


async def test_a_killed_process_finds_its_job_again() -> None:
    server = OpenAIServer()
    async with server:
        async with batch_client(server) as killed:
            first = await killed.submit("t1", REQUESTS)
        async with batch_client(server) as later:
            again = await later.find("t1")
            status = await later.wait(first.id, every_s=0.01)
            got = {request.key: answer async for request, answer in later.collect(status, REQUESTS)}
    assert again is not None
    assert first.id == again.id
    assert server.stats["batches"] == 1
    assert len(got) == 6


def test_polling_outlives_an_outage_that_retries_do_not() -> None:
    server = OpenAIServer()
    server.batches.fail_look = [503] * 20  # three attempts are all that another request gets
    _, got = with_client(server, whole)
    assert len(got) == 6
    assert server.batches.fail_look == []


def test_an_outage_of_a_day_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "OUTAGE_S", 0.02)
    server = OpenAIServer()
    server.batches.fail_look = [503] * 1000
    with pytest.raises(PrerequisiteError, match="server error"):
        with_client(server, whole)


def test_a_wait_that_is_cancelled_as_an_answer_comes_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def cancelled(batches: BatchClient) -> bool:
        jobs = batches._openai.batches
        retrieve = jobs.retrieve

        async def answer_and_cancel(job_id: str) -> Any:
            job = await retrieve(job_id)
            waiting.cancel()
            return job

        monkeypatch.setattr(jobs, "retrieve", answer_and_cancel)
        submitted = await batches.submit("t1", REQUESTS)
        waiting = asyncio.create_task(batches.wait(submitted.id, every_s=600))
        await asyncio.wait({waiting}, timeout=10)
        return waiting.cancelled()

    assert with_client(OpenAIServer(batch_polls=3), cancelled)


def test_another_tag_is_another_job() -> None:
    async def work(batches: BatchClient) -> tuple[str, str, Any]:
        one = await batches.submit("t1", REQUESTS[:2])
        two = await batches.submit("t2", REQUESTS[2:])
        return one.id, two.id, await batches.find("t3")

    one, two, none = with_client(OpenAIServer(), work)
    assert one != two
    assert none is None


def test_a_job_behind_many_others_is_found() -> None:
    async def work(batches: BatchClient) -> str | None:
        for number in range(130):
            server.batches.jobs[f"other_{number}"] = {**template, "id": f"other_{number}", "metadata": None}
        found = await batches.find("t1")
        return found and found.id

    async def first(batches: BatchClient) -> str:
        job = await batches.submit("t1", REQUESTS)
        template.update(server.batches.jobs[job.id])
        assert await work(batches) == job.id
        return job.id

    template: dict[str, Any] = {}
    server = OpenAIServer()
    assert with_client(server, first) == "batch_0"


@pytest.mark.parametrize("statuses", [[0], [503], [503, 0], [429, 500]])
def test_a_submission_whose_answer_is_lost_is_not_sent_twice(statuses: list[int]) -> None:
    server = OpenAIServer()
    server.batches.fail_create = list(statuses)  # 0: the job is made, then the connection is cut
    _, got = with_client(server, whole)
    assert len(got) == 6
    assert server.stats["batches"] == 1
    assert server.stats["paid"] == 6


def test_a_refused_submission_says_why() -> None:
    server = OpenAIServer()
    server.batches.fail_create = [400]
    with pytest.raises(PrerequisiteError, match="bad request"):
        with_client(server, whole)


def test_an_unknown_price_under_a_cap_is_refused() -> None:
    with pytest.raises(BudgetError, match="--price"):
        with_client(OpenAIServer(), whole, prices=PriceTable(), budget=Budget(max_usd=1.0))


def test_failed_lines_are_failures_and_free() -> None:
    server = OpenAIServer(faults=for_text("question 2", "bad_request"))
    status, got = with_client(server, whole)
    assert (status.completed, status.failed) == (5, 1)
    failure = got[2]
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.cost_usd) == ("bad request", 0.0)
    assert sum(isinstance(answer, ChatResponse) for answer in got.values()) == 5


def test_empty_choices_in_a_job_were_paid_for() -> None:
    _, got = with_client(OpenAIServer(faults=for_text("question 2", "empty_choices")), whole)
    failure = got[2]
    assert isinstance(failure, Failure)
    assert failure.kind == "invalid answer"
    assert (failure.cost_usd, failure.doubtful_usd) == (pytest.approx(USED), 0.0)


def test_the_cost_of_an_answer_without_choices_or_usage_is_in_doubt() -> None:
    async def work(batches: BatchClient) -> Any:
        return batches._read(REQUESTS[0], {"response": {"status_code": 200, "body": {}}})

    failure = with_client(OpenAIServer(), work)
    assert failure.doubtful_usd == failure.cost_usd > 0


def test_an_expired_job_gives_what_it_has() -> None:
    status, got = with_client(OpenAIServer(batch_end="expired"), whole)
    assert status.state == "expired"
    answered = [key for key, answer in got.items() if isinstance(answer, ChatResponse)]
    assert sorted(answered) == [0, 1, 2]
    rest = [answer for answer in got.values() if isinstance(answer, Failure)]
    assert {(failure.kind, failure.cost_usd) for failure in rest} == {("server error", 0.0)}


def test_a_failed_job_says_why_for_every_request() -> None:
    status, got = with_client(OpenAIServer(batch_end="failed"), whole)
    assert (status.state, status.message) == ("failed", "line 1 is bad")
    assert [answer.message for answer in got.values() if isinstance(answer, Failure)] == ["line 1 is bad"] * 6


def test_refused_structured_output_is_left_out_of_the_next_job() -> None:
    schema = {"type": "object", "properties": {}}
    requests = [ChatRequest(1, (Message("user", "question"),), response_schema=schema)]

    async def work(batches: BatchClient) -> list[ChatResponse | Failure]:
        answers = []
        for tag in ("t1", "t2"):
            status = await batches.wait((await batches.submit(tag, requests)).id, every_s=0.01)
            answers += [answer async for _, answer in batches.collect(status, requests)]
        return answers

    server = OpenAIServer(structured=False)
    first, second = with_client(server, work)
    assert isinstance(first, Failure)
    assert isinstance(second, ChatResponse)


def test_keys_must_differ() -> None:
    async def work(batches: BatchClient) -> None:
        await batches.submit("t1", [REQUESTS[0], REQUESTS[0]])

    with pytest.raises(InputError, match="keys that differ"):
        with_client(OpenAIServer(), work)


def test_the_results_are_downloaded_once() -> None:
    server = OpenAIServer()
    with_client(server, whole)
    assert server.batches.downloads == 1


def test_a_provider_without_such_jobs_is_refused() -> None:
    async def main() -> None:
        async with BatchClient(Endpoint("anthropic/claude-3-haiku-20240307")):
            pass

    with pytest.raises(PrerequisiteError, match="--batch out"):
        asyncio.run(main())
