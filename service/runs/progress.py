"""Progress of runs: tasks, costs and pace."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import Integer, case, cast, func, select, tuple_
from sqlalchemy.orm import Session

from service.asks.tables import ANSWERED, DONE, FAILED_TASK, AskRow, TaskRow
from service.errors import NotFoundError
from service.runs.store import Run, as_run
from service.runs.tables import PICO_PER_USD, RunRow, RunSpendingRow

WINDOW_MINUTES = 5
SHOWN_MINUTES = 60
_MINUTE = "%Y-%m-%dT%H:%M"


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
class Minute:
    """Requests of a run that ended within a minute (`2026-01-31T12:00`, UTC)."""

    minute: str
    answered: int
    failed: int
    completion_tokens: int
    usd: float


@dataclass(frozen=True)
class Pace:
    """How fast a run goes: means over the last minutes. `minutes_left` is None if nothing was answered."""

    requests_per_minute: float
    tokens_per_second: float
    usd_per_minute: float
    minutes_left: float | None


@dataclass(frozen=True)
class ErrorCount:
    """An error of failed tasks, and how many of those looked at have it."""

    error: str
    count: int


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


def last_minutes(session: Session, run_id: str) -> list[Minute]:
    """Return the minutes of the last hour in which requests of the run ended, oldest first."""
    minute = cast(AskRow.ended_at / 60 - 0.5, Integer)
    answered = case((AskRow.state == ANSWERED, 1), else_=0)
    rows = session.execute(
        select(
            minute,
            func.sum(answered),
            func.count(),
            func.coalesce(func.sum(AskRow.completion_tokens), 0),
            func.coalesce(func.sum(func.coalesce(AskRow.cost_pico, AskRow.worst_pico)), 0),
        )
        .where(AskRow.run_id == run_id, AskRow.ended_at > time.time() - 60 * SHOWN_MINUTES)
        .group_by(minute)
        .order_by(minute)
    )
    return [
        Minute(
            datetime.fromtimestamp(60 * number, UTC).strftime(_MINUTE),
            int(good),
            int(count - good),
            int(tokens),
            int(pico) / PICO_PER_USD,
        )
        for number, good, count, tokens, pico in rows
    ]


def pace(minutes: Sequence[Minute], progress: RunProgress, now: datetime) -> Pace | None:
    """Return the pace over `WINDOW_MINUTES` whole minutes before `now`; None if nothing ended in them.

    The minute under way is left out, since it is not over, except in the first minute of a run. What is left
    is estimated from the requests that a finished task has taken.
    """
    now = now.astimezone(UTC)
    names = {(now - timedelta(minutes=back)).strftime(_MINUTE) for back in range(1, WINDOW_MINUTES + 1)}
    recent = [minute for minute in minutes if minute.minute in names]
    length = float(WINDOW_MINUTES)
    if recent:
        first = datetime.strptime(min(minute.minute for minute in minutes), _MINUTE).replace(tzinfo=UTC)
        begun = (now.replace(second=0, microsecond=0) - first).total_seconds() / 60
        length = min(length, begun)
    else:
        recent = [minute for minute in minutes if minute.minute == now.strftime(_MINUTE)]
        length = max(now.second, 1) / 60
    answered = sum(minute.answered for minute in recent)
    if not answered:
        return None
    per_minute = answered / length
    left = progress.open + progress.failed
    return Pace(
        requests_per_minute=per_minute,
        tokens_per_second=sum(minute.completion_tokens for minute in recent) / length / 60,
        usd_per_minute=sum(minute.usd for minute in recent) / length,
        minutes_left=left * progress.requests / progress.done / per_minute if progress.done else None,
    )


def frequent_errors(session: Session, run_id: str, *, limit: int = 5) -> list[ErrorCount]:
    """Return the most frequent errors of the run's tasks."""
    rows = session.execute(
        select(TaskRow.error, func.count())
        .where(TaskRow.run_id == run_id, TaskRow.error.is_not(None))
        .group_by(TaskRow.error)
        .order_by(func.count().desc(), TaskRow.error)
        .limit(limit)
    )
    return [ErrorCount(str(error), count) for error, count in rows]
