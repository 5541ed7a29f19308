"""Filling cells by batch jobs: half the price, hours instead of minutes, and as safe to kill.

The cells of a job and its tag are committed before the job is sent; a process that comes back finds the job
by its tag, or sends it then.
"""

import uuid
from collections.abc import Callable, Sequence

from sqlalchemy import delete, insert, select, update

from evaluator.database import Database, utc_now
from evaluator.errors import BudgetError
from evaluator.remote import BatchClient, BatchStatus, ChatResponse, Failure
from evaluator.runs.cells import EMPTY, Cell, claim_cells, read_cells
from evaluator.runs.filling import BuildRequests, Filled, store_answers
from evaluator.runs.spending import Spending
from evaluator.runs.tables import BatchRow, CellRow

CELLS_PER_JOB = 10_000  # providers take up to 50,000 lines and 200 MB
ANSWERS_PER_COMMIT = 200
SUBMITTING, SUBMITTED, COLLECTED = "submitting", "submitted", "collected"

ReportJob = Callable[[BatchStatus], None]


async def fill_by_batch(
    db: Database,
    run_id: str,
    scope: str,
    client: BatchClient,
    build: BuildRequests,
    *,
    owner: str,
    spending: Spending,
    on_answer: Callable[[ChatResponse | Failure], None],
    report: ReportJob,
    poll_s: float,
) -> Filled:
    """Collect the jobs that are under way for the run's cells in `scope`, then send the empty cells as jobs.

    Returns when no cell is left to send or a job does not fit under the cap. Jobs are worked on one after the
    other, so that a cap on money is kept with little in reserve.
    """
    result = Filled()
    while True:
        tag = _open_job(db, run_id, scope) or _new_job(db, run_id, scope, client.endpoint.model, owner)
        if tag is None:
            return result
        requests = build(_cells(db, tag))
        if not requests:
            _set_state(db, tag, COLLECTED)
            continue
        with db.read() as session:
            spending.refresh(session, run_id, owner)
        try:
            job = await client.submit(tag, requests)
        except BudgetError as error:
            _drop_job(db, tag)
            result.stopped, result.message = "budget", str(error)
            return result
        _set_state(db, tag, SUBMITTED, remote_id=job.id)
        status = await client.wait(job.id, every_s=poll_s, report=report)
        waiting: list[tuple[int, ChatResponse | Failure]] = []
        async for request, answer in client.collect(status, requests):
            waiting.append((int(request.key), answer))
            result.count(answer)
            on_answer(answer)
            if len(waiting) >= ANSWERS_PER_COMMIT:
                store_answers(db, waiting, spending)
                waiting = []
        store_answers(db, waiting, spending)
        _set_state(db, tag, COLLECTED)


def _open_job(db: Database, run_id: str, scope: str) -> str | None:
    """Return the tag of a job that was begun for cells of this scope and not collected."""
    with db.read() as session:
        return session.scalar(
            select(BatchRow.id)
            .join(CellRow, CellRow.batch_id == BatchRow.id)
            .where(BatchRow.run_id == run_id, CellRow.scope == scope, BatchRow.state != COLLECTED)
            .order_by(BatchRow.created_at, BatchRow.id)
            .limit(1)
        )


def _new_job(db: Database, run_id: str, scope: str, model: str, owner: str) -> str | None:
    """Bind empty cells to a new tag and return it; None where no cell is free."""
    tag = uuid.uuid4().hex
    with db.write() as session:
        cells = claim_cells(session, run_id, scope, owner=owner, limit=CELLS_PER_JOB)
        if not cells:
            return None
        session.execute(
            insert(BatchRow).values(
                id=tag, run_id=run_id, model=model, remote_id=None, state=SUBMITTING, created_at=utc_now()
            )
        )
        session.execute(
            update(CellRow)
            .where(CellRow.id.in_([cell.id for cell in cells]))
            .values(batch_id=tag, lease_owner=None, lease_until=None)
        )
    return tag


def _cells(db: Database, tag: str) -> Sequence[Cell]:
    with db.read() as session:
        return read_cells(session, CellRow.batch_id == tag, CellRow.state == EMPTY)


def _drop_job(db: Database, tag: str) -> None:
    """Set the cells of a job that was never sent free again."""
    with db.write() as session:
        session.execute(update(CellRow).where(CellRow.batch_id == tag).values(batch_id=None))
        session.execute(delete(BatchRow).where(BatchRow.id == tag))


def _set_state(db: Database, tag: str, state: str, **values: str) -> None:
    with db.write() as session:
        session.execute(update(BatchRow).where(BatchRow.id == tag).values(state=state, **values))
