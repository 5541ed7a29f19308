"""Progress of runs: tasks, costs and pace."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import case, func, select, tuple_
from sqlalchemy.orm import Session

from service.asks.tables import ANSWERED, DONE, FAILED_TASK, AskRow, TaskRow
from service.errors import NotFoundError
from service.runs.store import Run, as_run
from service.runs.tables import PICO_PER_USD, RunRow, RunSpendingRow

WINDOW_S, SHORTEST_S = 300.0, 10.0


@dataclass(frozen=True)
class RunProgress:
    """A run with the state of its tasks and what it has paid for.

    Attributes:
        done, open, failed, final: tasks; `failed` ones are open and lack a request that failed, `final` ones
            need a request that failed for good.
        requests_by_kind: attempts that this run paid for, retries included.
        usd: of known prices; `unpriced` says how many requests had none.
    """

    run: Run
    done: int
    open: int
    failed: int
    final: int
    requests_by_kind: dict[str, int]
    prompt_tokens: int
    completion_tokens: int
    usd: float
    unpriced: int

    @property
    def planned(self) -> int:
        return self.done + self.open + self.failed + self.final

    @property
    def requests(self) -> int:
        return sum(self.requests_by_kind.values())

    @property
    def state(self) -> str:
        """finished, open (tasks are left), failed (all that are left did) or done."""
        if self.open:
            return "open"
        if self.failed or (self.final and not self.done):
            return "failed"
        return "finished" if self.run.finished_at else "done"


@dataclass(frozen=True)
class Pace:
    """How fast a run goes: means over the last minutes. `minutes_left` is None if no task is done."""

    requests_per_minute: float
    tokens_per_second: float
    usd_per_minute: float
    minutes_left: float | None


def page_runs(
    session: Session, *, kind: str | None = None, after: str | None = None, limit: int = 25
) -> list[RunProgress]:
    """Return up to `limit` runs older than the run with the id `after`, newest first.

    Args:
        kind: propose, eval or train; None for all.

    Raises:
        NotFoundError: `after` is not a run.
    """
    key = tuple_(RunRow.created_at, RunRow.id)
    query = select(RunRow).order_by(RunRow.created_at.desc(), RunRow.id.desc()).limit(limit)
    if kind is not None:
        query = query.where(RunRow.kind == kind)
    if after is not None:
        created_at = session.scalar(select(RunRow.created_at).where(RunRow.id == after))
        if created_at is None:
            raise NotFoundError(f"--after {after}: there is no such run.")
        query = query.where(key < (created_at, after))
    return progress_of(session, [as_run(row) for row in session.scalars(query)])


def count_runs(session: Session) -> dict[str, int]:
    """Return the number of runs by kind."""
    rows = session.execute(select(RunRow.kind, func.count()).group_by(RunRow.kind)).all()
    return dict[str, int]((kind, count) for kind, count in rows)


def progress_of(session: Session, runs: Sequence[Run]) -> list[RunProgress]:
    """Return where these runs are, in their order."""
    ids = [run.id for run in runs]
    tasks: dict[str, Counter[str]] = {id: Counter() for id in ids}
    state = case((TaskRow.state.in_((DONE, FAILED_TASK)), TaskRow.state), (TaskRow.error.is_(None), "open"))
    counted = select(TaskRow.run_id, func.coalesce(state, "with errors"), func.count())
    for id, name, count in session.execute(
        counted.where(TaskRow.run_id.in_(ids)).group_by(TaskRow.run_id, state)
    ):
        tasks[id][name] = count
    spent: dict[str, list[RunSpendingRow]] = {id: [] for id in ids}
    for row in session.scalars(select(RunSpendingRow).where(RunSpendingRow.run_id.in_(ids))):
        spent[row.run_id].append(row)
    return [_progress(run, tasks[run.id], spent[run.id]) for run in runs]


def _progress(run: Run, tasks: Counter[str], spent: Sequence[RunSpendingRow]) -> RunProgress:
    by_kind: Counter[str] = Counter()
    for row in spent:
        by_kind[row.kind] += row.requests
    return RunProgress(
        run=run,
        done=tasks[DONE],
        open=tasks["open"],
        failed=tasks["with errors"],
        final=tasks[FAILED_TASK],
        requests_by_kind=dict(sorted(by_kind.items())),
        prompt_tokens=sum(row.prompt_tokens for row in spent),
        completion_tokens=sum(row.completion_tokens for row in spent),
        usd=sum(row.pico_usd for row in spent) / PICO_PER_USD,
        unpriced=sum(row.unpriced for row in spent),
    )


def spent_in_all(session: Session) -> tuple[float, int]:
    """Return the USD that all runs have spent, as far as prices are known, and the requests without one."""
    pico, unpriced = session.execute(
        select(
            func.coalesce(func.sum(RunSpendingRow.pico_usd), 0),
            func.coalesce(func.sum(RunSpendingRow.unpriced), 0),
        )
    ).one()
    return pico / PICO_PER_USD, int(unpriced)


def last_ended(session: Session, run_id: str) -> float | None:
    """Return the time of the run's last request that ended, None if there is none."""
    return session.scalar(select(func.max(AskRow.ended_at)).where(AskRow.run_id == run_id))


def pace(session: Session, progress: RunProgress, now: float) -> Pace | None:
    """Return the pace over the `WINDOW_S` seconds before `now`; None if nothing was answered in them.

    A run that began in them is measured from its first request that ended. What is left is estimated from
    the requests that a finished task has taken.
    """
    answered, tokens, pico, first = session.execute(
        select(
            func.sum(case((AskRow.state == ANSWERED, 1), else_=0)),
            func.sum(AskRow.completion_tokens),
            func.sum(func.coalesce(AskRow.cost_pico, AskRow.worst_pico)),
            func.min(AskRow.ended_at),
        ).where(AskRow.run_id == progress.run.id, AskRow.ended_at.between(now - WINDOW_S, now))
    ).one()
    if not answered:
        return None
    minutes = max(SHORTEST_S, now - first) / 60
    left = progress.open + progress.failed
    return Pace(
        requests_per_minute=int(answered) / minutes,
        tokens_per_second=int(tokens or 0) / minutes / 60,
        usd_per_minute=int(pico or 0) / PICO_PER_USD / minutes,
        minutes_left=left * progress.requests / progress.done / int(answered) * minutes
        if progress.done
        else None,
    )


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
