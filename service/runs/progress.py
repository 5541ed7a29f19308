"""Where runs stand: requests filled, open and failed, money, pace. From counts, so at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import func, select, tuple_
from sqlalchemy.orm import Session

from service.errors import NotFoundError
from service.runs.store import Run, as_run
from service.runs.tables import (
    EMPTY,
    FAILED,
    FILLED,
    FINAL,
    PICO_PER_USD,
    CellRow,
    RunCellCountRow,
    RunMinuteRow,
    RunRow,
    RunSpendingRow,
)

WINDOW_MINUTES = 5
ERRORS_LOOKED_AT = 1000
_MINUTE = "%Y-%m-%dT%H:%M"


@dataclass(frozen=True)
class RunProgress:
    """A run with the state of its requests and what it has paid for.

    Attributes:
        filled, open, failed, final: requests (cells) that the run needs, shared ones included; final ones
            failed and are not asked again.
        by_kind: the same by kind of request: (filled, open, failed, final).
        requests: HTTP requests made and paid for by this run, retries included.
        usd: of known prices; `unpriced` says how many requests had none.
    """

    run: Run
    filled: int
    open: int
    failed: int
    final: int
    by_kind: dict[str, tuple[int, int, int, int]]
    requests: int
    prompt_tokens: int
    completion_tokens: int
    usd: float
    unpriced: int

    @property
    def planned(self) -> int:
        return self.filled + self.open + self.failed + self.final

    @property
    def state(self) -> str:
        """finished, open (there is something to ask), failed (what is left did, or all for good) or done."""
        if self.open:
            return "open"
        if self.failed or (self.final and not self.filled):
            return "failed"
        return "finished" if self.run.finished_at else "done"


@dataclass(frozen=True)
class Minute:
    """Requests of a run that ended within a minute (`2026-01-31T12:00`, UTC)."""

    minute: str
    filled: int
    failed: int
    completion_tokens: int
    usd: float


@dataclass(frozen=True)
class Pace:
    """How fast a run goes: means over the last minutes. `minutes_left` is None where nothing was filled."""

    filled_per_minute: float
    tokens_per_second: float
    usd_per_minute: float
    minutes_left: float | None


@dataclass(frozen=True)
class ErrorCount:
    """An error of failed requests, and how many of those looked at have it."""

    error: str
    cells: int


def page_runs(
    session: Session, *, kind: str | None = None, after: str | None = None, limit: int = 25
) -> list[RunProgress]:
    """Return up to `limit` runs behind the run with the id `after`, newest first.

    Args:
        kind: propose, eval or train; None for all.

    Raises:
        NotFoundError: `after` is no run.
    """
    key = tuple_(RunRow.created_at, RunRow.id)
    query = select(RunRow).order_by(RunRow.created_at.desc(), RunRow.id.desc()).limit(limit)
    if kind is not None:
        query = query.where(RunRow.kind == kind)
    if after is not None:
        created_at = session.scalar(select(RunRow.created_at).where(RunRow.id == after))
        if created_at is None:
            raise NotFoundError(f"there is no run {after!r} to go on after.")
        query = query.where(key < (created_at, after))
    return progress_of(session, [as_run(row) for row in session.scalars(query)])


def count_runs(session: Session) -> dict[str, int]:
    """Return the number of runs by kind."""
    rows = session.execute(select(RunRow.kind, func.count()).group_by(RunRow.kind)).all()
    return dict[str, int]((kind, count) for kind, count in rows)


def progress_of(session: Session, runs: Sequence[Run]) -> list[RunProgress]:
    """Return where these runs stand, in their order."""
    ids = [run.id for run in runs]
    cells = _cells_by_state(session, ids)
    paid = {
        row.run_id: row
        for row in session.execute(
            select(
                RunSpendingRow.run_id,
                func.sum(RunSpendingRow.requests).label("requests"),
                func.sum(RunSpendingRow.prompt_tokens).label("prompt_tokens"),
                func.sum(RunSpendingRow.completion_tokens).label("completion_tokens"),
                func.sum(RunSpendingRow.pico_usd).label("pico_usd"),
                func.sum(RunSpendingRow.unpriced).label("unpriced"),
            )
            .where(RunSpendingRow.run_id.in_(ids))
            .group_by(RunSpendingRow.run_id)
        )
    }
    progress = []
    for run in runs:
        mine, spent = cells[run.id], paid.get(run.id)
        by_kind = {
            kind: (
                mine.get((kind, FILLED), 0),
                mine.get((kind, EMPTY), 0),
                mine.get((kind, FAILED), 0),
                mine.get((kind, FINAL), 0),
            )
            for kind in sorted({kind for kind, _ in mine})
        }
        filled, open_, failed, final = (
            sum(numbers[place] for numbers in by_kind.values()) for place in range(4)
        )
        progress.append(
            RunProgress(
                run,
                filled,
                open_,
                failed,
                final,
                by_kind,
                requests=spent.requests if spent else 0,
                prompt_tokens=spent.prompt_tokens if spent else 0,
                completion_tokens=spent.completion_tokens if spent else 0,
                usd=spent.pico_usd / PICO_PER_USD if spent else 0.0,
                unpriced=spent.unpriced if spent else 0,
            )
        )
    return progress


def count_states(session: Session, run_id: str) -> dict[tuple[str, str], int]:
    """Return the number of the run's cells by (kind, state), without those that no cell is in."""
    return {key: number for key, number in _cells_by_state(session, [run_id])[run_id].items() if number}


def _cells_by_state(session: Session, run_ids: Sequence[str]) -> dict[str, dict[tuple[str, str], int]]:
    cells: dict[str, dict[tuple[str, str], int]] = {run_id: {} for run_id in run_ids}
    row = RunCellCountRow
    for run_id, kind, state, number in session.execute(
        select(row.run_id, row.kind, row.state, row.cells).where(row.run_id.in_(run_ids))
    ):
        cells[run_id][kind, state] = number
    return cells


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
    """Return the last 60 minutes in which requests of the run ended, oldest first, without quiet ones.

    A request that is asked again counts where its last answer came.
    """
    rows = session.execute(
        select(
            RunMinuteRow.minute,
            RunMinuteRow.filled,
            RunMinuteRow.failed,
            RunMinuteRow.completion_tokens,
            RunMinuteRow.pico_usd,
        )
        .where(RunMinuteRow.run_id == run_id)
        .order_by(RunMinuteRow.minute.desc())
        .limit(60)
    ).all()
    return [Minute(*row[:4], row[4] / PICO_PER_USD) for row in reversed(rows)]


def pace(minutes: Sequence[Minute], open_cells: int, now: datetime) -> Pace | None:
    """Return the pace over `WINDOW_MINUTES` whole minutes before `now`; None where nothing ended in them.

    The minute under way is left out, since it is not over; in the first minute of a run it stands alone.
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
    filled = sum(minute.filled for minute in recent)
    if not filled:
        return None
    per_minute = filled / length
    return Pace(
        filled_per_minute=per_minute,
        tokens_per_second=sum(minute.completion_tokens for minute in recent) / length / 60,
        usd_per_minute=sum(minute.usd for minute in recent) / length,
        minutes_left=open_cells / per_minute,
    )


def frequent_errors(session: Session, run_id: str, *, limit: int = 5) -> list[ErrorCount]:
    """Return the most frequent errors among 1,000 failed requests that the run paid for, or all if fewer."""
    failed = (
        select(CellRow.error)
        .where(CellRow.paid_by == run_id, CellRow.state.in_([FAILED, FINAL]))
        .limit(ERRORS_LOOKED_AT)
        .subquery()
    )
    rows = session.execute(
        select(failed.c.error, func.count())
        .group_by(failed.c.error)
        .order_by(func.count().desc(), failed.c.error)
        .limit(limit)
    )
    return [ErrorCount(str(error), count) for error, count in rows]
