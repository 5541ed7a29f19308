"""Batch jobs belong to one process at a time; what an orphaned one may cost is not forgotten."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from service.database import Database
from service.models.remote import (
    BatchClient,
    BatchStatus,
    Budget,
    ChatRequest,
    ChatResponse,
    Endpoint,
    Message,
    Price,
)
from service.questions import make_question, store_questions
from service.runs import cells, leases
from service.runs.batching import fill_by_batch
from service.runs.filling import CellsToAsk, Filled
from service.runs.spending import Spending, reserved_usd, spent_usd
from service.runs.store import Run, open_run

QUESTIONS = [make_question(f"What is {i} + 1?", str(i + 1)) for i in range(3)]
FIRST, SECOND = "here|1|1.00|scope", "here|2|2.00|scope"


class Provider:
    """A stand-in for the client that notes the jobs it is sent and answers them, or dies at once."""

    endpoint, price = Endpoint("m"), Price(0.0, 1e6)

    def __init__(self, *, dies: bool = False) -> None:
        self.dies = dies
        self.jobs: list[tuple[str, int]] = []

    async def submit(self, tag: str, requests: Sequence[ChatRequest]) -> BatchStatus:
        self.jobs.append((tag, len(requests)))
        if self.dies:
            raise KeyboardInterrupt
        return BatchStatus("job", "done", len(requests), len(requests), 0, None, None, None)

    async def wait(self, job_id: str, **_: Any) -> BatchStatus:
        return BatchStatus(job_id, "done", 3, 3, 0, None, None, None)

    async def collect(
        self, status: BatchStatus, requests: Sequence[ChatRequest]
    ) -> AsyncIterator[tuple[ChatRequest, ChatResponse]]:
        for request in requests:
            yield request, ChatResponse((), 1, 1, 0.5, "m", "{}", 1, 0.0)


@pytest.fixture
def db(tmp_path: Path) -> Database:
    return Database.open(tmp_path / "t.db")


def make_run(db: Database) -> Run:
    with db.write() as session:
        store_questions(session, QUESTIONS)
        ids = [question.id for question in QUESTIONS]
        run, _ = open_run(session, name="run", kind="propose", spec={}, question_ids=ids, versions={})
        cells.add_cells(
            session, run.id, [cells.CellPlan(run.id, "propose", identity, 0, 0, 0) for identity in ids]
        )
    return run


def fill(db: Database, run: Run, provider: Provider, owner: str) -> Filled:
    def build(leased: Sequence[cells.Cell]) -> list[ChatRequest]:
        return [ChatRequest(cell.id, (Message("user", "?"),), max_tokens=2) for cell in leased]

    spending = Spending(Budget(max_usd=100.0), 0.0)
    to_ask = CellsToAsk(db, run.id, run.id, owner, spending, build, on_answer=lambda _: None)
    client = cast(BatchClient, provider)
    return asyncio.run(fill_by_batch(to_ask, client, report=lambda _: None, poll_s=0.01))


def test_a_job_is_sent_by_one_process_only_and_taken_over_when_that_is_dead(db: Database) -> None:
    run, dying, living = make_run(db), Provider(dies=True), Provider()
    with pytest.raises(KeyboardInterrupt):
        fill(db, run, dying, FIRST)
    ((tag, count),) = dying.jobs
    assert count == 3

    assert fill(db, run, living, SECOND).answered == 0
    assert living.jobs == []  # the first process may be sending it at this moment
    with db.read() as session:
        assert cells.open_cells(session, run.id) == 3
        assert reserved_usd(session, run.id, except_process="here|2|2.00") == 3 * 2.0

    with db.write() as session:
        leases.release_leases(session, FIRST)  # as of a dead process
        assert reserved_usd(session, run.id, except_process="here|2|2.00") == 3 * 2.0
        assert cells.open_cells(session, run.id) == 0
    assert fill(db, run, living, SECOND).answered == 3
    assert living.jobs == [(tag, 3)]
    with db.read() as session:
        assert spent_usd(session, run.id) == 1.5
        assert reserved_usd(session, run.id, except_process="here|2|2.00") == 0.0
        assert cells.is_complete(session, run.id)
