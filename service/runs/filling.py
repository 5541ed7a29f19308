"""Filling cells: lease, ask, store. A raw answer is committed before its place in the queue is given away."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from sqlalchemy.orm import Session

from service.database import Database
from service.models.remote import ChatRequest, ChatResponse, Failure, RemoteClient
from service.models.remote.chat import INTERRUPTED, SETTINGS
from service.models.remote.money import Ledger
from service.models.remote.stream import FAILING
from service.process import this_process
from service.runs.cells import Cell, Receipt, allow_again, claim_cells, fail_cell, fill_cell, has_answers
from service.runs.grouping import Grouped
from service.runs.leases import keep_leases, release_leases
from service.runs.watchdog import Watchdog

BuildRequests = Callable[[Sequence[Cell]], list[ChatRequest]]
"""Turns leased cells into requests, one each in the same order; the request's key is the cell's id."""

Keep = Callable[[Session, int, ChatResponse, Receipt], None]
"""Stores an answer in the transaction that fills its cell (by id); `keep_raw` stores it as it came."""

CELLS_PER_CLAIM = 64
_IN_DOUBT = (FAILING, SETTINGS, INTERRUPTED)
"""Stops after which the last failures may be the server's or the settings' fault, and so are not final."""


@dataclass
class Filled:
    """What one pass of filling did."""

    answered: int = 0
    failed: int = 0
    stopped: str | None = None  # why it stopped before all cells were asked: budget, authentication, ...
    message: str | None = None
    failures: dict[str, int] = field(default_factory=dict)

    def count(self, answer: ChatResponse | Failure) -> None:
        """Count one answer or failure."""
        if isinstance(answer, Failure):
            self.failed += 1
            self.failures[answer.kind] = self.failures.get(answer.kind, 0) + 1
        else:
            self.answered += 1


def keep_raw(session: Session, cell_id: int, answer: ChatResponse, receipt: Receipt) -> None:
    """Store the raw answer, to be read later."""
    fill_cell(session, cell_id, answer.raw, receipt)


@dataclass(frozen=True)
class CellsToAsk:
    """The empty cells of a run in `scope` that a remote model is asked for, and what becomes of its answers.

    `on_answer` is told each answer once it is stored. `keep` may be called again with an answer whose
    transaction was cut off; `forget` is told the cells that it is not called with any more.
    """

    db: Database
    run_id: str
    scope: str
    owner: str
    build: BuildRequests
    on_answer: Callable[[ChatResponse | Failure], None]
    keep: Keep = keep_raw
    forget: Callable[[Sequence[int]], None] = lambda cell_ids: None

    def store(self, answers: Sequence[tuple[int, ChatResponse | Failure]]) -> None:
        """Commit answers by cell id in one transaction."""
        self.db.write_again(lambda session: self._store(session, answers))
        self.forget([cell_id for cell_id, _ in answers])

    def _store(self, session: Session, answers: Sequence[tuple[int, ChatResponse | Failure]]) -> None:
        for cell_id, answer in answers:
            if isinstance(answer, Failure):
                message = f"{answer.kind}: {answer.message}"
                fail_cell(
                    session,
                    cell_id,
                    message,
                    attempts=answer.attempts,
                    cost_usd=answer.cost_usd,
                    doubtful_usd=answer.doubtful_usd,
                    final=answer.final,
                )
            else:
                self.keep(session, cell_id, answer, _receipt(answer))


class CellWriter:
    """Commits answers of many requests in one transaction each time the database is free.

    `store` returns when the answer is on disk, so a request stays in flight until then: killing the process
    loses at most what was in flight.
    """

    def __init__(self, cells: CellsToAsk, ledger: Ledger | None = None) -> None:
        self._cells, self._ledger = cells, ledger
        self._answers = Grouped(self._commit)

    async def store(self, cell_id: int, answer: ChatResponse | Failure) -> None:
        """Store one answer; returns once it is committed.

        Raises:
            DatabaseError: the disk is full or the file cannot be written.
        """
        await self._answers.do((cell_id, answer))

    async def _commit(self, answers: Sequence[tuple[int, ChatResponse | Failure]]) -> list[None]:
        try:
            await asyncio.to_thread(self._cells.store, answers)
        finally:
            if self._ledger is not None:
                self._ledger.settled(cell_id for cell_id, _ in answers)
        return [None] * len(answers)


async def fill_cells(cells: CellsToAsk, client: RemoteClient) -> Filled:
    """Ask for every empty cell and store what comes back.

    Cells are leased a few at a time, as the client takes them, so another process of the same run finds work
    too. Returns when none is left to lease, the budget is spent, or every further request would fail. Where
    nothing was answered at the end and it had to stop, the last failures are not final: a server that hangs
    lets every request run out of time.
    """
    db, owner = cells.db, cells.owner
    writer = CellWriter(cells, client.budget.ledger)
    result = Filled()
    finals: list[int] = []  # since the last answer
    watchdog = Watchdog(client.where, this_process().words, client.stall_s, others=client.complaints)

    def lease() -> list[ChatRequest]:
        return cells.build(
            db.write_again(
                lambda session: claim_cells(
                    session, cells.run_id, cells.scope, owner=owner, limit=CELLS_PER_CLAIM
                )
            )
        )

    async def requests() -> AsyncIterator[ChatRequest]:
        while True:
            leased = await asyncio.to_thread(lease)
            if not leased:
                return
            for request in leased:
                watchdog.sent(str(request.key))
                yield request

    async def store(request: ChatRequest, answer: ChatResponse | Failure) -> None:
        watchdog.came(str(request.key))
        await writer.store(int(request.key), answer)
        result.count(answer)
        if isinstance(answer, ChatResponse):
            finals.clear()
        elif answer.final:
            finals.append(int(request.key))
        cells.on_answer(answer)

    def release(session: Session) -> None:
        release_leases(session, owner)
        if result.stopped in _IN_DOUBT:
            allow_again(session, finals)

    with db.read() as session:
        answered_before = has_answers(session, cells.scope)

    watching = asyncio.create_task(watchdog.watch())
    try:
        with keep_leases(db, owner):
            outcome = await client.run(requests(), store, answered_before=answered_before)
        result.stopped, result.message = outcome.stopped, outcome.message
    finally:
        watching.cancel()
        # In a thread: other models' answers are on their way while this waits for the write lock.
        await asyncio.to_thread(db.write_again, release)
    return result


def _receipt(answer: ChatResponse) -> Receipt:
    return Receipt(
        model=answer.model,
        prompt_tokens=answer.prompt_tokens,
        completion_tokens=answer.completion_tokens,
        cost_usd=answer.cost_usd,
        attempts=answer.attempts,
        latency_s=answer.latency_s,
        doubtful_usd=answer.doubtful_usd,
    )
