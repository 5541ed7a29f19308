"""Batch jobs as a backend of ask: half the price, as large as the caps allow, and never paid twice."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import asking as support
import pytest
from asking import (
    OPENAI,
    VLLM,
    ScriptedEndpoint,
    committed,
    make_run,
    open_asker,
    opened,
    question,
    remote,
    states,
)
from openai_server import OpenAIServer
from sqlalchemy import select, update

from service.asks import batch
from service.asks.ask import Asker, Failed, Models, Stopped
from service.asks.batch import BatchJobs, check_batch
from service.asks.money import Price, cost_pico, worst_pico
from service.asks.request import Answer, Request
from service.asks.tables import AskRow, JobRow, WorkerRow
from service.database import Database
from service.errors import InputError, PrerequisiteError
from service.models.access import Budget
from service.process import this_process
from service.runs.progress import read_ledger
from service.runs.store import Run

HALF = Price(50.0, 100.0)
REQUESTS = [question(number, OPENAI) for number in range(10, 16)]
USED = cost_pico(HALF, 4, 4) or 0
WORST = worst_pico(REQUESTS[0], HALF) or 0
Outcome = Answer | BaseException


@asynccontextmanager
async def asking(db: Database, server: OpenAIServer, run: Run, **settings: Any) -> AsyncIterator[Asker]:
    """Give an asker whose model answers by batch jobs, as a process of its own has it."""
    endpoint = remote([server], OPENAI)
    jobs = partial(BatchJobs, endpoint, poll_s=0.02, quiet_s=0.02)
    models = Models({}, {OPENAI: jobs}, Budget(**settings), retry_s=0.0005)
    try:
        async with open_asker(db, run, models) as asker:
            yield asker
    finally:
        await endpoint.close()


async def ask_all(asker: Asker, requests: Sequence[Request] = REQUESTS) -> list[Outcome]:
    asks = asyncio.gather(*(asker.ask(request) for request in requests), return_exceptions=True)
    return list(await asyncio.wait_for(asks, 20))


def run_batch(
    db: Database,
    server: OpenAIServer,
    cap: int | None = None,
    requests: Sequence[Request] = REQUESTS,
    **settings: Any,
) -> list[Outcome]:
    async def main() -> list[Outcome]:
        run = make_run(db, cap_pico=cap)
        async with server, asking(db, server, run, **settings) as asker:
            return await ask_all(asker, requests)

    return asyncio.run(main())


def all_answered(outcomes: Sequence[Outcome]) -> bool:
    return all(isinstance(each, Answer) for each in outcomes)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)


ROOMS = [({"room": room}, None) for room in (1, 2, 4)]  # lines that the provider's queue takes
OUTAGES = [({"fail_look": [503] * 12, "polls": 2}, 1)]
LOST_REPLIES = [({"fail_create": statuses}, 1) for statuses in ([0], [503, 0], [0, 503])]


@pytest.mark.parametrize(("provider", "jobs"), [({"polls": 3}, 1), *ROOMS, *OUTAGES, *LOST_REPLIES])
def test_every_request_is_sent_in_one_job_at_half_the_price(db, provider, jobs):
    server = OpenAIServer()
    vars(server.batches).update(provider)
    assert all_answered(run_batch(db, server, cap=6 * WORST))
    assert server.batches.created == (jobs or server.batches.created)
    assert (server.batches.lines, server.stats["paid_again"]) == (6, 0)
    assert server.batches.downloads >= 1
    assert committed(db) == 6 * USED


BROKEN = PrerequisiteError, "batch jobs at http"


@pytest.mark.parametrize(
    ("provider", "settings", "jobs", "answers", "kind", "words"),
    [
        ({}, {"cap": WORST - 1}, 0, 0, Stopped, "of --max-usd .* is spent, and the next request"),
        ({}, {"max_requests": 4}, 1, 4, Stopped, "the limit max_requests=4 is reached"),
        ({"room": 0}, {"cap": 6 * WORST}, None, 0, Stopped, "All answers are kept. Resume when other batch"),
        ({"fail_look": [503] * 1000}, {}, 1, 0, PrerequisiteError, "batch jobs at http.*error: not now"),
        ({"fail_create": [400]}, {"cap": 6 * WORST}, 0, 0, PrerequisiteError, "batch jobs at .*: not now"),
        ({"fail_upload": [501] * 99, "fail_list": [501] * 99}, {"cap": 6 * WORST}, 0, 0, *BROKEN),
        ({"fail_upload": [200] * 99}, {"cap": 6 * WORST}, 0, 0, *BROKEN),
        ({"end": "failed"}, {}, 3, 0, Failed, "^line 1 is bad$"),
        # Each job answers half of its lines: 3 of 6, 1 of 3, 1 of 2.
        ({"end": "expired"}, {}, 3, 5, Failed, "^not done in time$"),
    ],
)
def test_unanswered_requests_say_why(db, provider, settings, jobs, answers, kind, words, monkeypatch):
    monkeypatch.setattr(batch, "OUTAGE_S", 0.1)
    server = OpenAIServer()
    vars(server.batches).update(provider)
    outcomes = run_batch(db, server, **settings)
    errors = [each for each in outcomes if not isinstance(each, Answer)]
    assert len(errors) == 6 - answers
    assert jobs in (None, server.batches.created)
    assert all(type(error) is kind and re.search(words, str(error)) for error in errors)
    if "fail_look" in provider:  # the next process asks for the job
        assert states(db) == ["sent"] * 6
    else:
        assert (committed(db), server.stats["paid_again"]) == (answers * USED * ("cap" in settings), 0)


MOMENTS = ["before a job is made", "before it is sent", "before its id is stored", "while it runs"]


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_killed_process_pays_nothing_twice(db, moment, monkeypatch):
    run = make_run(db, cap_pico=6 * WORST)

    async def die(*_: Any) -> Any:
        await asyncio.Event().wait()

    async with OpenAIServer(batch_polls=10**6) as server:
        with monkeypatch.context() as patch:
            patch.setattr(support, "leave", lambda session, worker: None)
            if moment == "before a job is made":
                patch.setattr(BatchJobs, "_make_job", die)
            elif moment == "before it is sent":
                patch.setattr(BatchJobs, "_submit", die)
            elif moment == "before its id is stored":
                submit = BatchJobs._submit

                async def submit_and_die(*arguments: Any) -> Any:
                    await submit(*arguments)
                    await die()

                patch.setattr(BatchJobs, "_submit", submit_and_die)
            async with asking(db, server, run) as asker:
                asks = [asyncio.create_task(asker.ask(request)) for request in REQUESTS]
                sent = int(moment in MOMENTS[2:])
                await until(lambda: states(db) == ["sent"] * 6 and server.batches.created == sent)
                if moment == "while it runs":
                    await until(lambda: any(server.batches.asked.values()))
                asker.cancel()
                jobs: Any = asker._backends[OPENAI]
                for task in (tasks := [*asks, *jobs._tasks, jobs._maker]):
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        with db.write() as session:  # of a machine that was lost
            session.execute(update(WorkerRow).values(seen_at=0.0, process="lost|1|machine|1|1.00"))
        server.batches.polls = 1
        async with asking(db, server, run) as again:
            assert all_answered(await ask_all(again))
        assert server.batches.created == 1
        assert server.batches.lines == 6
        assert server.stats["paid_again"] == 0
    assert committed(db) == 6 * USED
    with db.read() as session:
        assert set(session.scalars(select(JobRow.collected))) == {True}
        lost = ["lost"] * 6 * (moment in MOMENTS[:2])  # at no cost
        assert sum(line.requests for line in read_ledger(session, run.id)) == 6
    assert states(db) == lost + ["answered"] * 6


async def test_a_job_that_may_have_arrived_is_not_sent_again_after_a_refusal(db):
    run = make_run(db, cap_pico=6 * WORST)
    async with OpenAIServer() as server:
        server.batches.fail_create, server.batches.fail_list = [0, 400], [200] * batch.LOOKS
        async with asking(db, server, run) as asker:
            assert {type(each) for each in await ask_all(asker)} == {PrerequisiteError}
        async with asking(db, server, run) as again:
            assert all_answered(await ask_all(again))
        assert (server.batches.created, server.stats["paid_again"], committed(db)) == (1, 0, 6 * USED)


async def test_a_stop_before_a_job_is_sent_frees_its_requests(db, monkeypatch):
    monkeypatch.setattr(batch, "pause_s", lambda *_: 60.0)
    run = make_run(db, cap_pico=6 * WORST)
    async with OpenAIServer() as server:
        server.batches.fail_upload = [501]
        async with asking(db, server, run) as asker:
            asks = asyncio.create_task(ask_all(asker))
            await until(lambda: not server.batches.fail_upload)
            asker.stop("interrupted", "interrupted")
            await asks
    assert (states(db), committed(db)) == ([], 0)


async def test_a_host_that_was_silent_leaves_its_requests_to_another(db, monkeypatch):
    run, make = make_run(db, cap_pico=12 * WORST), BatchJobs._make_job
    held, waits = asyncio.Event(), asyncio.Event()
    worker = update(WorkerRow).where(WorkerRow.process.startswith("lost"))

    async def make_later(jobs: BatchJobs) -> None:
        waits.set()
        await held.wait()
        await make(jobs)

    async with OpenAIServer(batch_polls=2) as server, asking(db, server, run) as near:
        with monkeypatch.context() as patch:
            patch.setattr(BatchJobs, "_make_job", make_later)
            first = asyncio.create_task(ask_all(near))
            await until(lambda: states(db) == ["sent"] * 6)
            await waits.wait()
        with db.write() as session:
            session.execute(update(WorkerRow).values(seen_at=0.0, process="lost|1|machine|1|1.00"))
        async with asking(db, server, run) as far:
            assert all_answered(await ask_all(far))
        with db.write() as session:
            session.execute(worker.values(process=this_process(), seen_at=1e12))
        held.set()
        assert all_answered(await first)
        assert (server.batches.lines, server.stats["paid_again"]) == (6, 0)
    assert (states(db), committed(db)) == (["lost"] * 6 + ["answered"] * 6, 6 * USED)


async def test_an_error_of_a_job_that_was_taken_over_ends_the_run(db):
    run = make_run(db)
    async with OpenAIServer(batch_polls=10**6) as server:
        async with asking(db, server, run) as asker:
            asks = asyncio.create_task(ask_all(asker))
            await until(lambda: any(server.batches.asked.values()))
            asker.stop("interrupted", "interrupted")
            await asks
        server.batches.jobs.clear()
        async with asking(db, server, run) as later:
            errors = await ask_all(later)
    assert {type(error) for error in errors} == {PrerequisiteError}
    assert "no such batch" in str(errors[0])


def test_no_job_is_made_of_a_small_share_of_what_waits_at_the_cap(db, monkeypatch):
    monkeypatch.setattr(batch, "LEAST_SHARE", 0.9)
    server = OpenAIServer()
    outcomes = run_batch(db, server, cap=3 * WORST)
    assert {getattr(each, "kind", None) for each in outcomes} == {"budget"}
    assert any("(--max-usd) covers 3 of 6 requests" in str(each) for each in outcomes)
    assert (server.batches.created, committed(db)) == (0, 0)


async def test_requests_of_another_model_at_the_cap_make_a_job_no_smaller(db, monkeypatch):
    monkeypatch.setattr(batch, "LEAST_SHARE", 0.5)
    run, direct = make_run(db, cap_pico=4 * WORST), ScriptedEndpoint(latency_s=0.05)
    async with OpenAIServer() as server:
        endpoint = remote([server], OPENAI)
        jobs = partial(BatchJobs, endpoint, poll_s=0.02, quiet_s=0.02)
        models = Models({VLLM: direct}, {OPENAI: jobs}, retry_s=0.0005)
        async with opened(endpoint), open_asker(db, run, models) as asker:
            batched, *_ = await ask_all(asker, [REQUESTS[0], *map(question, range(20))])
    assert isinstance(batched, Answer)


async def test_another_run_collects_the_job_of_a_stopped_one(db):
    first, second = make_run(db, "first"), make_run(db, "second")
    async with OpenAIServer(batch_polls=10**6) as server:
        async with asking(db, server, first) as asker:
            asks = asyncio.create_task(ask_all(asker))
            await until(lambda: any(server.batches.asked.values()))
            asker.stop("interrupted", "interrupted")
            await asks
        server.batches.polls = 1
        async with asking(db, server, second) as other:
            assert all_answered(await ask_all(other))
        assert (server.batches.created, server.stats["paid_again"]) == (1, 0)
    with db.read() as session:
        assert set(session.scalars(select(AskRow.run_id))) == {first.id}


async def test_the_money_of_a_job_is_waited_for_until_the_run_stops(db):
    run = make_run(db, cap_pico=6 * WORST)
    async with OpenAIServer(batch_polls=10**6) as server:
        async with asking(db, server, run) as asker:
            asks = asyncio.create_task(ask_all(asker))
            await until(lambda: any(server.batches.asked.values()))
            asker.stop("interrupted", "interrupted")
            await asks
        async with asking(db, server, run) as later:
            waiting = asyncio.create_task(ask_all(later, [question(20, OPENAI)]))
            await until(later._at_cap.locked)
            await asyncio.sleep(0.05)
            later.stop("interrupted", "interrupted")
            [stopped] = await waiting
    assert isinstance(stopped, Stopped)
    assert stopped.kind == "interrupted"
    assert states(db) == ["sent"] * 6


async def test_what_another_process_sends_does_not_use_up_the_budget(db):
    run = make_run(db, cap_pico=4 * WORST + 3 * USED)
    async with (
        OpenAIServer(batch_polls=10**6) as server,
        asking(db, server, run) as first,
        asking(db, server, run) as second,
    ):
        three = asyncio.create_task(ask_all(first, REQUESTS[:3]))
        await until(lambda: server.batches.created == 1)
        six = asyncio.create_task(ask_all(second))  # the cap has room for one more
        await until(lambda: server.batches.created == 2 or six.done())
        server.batches.polls = 1
        assert all_answered(await three + await six)
        assert (server.batches.lines, server.stats["paid_again"]) == (6, 0)


def test_jobs_are_as_large_as_the_cap_allows(db):
    server = OpenAIServer()
    outcomes = run_batch(db, server, cap=3 * WORST + 2 * USED)
    answers = sum(isinstance(each, Answer) for each in outcomes)
    stopped = [each for each in outcomes if isinstance(each, Stopped)]
    assert answers + len(stopped) == 6
    assert server.batches.created > 1
    assert committed(db) == answers * USED <= 3 * WORST + 2 * USED
    assert {each.kind for each in stopped} <= {"budget"}


@pytest.mark.parametrize(
    ("refusal", "message", "final"),
    [
        ({"error": {"message": "refused"}}, "refused", False),
        ({"error": "refused"}, "refused", False),
        ({"message": "blocked by the content policy"}, "blocked by the content policy", True),
    ],
)
def test_refused_lines_fail_at_no_cost(db, refusal, message, final):
    server = OpenAIServer()
    complete = server.batches.complete

    def refuse_a_line(body: Any) -> tuple[int, dict[str, Any]]:
        return (400, refusal) if "What is 12 " in str(body) else complete(body)

    server.batches.complete = refuse_a_line
    outcomes = run_batch(db, server, cap=6 * WORST)
    assert [isinstance(each, Answer) for each in outcomes] == [True, True, False, True, True, True]
    assert isinstance(outcomes[2], Failed)
    assert (str(outcomes[2]), outcomes[2].final) == (message, final)
    assert committed(db) == 5 * USED


def test_places_without_batch_jobs_are_refused():
    two = remote(["http://a/v1", "http://b/v1"], OPENAI)
    for endpoint in (two, remote([], "anthropic/claude-3-5-sonnet-20240620")):
        with pytest.raises(InputError, match="Remove batch=true, or give one base_url"):
            check_batch(endpoint)


def test_refused_lines_between_answers_do_not_stop_the_run(db):
    server, requests = OpenAIServer(), [question(number, OPENAI) for number in range(10, 50)]
    complete = server.batches.complete
    server.batches.complete = lambda body: (400, {}) if body["seed"] % 4 == 0 else complete(body)
    outcomes = run_batch(db, server, requests=requests, halt_after=3)
    assert [isinstance(each, Answer) for each in outcomes] == [each.seed % 4 > 0 for each in requests]
    assert not any(isinstance(each, Stopped) for each in outcomes)
