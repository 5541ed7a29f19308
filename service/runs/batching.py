"""Filling cells by batch jobs: half the price, hours instead of minutes, and as safe to kill.

The cells of a job, its tag and what it may cost are committed before the job is sent. A process that comes
back asks for the job by its id, or looks for its tag where the id was not noted any more, or sends it then.
The process that waits for a job holds its cells' leases all the time, so that another one neither sends the
job again nor forgets what it may cost.
"""

import asyncio
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from sqlalchemy import delete, insert, or_, select, update
from sqlalchemy.orm import Session

from service.database import Database, utc_now
from service.models.remote import BatchClient, BatchStatus, ChatRequest, ChatResponse, Failure
from service.models.remote.batch import NotSentError
from service.models.remote.chat import CONTEXT_LENGTH, QUOTA, SETTINGS
from service.models.remote.money import worst_case_usd
from service.models.stopping import HALT_AFTER
from service.runs.cells import Cell, allow_again, claim_cells, has_answers, read_cells
from service.runs.filling import CellsToAsk, Filled
from service.runs.leases import NO_LEASE, is_free, keep_leases, new_lease, release_leases
from service.runs.spending import read_account, reserve_cells
from service.runs.tables import EMPTY, BatchRow, CellRow

CELLS_PER_JOB = 10_000  # providers take up to 50,000 lines
BYTES_PER_JOB = 150e6  # and 200 MB
JOBS_AT_ONCE = 4
LEAST_SHARE = 0.01  # of the open cells in a job; with less under the cap, days would go by for a few answers
ANSWERS_PER_COMMIT = 200
SUBMITTING, SUBMITTED, COLLECTED = "submitting", "submitted", "collected"

ReportJob = Callable[[BatchStatus], None]


@dataclass(frozen=True)
class _Job:
    """A job to be worked on; `begun` by an earlier process, which may have sent it."""

    tag: str
    begun: bool
    remote_id: str | None = None


async def fill_by_batch(
    cells: CellsToAsk, client: BatchClient, *, report: ReportJob, poll_s: float
) -> Filled:
    """Collect the jobs that are under way for the cells, and send the empty cells as jobs, a few at once.

    A job is as large as what the caps leave; the next is made once one has turned out cheaper than its worst
    case. Returns when no cell is left to send, or when nothing is under way and the caps leave no room; jobs
    that other processes wait for are theirs.
    """
    jobs = _Jobs(cells, client, report, poll_s)
    running: dict[asyncio.Task[None], str] = {}
    with keep_leases(cells.db, cells.owner):
        try:
            while True:
                while (job := jobs.next_job(running.values())) is not None:
                    running[asyncio.create_task(jobs.carry_out(job))] = job.tag
                if not running:
                    return jobs.result
                ended, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in ended:
                    del running[task]
                    task.result()
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            await asyncio.to_thread(_release, cells)  # another machine may collect them from now on


class _Jobs:
    """The jobs of one pass."""

    def __init__(self, cells: CellsToAsk, client: BatchClient, report: ReportJob, poll_s: float) -> None:
        self.result = Filled()
        self._cells, self._client, self._report, self._poll_s = cells, client, report, poll_s
        self._statuses: dict[str, BatchStatus] = {}
        self._largest, self._at_once = CELLS_PER_JOB, JOBS_AT_ONCE
        self._alone: str | None = None
        """The tag of the job that is under way with no other beside it, from its begin on."""

    def next_job(self, running: Collection[str]) -> _Job | None:
        """Return a job that was left behind, else a new one; None where there is nothing to send now.

        With nothing running, what does not fit under a cap now never will: the result says so.
        """
        if len(running) >= self._at_once:
            return None
        job = _take_job(self._cells, running)
        if job is None and self.result.stopped is None:
            job, misfit = _new_job(self._cells, self._client, self._largest)
            if misfit is not None and not running:
                self.result.stopped, self.result.message = misfit
        if job is not None:
            self._alone = None if running else job.tag
        return job

    async def carry_out(self, job: _Job) -> None:
        """Send a job where it was not, wait for it and store its answers."""
        db, client = self._cells.db, self._client
        leased = await asyncio.to_thread(_job_cells, db, job.tag)
        if leased:
            requests = await asyncio.to_thread(self._cells.build, leased)
            status = await client.wait(
                await self._send(job, requests),
                every_s=self._poll_s,
                report=lambda status: self._count(job.tag, status),
            )
            if status.queue_is_full:
                self._shrink(job, len(leased), str(status.message))
                await asyncio.to_thread(_give_up, db, job.tag)
                return
            await self._collect(status, requests)
        _set_state(db, job.tag, COLLECTED)

    def _shrink(self, job: _Job, size: int, message: str) -> None:
        """Go on with one job at a time, as the provider's queue had no room for this one.

        Where it was alone those that follow are half as large, and after a single request the pass ends.
        """
        self._at_once = 1
        self._statuses.pop(job.tag, None)
        if not job.begun:
            self._client.budget.requests -= size
        if job.tag != self._alone:
            return
        if size == 1:
            self.result.stopped = QUOTA
            self.result.message = (
                f"{message.rstrip('.')}; nothing is lost, go on once other batch jobs have ended"
            )
        self._largest = max(1, size // 2)

    async def _send(self, job: _Job, requests: Sequence[ChatRequest]) -> str:
        if job.remote_id is not None:
            return job.remote_id
        sent = await self._client.find(job.tag) if job.begun else None
        if sent is None:
            try:
                sent = await self._client.submit(job.tag, requests)
            except NotSentError:
                _give_up(self._cells.db, job.tag)
                raise
        _set_state(self._cells.db, job.tag, SUBMITTED, remote_id=sent.id)
        return sent.id

    async def _collect(self, status: BatchStatus, requests: Sequence[ChatRequest]) -> None:
        waiting: list[tuple[int, ChatResponse | Failure]] = []
        too_long: list[int] = []
        async for request, answer in self._client.collect(status, requests):
            waiting.append((int(request.key), answer))
            if isinstance(answer, Failure) and answer.kind == CONTEXT_LENGTH:
                too_long.append(int(request.key))
            elif isinstance(answer, Failure) and answer.kind == SETTINGS:
                self.result.stopped, self.result.message = SETTINGS, answer.message
            self.result.count(answer)
            self._cells.on_answer(answer)
            if len(waiting) >= ANSWERS_PER_COMMIT:
                await asyncio.to_thread(self._cells.store, waiting)
                waiting = []
        await asyncio.to_thread(self._cells.store, waiting)
        if len(too_long) == len(requests) >= HALT_AFTER:
            await asyncio.to_thread(self._doubt, too_long)

    def _doubt(self, too_long: Sequence[int]) -> None:
        """Stop where a whole job was refused as too long and nothing was ever answered: see `Stream`."""
        with self._cells.db.write() as session:
            if not has_answers(session, self._cells.scope):
                allow_again(session, too_long)
                self.result.stopped = SETTINGS
                self.result.message = (
                    f"all {len(too_long):,} requests of a batch job were refused as too long for the model's "
                    "context"
                )

    def _count(self, tag: str, status: BatchStatus) -> None:
        """Report how far all jobs of this pass are together."""
        self._statuses[tag] = status
        jobs = self._statuses.values()
        self._report(
            replace(
                status,
                total=sum(job.total for job in jobs),
                completed=sum(job.completed for job in jobs),
                failed=sum(job.failed for job in jobs),
            )
        )


def _take_job(cells: CellsToAsk, running: Collection[str]) -> _Job | None:
    """Lease a job that was begun for cells of this scope, not collected, and that nobody waits for."""
    with cells.db.write() as session:
        row = session.execute(
            select(BatchRow.id, BatchRow.remote_id)
            .join(CellRow, CellRow.batch_id == BatchRow.id)
            .where(
                BatchRow.run_id == cells.run_id,
                BatchRow.id.not_in(running),
                CellRow.scope == cells.scope,
                CellRow.state == EMPTY,
                BatchRow.state != COLLECTED,
                or_(CellRow.lease_owner == cells.owner, is_free()),
            )
            .order_by(BatchRow.created_at, BatchRow.id)
            .limit(1)
        ).first()
        if row is None:
            return None
        session.execute(
            update(CellRow)
            .where(CellRow.batch_id == row.id, CellRow.state == EMPTY)
            .values(**new_lease(cells.owner))
        )
        return _Job(row.id, True, row.remote_id)


def _new_job(
    cells: CellsToAsk, client: BatchClient, largest: int
) -> tuple[_Job | None, tuple[str, str] | None]:
    """Bind empty cells, as many as the caps leave room for, to a new job and reserve what it may cost.

    Returns the job, or why there is none although cells are empty: the kind of cap, and a sentence.
    """
    job = _Job(uuid.uuid4().hex, False)
    with cells.db.write() as session:
        leased = claim_cells(session, cells.run_id, cells.scope, owner=cells.owner, limit=largest)
        if not leased:
            return None, None
        requests = cells.build(leased)
        worst = [worst_case_usd(request, client.price) or 0.0 for request in requests]
        account = read_account(session, cells.run_id)
        fitting = sum(total <= account.left_usd for total in accumulate(worst))
        asked, budget = _in_one_file(requests, client), client.budget
        if budget.max_requests is not None:
            asked = min(asked, budget.max_requests - budget.requests)
        count = min(fitting, asked) if fitting >= LEAST_SHARE * len(leased) else 0
        _unlease(session, leased[count:])
        if not count:
            return None, _misfit(fitting, len(leased), account.describe(), budget.max_requests)
        ids = [cell.id for cell in leased[:count]]
        session.execute(
            insert(BatchRow).values(
                id=job.tag,
                run_id=cells.run_id,
                model=client.endpoint.model,
                remote_id=None,
                state=SUBMITTING,
                created_at=utc_now(),
            )
        )
        session.execute(update(CellRow).where(CellRow.id.in_(ids)).values(batch_id=job.tag))
        reserve_cells(session, dict(zip(ids, worst, strict=False)))
    budget.requests += count
    return job, None


def _in_one_file(requests: Sequence[ChatRequest], client: BatchClient) -> int:
    """Return how many of these requests, one at least, a provider takes in one file."""
    sizes = accumulate(map(client.line_bytes, requests))
    return max(1, sum(size <= BYTES_PER_JOB for size in sizes))


def _misfit(fitting: int, wanted: int, account: str, max_requests: int | None) -> tuple[str, str]:
    if fitting >= LEAST_SHARE * wanted:
        return "requests", f"--max-requests {max_requests} is reached"
    few = f"is enough for {fitting:,} of {wanted:,} requests" if fitting else "might not pay the next request"
    return "budget", f"{account}, and the rest {few}"


def _unlease(session: Session, leased: Sequence[Cell]) -> None:
    session.execute(update(CellRow).where(CellRow.id.in_([cell.id for cell in leased])).values(**NO_LEASE))


def _release(cells: CellsToAsk) -> None:
    with cells.db.write() as session:
        release_leases(session, cells.owner)


def _give_up(db: Database, tag: str) -> None:
    """Free the cells of a job that was never taken: to be asked in another way, and to cost nothing."""
    with db.write() as session:
        session.execute(
            update(CellRow)
            .where(CellRow.batch_id == tag)
            .values(**NO_LEASE, batch_id=None, reserved_usd=None)
        )
        session.execute(delete(BatchRow).where(BatchRow.id == tag))


def _job_cells(db: Database, tag: str) -> Sequence[Cell]:
    with db.read() as session:
        return read_cells(session, CellRow.batch_id == tag, CellRow.state == EMPTY)


def _set_state(db: Database, tag: str, state: str, **values: str) -> None:
    with db.write() as session:
        session.execute(update(BatchRow).where(BatchRow.id == tag).values(state=state, **values))
