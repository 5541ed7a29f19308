"""Filling cells by batch jobs: half the price, hours instead of minutes, and as safe to kill.

The cells of a job and its tag are committed before the job is sent; a process that comes back finds the job
by its tag, or sends it then. The process that waits for a job holds its cells' leases all the time, so that
another one neither sends the job again nor forgets what it may cost.
"""

import uuid
from collections.abc import Callable, Sequence

from sqlalchemy import delete, insert, or_, select, update

from service.database import Database, utc_now
from service.errors import BudgetError
from service.models.remote import BatchClient, BatchStatus, ChatResponse, Failure
from service.runs.cells import Cell, claim_cells, read_cells
from service.runs.filling import CellsToAsk, Filled
from service.runs.leases import NO_LEASE, is_free, keep_leases, new_lease
from service.runs.tables import EMPTY, BatchRow, CellRow

CELLS_PER_JOB = 10_000  # providers take up to 50,000 lines and 200 MB
ANSWERS_PER_COMMIT = 200
SUBMITTING, SUBMITTED, COLLECTED = "submitting", "submitted", "collected"

ReportJob = Callable[[BatchStatus], None]


async def fill_by_batch(
    cells: CellsToAsk, client: BatchClient, *, report: ReportJob, poll_s: float
) -> Filled:
    """Collect the jobs that are under way for the cells, then send the empty cells as jobs.

    Returns when no cell is left to send or a job does not fit under the cap; jobs that other processes wait
    for are theirs. Jobs are worked on one after the other, so that a cap on money is kept with little in
    reserve.
    """
    db, result = cells.db, Filled()
    with keep_leases(db, cells.owner):
        while (tag := _take_job(cells) or _new_job(cells, client.endpoint.model)) is not None:
            leased = _cells(db, tag)
            if not leased:
                _set_state(db, tag, COLLECTED)
                continue
            with db.write() as session:
                cells.spending.refresh(session, cells.run_id, cells.owner)
                requests = cells.reserve(session, leased, client.price)
            try:
                job = await client.submit(tag, requests)
            except BudgetError as error:
                _drop_job(db, tag)
                result.stopped, result.message = "budget", str(error)
                break
            _set_state(db, tag, SUBMITTED, remote_id=job.id)
            status = await client.wait(job.id, every_s=poll_s, report=report)
            waiting: list[tuple[int, ChatResponse | Failure]] = []
            async for request, answer in client.collect(status, requests):
                waiting.append((int(request.key), answer))
                result.count(answer)
                cells.on_answer(answer)
                if len(waiting) >= ANSWERS_PER_COMMIT:
                    cells.store(waiting)
                    waiting = []
            cells.store(waiting)
            _set_state(db, tag, COLLECTED)
    return result


def _take_job(cells: CellsToAsk) -> str | None:
    """Lease a job that was begun for cells of this scope, not collected, and that nobody waits for."""
    with cells.db.write() as session:
        tag = session.scalar(
            select(BatchRow.id)
            .join(CellRow, CellRow.batch_id == BatchRow.id)
            .where(
                BatchRow.run_id == cells.run_id,
                CellRow.scope == cells.scope,
                CellRow.state == EMPTY,
                BatchRow.state != COLLECTED,
                or_(CellRow.lease_owner == cells.owner, is_free()),
            )
            .order_by(BatchRow.created_at, BatchRow.id)
            .limit(1)
        )
        if tag is not None:
            session.execute(
                update(CellRow)
                .where(CellRow.batch_id == tag, CellRow.state == EMPTY)
                .values(**new_lease(cells.owner))
            )
        return tag


def _new_job(cells: CellsToAsk, model: str) -> str | None:
    """Bind empty cells to a new tag and return it; None where no cell is free."""
    tag = uuid.uuid4().hex
    with cells.db.write() as session:
        leased = claim_cells(session, cells.run_id, cells.scope, owner=cells.owner, limit=CELLS_PER_JOB)
        if not leased:
            return None
        session.execute(
            insert(BatchRow).values(
                id=tag,
                run_id=cells.run_id,
                model=model,
                remote_id=None,
                state=SUBMITTING,
                created_at=utc_now(),
            )
        )
        session.execute(
            update(CellRow).where(CellRow.id.in_([cell.id for cell in leased])).values(batch_id=tag)
        )
    return tag


def _cells(db: Database, tag: str) -> Sequence[Cell]:
    with db.read() as session:
        return read_cells(session, CellRow.batch_id == tag, CellRow.state == EMPTY)


def _drop_job(db: Database, tag: str) -> None:
    """Set the cells of a job that was never sent free again."""
    with db.write() as session:
        session.execute(
            update(CellRow)
            .where(CellRow.batch_id == tag)
            .values(**NO_LEASE, batch_id=None, reserved_usd=None)
        )
        session.execute(delete(BatchRow).where(BatchRow.id == tag))


def _set_state(db: Database, tag: str, state: str, **values: str) -> None:
    with db.write() as session:
        session.execute(update(BatchRow).where(BatchRow.id == tag).values(state=state, **values))
