"""Progress of runs: tasks and costs."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from service.asks.tables import DONE, FAILED_TASK, OPEN, TaskRow
from service.runs.spending import LedgerLine, read_ledgers
from service.runs.store import Run


@dataclass(frozen=True)
class RunProgress:
    """A run with the state of its tasks and what it has paid for.

    `failed` tasks are open and lack a request that failed, `final` ones need a request that failed for good.
    """

    run: Run
    done: int
    open: int
    failed: int
    final: int
    ledger: list[LedgerLine]

    @property
    def planned(self) -> int:
        return self.done + self.open + self.failed + self.final

    @property
    def usd(self) -> float:
        """Of known prices; `unpriced` says how many requests had none."""
        return sum(line.usd for line in self.ledger)

    @property
    def unpriced(self) -> int:
        return sum(line.unpriced for line in self.ledger)

    @property
    def state(self) -> str:
        """finished, open (tasks are left), failed (all that are left did) or done."""
        if self.open:
            return "open"
        if self.failed or (self.final and not self.done):
            return "failed"
        return "finished" if self.run.finished_at else "done"


def progress_of(session: Session, runs: Sequence[Run]) -> list[RunProgress]:
    """Return where these runs are, in their order."""
    ids = [run.id for run in runs]
    is_open, has_error, number = TaskRow.state == OPEN, TaskRow.error.is_not(None), func.count()
    counts = (
        number.filter(TaskRow.state == DONE),
        number.filter(is_open, ~has_error),
        number.filter(is_open, has_error),
        number.filter(TaskRow.state == FAILED_TASK),
    )
    query = select(TaskRow.run_id, *counts).where(TaskRow.run_id.in_(ids)).group_by(TaskRow.run_id)
    tasks = {id: (done, left, failed, final) for id, done, left, failed, final in session.execute(query)}
    ledgers = read_ledgers(session, ids)
    return [RunProgress(run, *tasks.get(run.id, (0, 0, 0, 0)), ledgers[run.id]) for run in runs]


def frequent_errors(session: Session, run_id: str, *, limit: int = 5) -> dict[str, int]:
    """Return the most frequent errors of the run's tasks, and how many tasks have each."""
    rows = session.execute(
        select(TaskRow.error, func.count())
        .where(TaskRow.run_id == run_id, TaskRow.error.is_not(None))
        .group_by(TaskRow.error)
        .order_by(func.count().desc(), TaskRow.error)
        .limit(limit)
    )
    return {str(error): count for error, count in rows}
