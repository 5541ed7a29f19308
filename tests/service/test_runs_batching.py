"""Batch jobs belong to one process at a time, are as large as the cap allows, and are found by their id."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import pytest
from capped_runs import account, make_run
from openai_server import OpenAIServer
from remote_clients import OPENAI, batch_client
from sqlalchemy import update

from service.database import Database
from service.errors import PrerequisiteError
from service.models.remote import (
    BatchClient,
    BatchStatus,
    Budget,
    ChatRequest,
    ChatResponse,
    Endpoint,
    Failure,
    Message,
    Price,
    PriceTable,
)
from service.runs import batching, cells, leases
from service.runs.batching import fill_by_batch
from service.runs.filling import CellsToAsk, Filled
from service.runs.progress import progress_of
from service.runs.spending import Account, read_account, spent_usd
from service.runs.store import Run
from service.runs.tables import CellRow

FIRST, SECOND = "here|1|1.00|scope", "here|2|2.00|scope"
WORST, COST = 2.0, 0.5


class Provider:
    """A stand-in for the client that notes the jobs it is sent and answers them, or dies at once."""

    endpoint, price = Endpoint("m"), Price(0.0, 1e6)
    LINE_BYTES = 100

    def __init__(
        self, *, dies: bool = False, max_requests: int | None = None, together: int = 0, room: int = 99
    ) -> None:
        self.dies, self.together = dies, together  # so many jobs end at the same time
        self.room = room  # for requests of jobs that are under way
        self.queued: dict[str, int] = {}
        self.taken: list[int] = []
        self.budget = Budget(max_requests=max_requests)
        self.jobs: list[tuple[str, int]] = []
        self.open = self.most_open = 0

    @property
    def sizes(self) -> list[int]:
        return [count for _, count in self.jobs]

    async def find(self, tag: str) -> BatchStatus | None:
        return None

    def line_bytes(self, request: ChatRequest) -> int:
        return self.LINE_BYTES

    async def submit(self, tag: str, requests: Sequence[ChatRequest]) -> BatchStatus:
        self.jobs.append((tag, len(requests)))
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        if self.dies:
            raise KeyboardInterrupt
        self.queued[tag] = len(requests)
        return BatchStatus(tag, "working", len(requests), 0, 0, None, None, None)

    async def wait(self, job_id: str, **_: Any) -> BatchStatus:
        while self.open < self.together:
            await asyncio.sleep(0)
        self.together, self.open = 0, self.open - 1
        fits = sum(self.queued.values()) <= self.room
        size = self.queued.pop(job_id)
        self.taken += [size] * fits
        if not fits:
            full = "Enqueued token limit reached for m. Limit: 90,000 enqueued tokens."
            return BatchStatus(job_id, "failed", 0, 0, 0, full, None, None)
        return BatchStatus(job_id, "done", 3, 3, 0, None, None, None)

    async def collect(
        self, status: BatchStatus, requests: Sequence[ChatRequest]
    ) -> AsyncIterator[tuple[ChatRequest, ChatResponse]]:
        for request in requests:
            yield request, ChatResponse((), 1, 1, COST, "m", "{}", 1, 0.0)


def to_ask(db: Database, run: Run, owner: str) -> CellsToAsk:
    def build(leased: Sequence[cells.Cell]) -> list[ChatRequest]:
        return [ChatRequest(cell.id, (Message("user", f"{cell.id}?"),), max_tokens=2) for cell in leased]

    return CellsToAsk(db, run.id, run.id, owner, build, on_answer=lambda _: None)


def fill(db: Database, run: Run, provider: Provider, owner: str = FIRST) -> Filled:
    client = cast(BatchClient, provider)
    return asyncio.run(fill_by_batch(to_ask(db, run, owner), client, report=lambda _: None, poll_s=0.01))


def test_a_job_is_sent_by_one_process_only_and_taken_over_when_that_is_dead(db: Database) -> None:
    run, dying, living = make_run(db, 100.0, 3), Provider(dies=True), Provider()
    with pytest.raises(KeyboardInterrupt):
        fill(db, run, dying, FIRST)
    ((tag, count),) = dying.jobs
    assert count == 3
    with db.write() as session:  # a kill gives nothing back
        session.execute(update(CellRow).values(**leases.new_lease(FIRST)))

    assert fill(db, run, living, SECOND).answered == 0
    assert living.jobs == []  # the first process may be sending it at this moment
    with db.read() as session:
        assert cells.open_cells(session, run.id) == 3
    assert account(db, run).reserved_usd == 3 * WORST

    with db.write() as session:
        leases.release_leases(session, FIRST)  # as of a dead process
        assert cells.open_cells(session, run.id) == 0
    assert account(db, run) == Account(100.0, 0.0, 3 * WORST)
    assert fill(db, run, living, SECOND).answered == 3
    assert living.jobs == [(tag, 3)]
    assert account(db, run) == Account(100.0, 3 * COST, 0.0)
    with db.read() as session:
        assert cells.is_complete(session, run.id)


@pytest.mark.parametrize(("count", "stopped", "final"), [(30, "settings", 0), (3, None, 3)])
def test_a_large_job_that_is_all_too_long_stops_and_makes_nothing_final(
    db: Database, monkeypatch: pytest.MonkeyPatch, count: int, stopped: str | None, final: int
) -> None:
    async def refuse(
        self: Provider, status: BatchStatus, requests: Sequence[ChatRequest]
    ) -> AsyncIterator[tuple[ChatRequest, Failure]]:
        for request in requests:
            yield request, Failure("context length", "too long", 1, final=True)

    monkeypatch.setattr(Provider, "collect", refuse)
    run = make_run(db, 100.0, count)
    assert fill(db, run, Provider()).stopped == stopped
    with db.read() as session:
        (progress,) = progress_of(session, [run])
    assert (progress.failed, progress.final) == (count - final, final)


def test_jobs_are_as_large_as_what_the_cap_leaves_and_follow_settlement(db: Database) -> None:
    run, provider = make_run(db, 10.0, 12), Provider()
    filled = fill(db, run, provider)
    # $10 cover five requests at $2; these cost $2.50, so that $7.50 cover three more, and so on.
    assert provider.sizes == [5, 3, 3, 1]
    assert (filled.answered, filled.stopped) == (12, None)
    assert account(db, run) == Account(10.0, 12 * COST, 0.0)


def test_a_cap_that_covers_no_further_job_stops_the_run(db: Database) -> None:
    run, provider = make_run(db, 4.0, 12), Provider()
    filled = fill(db, run, provider)
    assert provider.sizes == [2, 1, 1, 1]
    assert (filled.answered, filled.stopped) == (5, "budget")
    assert "$2.5000 of --max-usd 4.0 are spent" in (filled.message or "")
    with db.read() as session:
        assert spent_usd(session, run.id) == 5 * COST
        assert cells.open_cells(session, run.id) == 7


def test_a_job_of_a_few_of_very_many_requests_is_not_waited_for(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "LEAST_SHARE", 0.3)
    run, provider = make_run(db, 6.0, 12), Provider()
    filled = fill(db, run, provider)
    assert (provider.sizes, filled.stopped) == ([], "budget")
    assert "the rest is enough for 3 of 12 requests" in (filled.message or "")


def test_requests_are_capped_too(db: Database) -> None:
    run, provider = make_run(db, 100.0, 12), Provider(max_requests=4)
    filled = fill(db, run, provider)
    assert (provider.sizes, filled.stopped) == ([4], "requests")


def test_a_job_is_no_larger_than_the_file_that_a_provider_takes(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, provider = make_run(db, 100.0, 7), Provider()
    monkeypatch.setattr(batching, "JOBS_AT_ONCE", 1)
    monkeypatch.setattr(batching, "BYTES_PER_JOB", 3.5 * Provider.LINE_BYTES)
    assert fill(db, run, provider).answered == 7
    assert provider.sizes == [3, 3, 1]


def test_several_jobs_are_under_way_at_once(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "CELLS_PER_JOB", 2)
    run, provider = make_run(db, 100.0, 12), Provider(together=batching.JOBS_AT_ONCE)
    assert fill(db, run, provider).answered == 12
    assert provider.sizes == [2] * 6
    assert provider.most_open == batching.JOBS_AT_ONCE


@pytest.mark.parametrize(("room", "largest", "most"), [(8, 6, 5), (6, 6, 5), (5, 3, 9), (1, 1, 18)])
def test_jobs_shrink_to_the_room_of_the_providers_queue(
    db: Database, monkeypatch: pytest.MonkeyPatch, room: int, largest: int, most: int
) -> None:
    monkeypatch.setattr(batching, "CELLS_PER_JOB", 6)
    run, provider = make_run(db, 100.0, 13), Provider(together=3, max_requests=13, room=room)
    filled = fill(db, run, provider)
    assert (filled.answered, filled.failed) == (13, 0)
    # What three have no room for together is no measure of what fits.
    assert sorted(provider.sizes[:3]) == [1, 6, 6]
    assert (max(provider.taken), len(provider.sizes) <= most) == (largest, True)
    with db.read() as session:
        assert (spent_usd(session, run.id), read_account(session, run.id).reserved_usd) == (13 * COST, 0.0)


@pytest.mark.parametrize(
    ("statuses", "left"),
    [([400], (0.0, 3)), ([429] * 9, (0.0, 3)), ([503, 400], (3 * WORST, 0))],
    ids=["refused", "too many", "perhaps made before"],
)
def test_cells_of_a_job_that_was_never_sent_are_free_again(
    db: Database, statuses: list[int], left: tuple[float, int]
) -> None:
    run = make_run(db, 100.0, 3)

    async def main() -> None:
        async with OpenAIServer() as server:
            server.batches.fail_create = statuses
            prices = PriceTable({OPENAI: Provider.price.scaled(2)})
            async with batch_client(server, prices=prices) as client:
                await fill_by_batch(to_ask(db, run, FIRST), client, report=lambda _: None, poll_s=0.01)

    with pytest.raises(PrerequisiteError):
        asyncio.run(main())
    with db.write() as session:
        leases.release_leases(session, FIRST)  # the process ends
        alone = cells.claim_cells(session, run.id, run.id, owner=SECOND, limit=9)
        assert (read_account(session, run.id).reserved_usd, len(alone)) == left


@pytest.mark.parametrize(("room", "created"), [(2, 4), (0, 3)])
async def test_a_full_queue_is_known_by_what_the_provider_says(db: Database, room: int, created: int) -> None:
    run = make_run(db, 100.0, 5)
    async with OpenAIServer() as server:
        server.batches.room = room
        async with batch_client(server) as client:
            filled = await fill_by_batch(to_ask(db, run, FIRST), client, report=lambda _: None, poll_s=0.01)
    # Of 5, then of 2: three of these, or one of a single request, after which it is told and nothing lost.
    assert (filled.answered, filled.failed, filled.stopped) == ((5, 0, None) if room else (0, 0, "quota"))
    assert server.batches.created == created
    with db.write() as session:
        assert len(cells.claim_cells(session, run.id, run.id, owner=SECOND, limit=9)) == (0 if room else 5)


async def test_a_job_whose_id_is_known_is_asked_for_and_not_looked_for(db: Database) -> None:
    run = make_run(db, 100.0, 3)

    async def once(server: OpenAIServer, poll_s: float, owner: str) -> Filled:
        async with batch_client(server) as client:
            work = to_ask(db, run, owner)
            return await fill_by_batch(work, client, report=lambda _: None, poll_s=poll_s)

    async with OpenAIServer(batch_polls=2) as server:
        first = asyncio.create_task(once(server, 3600.0, FIRST))
        while not any(server.batches.asked.values()):
            await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert (await once(server, 0.01, SECOND)).answered == 3  # at once, on whatever machine
    assert (server.batches.created, server.batches.listed) == (1, 0)
